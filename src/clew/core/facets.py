"""Facets: what filters see of a chunk, as one set of `field value` strings, the same in every store.

A Filter becomes alternative conditions, each of groups of facets: a chunk must have a facet of every group. An index
then needs only one posting list, payload field or array column.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document, DocumentRecord

MAX_ALTERNATIVES = 20_000  # of a filter: they double with each `any_of` of two in an `all_of`
_SEPARATOR = "\x1f"
RESTRICTED, OPEN = "access", "open"  # a chunk has one of the two: only those with its labels may see it, or all


def collect_facets(document: Document | DocumentRecord, chunk: Chunk | None = None) -> frozenset[str]:
    """Collect the facets of a chunk: document, kind, channel, author and meta, the chunk's meta over the document's.

    Without a chunk, those of the document alone.
    """
    own = chunk.meta if chunk else {}
    pairs = [("document", document.id), ("kind", document.kind)]
    if meta := {**document.meta, **own}:
        pairs += [(name, value) for name in ("channel", "author") for value in _flatten_values(meta.get(name))]
        pairs += [(f"meta.{key}", value) for key, given in meta.items() for value in _flatten_values(given)]
    access = own.get("access", document.access)
    pairs += [("access", label) for label in access or ()]
    return frozenset([*[_encode_facet(*pair) for pair in pairs], OPEN if access is None else RESTRICTED])


@dataclass(frozen=True, slots=True)
class Condition:
    """What a chunk must fulfil: a facet of every group, and a time in the range (seconds)."""

    groups: tuple[frozenset[str], ...] = ()
    since: float | None = None
    until: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it admits every chunk."""
        return self == _NO_CONDITION

    @property
    def is_timed(self) -> bool:
        """Whether it has a time range."""
        return self.since is not None or self.until is not None

    def admits_facets(self, facets: Set[str]) -> bool:
        """Return whether a chunk with these facets is admitted, whatever its time."""
        return all(not group.isdisjoint(facets) for group in self.groups)

    def admits_time(self, seconds: float | None) -> bool:
        """Return whether a chunk of this time is admitted; one without a time is outside every range."""
        if not self.is_timed:
            return True
        if seconds is None:
            return False
        return (self.since is None or seconds >= self.since) and (self.until is None or seconds < self.until)


def expand_filter(where: Filter) -> tuple[Condition, ...]:
    """Expand the filter to alternatives: a chunk is admitted if it fulfils any of them. None: nothing is admitted."""
    if where is EVERYTHING:
        return (_NO_CONDITION,)
    alternatives = _expand_own_fields(where)
    for each in where.all_of:
        alternatives = combine_conditions(alternatives, expand_filter(each))
    if where.any_of is not None:
        alternatives = combine_conditions(
            alternatives, tuple(each for side in where.any_of for each in expand_filter(side))
        )
    return tuple(dict.fromkeys(alternatives))


def splits_documents(where: Filter) -> bool:
    """Return whether a filter may admit some chunks of a document and not others: by author, time, label or meta."""
    own = (where.authors, where.since, where.until, where.access, where.meta or None)
    return any(each is not None for each in own) or any(map(splits_documents, (*where.all_of, *(where.any_of or ()))))


def expand_document_filter(where: Filter) -> tuple[Condition, ...]:
    """Expand a filter to alternatives for whole documents; authors and times are conditions on their chunks."""
    return tuple(
        dict.fromkeys(
            Condition(tuple(group for group in each.groups if get_facet_field(group) != "author"))
            for each in expand_filter(where)
        )
    )


def find_named_documents(condition: Condition) -> list[str] | None:
    """Find the ids of the documents that a condition names; None if it names none."""
    named = [set(get_facet_values(group)) for group in condition.groups if get_facet_field(group) == "document"]
    return sorted(set.intersection(*named)) if named else None


def admits_channels(condition: Condition, channels: Collection[str]) -> bool:
    """Return whether a condition may admit chunks that are in one of the channels themselves, not by their document."""
    named = (group for group in condition.groups if get_facet_field(group) == "channel")
    return all(not set(get_facet_values(group)).isdisjoint(channels) for group in named)


def get_facet_field(group: Set[str]) -> str:
    """Return the field of the facets of a group: document, kind, channel, author, access or meta.NAME."""
    return next(iter(group)).partition(_SEPARATOR)[0]


def get_facet_values(group: Set[str]) -> list[str]:
    """Return the values of the facets of a group, sorted."""
    return sorted(facet.partition(_SEPARATOR)[2] for facet in group)


def make_label_facets(labels: Iterable[str]) -> frozenset[str]:
    """Make the facets of labels of access."""
    return _encode_group("access", frozenset(labels))


def fold_channel_signs(names: Set[str]) -> frozenset[str]:
    """Return the channels that names stand for: `#ops` is the channel of that name, or `ops`, which people write so."""
    return frozenset(names) | {name[1:] for name in names if name.startswith("#") and len(name) > 1}


def admits_chunk(where: Filter, document: Document, chunk: Chunk) -> bool:
    """Return whether a filter admits a chunk of a document."""
    facets, seconds = collect_facets(document, chunk), to_timestamp(chunk.at)
    return any(each.admits_facets(facets) and each.admits_time(seconds) for each in expand_filter(where))


def _expand_own_fields(where: Filter) -> tuple[Condition, ...]:
    named = {
        "document": where.documents,
        "kind": where.kinds,
        "channel": None if where.channels is None else fold_channel_signs(where.channels),
        "author": where.authors,
        **{f"meta.{key}": frozenset(_flatten_values(value)) for key, value in where.meta.items()},
    }
    groups = tuple(
        _encode_group(name, frozenset(values))
        for name, values in named.items()
        if values is not None  # a meta key without a value matches no chunk
    )
    if not all(groups) or where.access == frozenset():
        return ()
    labels = () if where.access is None else (make_label_facets(where.access) | {OPEN},)
    return (Condition((*groups, *labels), to_timestamp(where.since), to_timestamp(where.until)),)


def combine_conditions(some: Sequence[Condition], others: Sequence[Condition]) -> tuple[Condition, ...]:
    """Combine conditions into those that are fulfilled where one of each side is."""
    if len(some) * len(others) > MAX_ALTERNATIVES:
        raise SettingsError(
            f"a Filter has more than {MAX_ALTERNATIVES:,} alternatives: each `any_of` in an `all_of` multiplies them; "
            "write it with fewer"
        )
    return tuple(
        Condition(
            tuple(dict.fromkeys((*a.groups, *b.groups))),
            max((at for at in (a.since, b.since) if at is not None), default=None),
            min((at for at in (a.until, b.until) if at is not None), default=None),
        )
        for a in some
        for b in others
    )


def _encode_facet(name: str, value: str) -> str:
    return f"{name}{_SEPARATOR}{value}"


@lru_cache(32)  # of the same filter it is asked many times a search
def _encode_group(name: str, values: frozenset[str]) -> frozenset[str]:
    """Encode the facets of a field that has one of the values, of which there may be thousands."""
    prefix = _encode_facet(name, "")
    return frozenset([prefix + value for value in values])


def _flatten_values(value: Any) -> Iterable[str]:
    if isinstance(value, str):  # most are
        return [value]
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in _flatten_values(member)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, float) and value.is_integer():
        return [str(int(value))]
    return [str(value)]


_NO_CONDITION = Condition()
MESSAGE = _encode_facet("meta.message", "")  # begins a facet of a message, or of a part of one
