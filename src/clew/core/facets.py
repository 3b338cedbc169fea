"""Facets: the filterable properties of a chunk as one set of `field value` strings, the same in every store.

A Filter becomes alternative conditions, each with groups of facets: a chunk must have a facet from every group. An
index then needs only one posting list, payload field or array column.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document, DocumentRecord

MAX_ALTERNATIVES = 20_000  # per filter: each `any_of` of two filters in an `all_of` doubles them
_SEPARATOR = "\x1f"
RESTRICTED, OPEN = "access", "open"  # every chunk has one: visible only with one of its labels, or to everybody


def collect_facets(document: Document | DocumentRecord, chunk: Chunk | None = None) -> frozenset[str]:
    """Collect the facets of a chunk, or of a document alone: document, kind, channel, author, meta and access.

    The meta of the chunk overrides that of the document.
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
    """A condition on a chunk: it has a facet from every group, and a time in the range (seconds)."""

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
        """Return whether the groups admit a chunk with these facets; ignores the time."""
        return all(not group.isdisjoint(facets) for group in self.groups)

    def admits_time(self, seconds: float | None) -> bool:
        """Return whether the range admits a time; no time is outside every range."""
        if not self.is_timed:
            return True
        if seconds is None:
            return False
        return (self.since is None or seconds >= self.since) and (self.until is None or seconds < self.until)


def expand_filter(where: Filter) -> tuple[Condition, ...]:
    """Expand the filter to alternative conditions: any of them admits a chunk. An empty tuple admits nothing."""
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
    """Return whether a filter may admit only some chunks of a document: by author, time, label or meta."""
    own = (where.authors, where.since, where.until, where.access, where.meta or None)
    return any(each is not None for each in own) or any(map(splits_documents, (*where.all_of, *(where.any_of or ()))))


def expand_document_filter(where: Filter) -> tuple[Condition, ...]:
    """Expand a filter to alternatives for whole documents, without authors and times, which concern chunks."""
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
    """Return whether a condition may admit chunks whose own meta names one of the channels."""
    named = (group for group in condition.groups if get_facet_field(group) == "channel")
    return all(not set(get_facet_values(group)).isdisjoint(channels) for group in named)


def get_facet_field(group: Set[str]) -> str:
    """Return the field of a group of facets: document, kind, channel, author, access or meta.NAME."""
    return next(iter(group)).partition(_SEPARATOR)[0]


def get_facet_values(group: Set[str]) -> list[str]:
    """Return the sorted values of a group of facets."""
    return sorted(facet.partition(_SEPARATOR)[2] for facet in group)


def make_label_facets(labels: Iterable[str]) -> frozenset[str]:
    """Make the facets of access labels."""
    return _encode_group("access", frozenset(labels))


def fold_channel_signs(names: Set[str]) -> frozenset[str]:
    """Return the names of channels, with "ops" added for "#ops", since people write the sign."""
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
    """Return the conjunction of two sets of alternatives: one condition for each pair."""
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


@lru_cache(32)  # a search asks for the same filter many times
def _encode_group(name: str, values: frozenset[str]) -> frozenset[str]:
    """Encode a field and its values, perhaps thousands, as facets."""
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
MESSAGE = _encode_facet("meta.message", "")  # the prefix of a facet that only chunks of messages have
