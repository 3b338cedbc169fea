"""A collection as far as a filter admits it: the filter is a condition of everything that is read.

A chunk is seen if the filter admits it, a document if one of its chunks is, or if it has none and is admitted itself.
Of a document with hidden chunks, only a part is shown; see `redact`. Nothing can be changed.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Never

from clew.core.doctor import Remedy
from clew.core.errors import SettingsError
from clew.core.facets import (
    Condition,
    combine_conditions,
    expand_document_filter,
    expand_filter,
    get_facet_field,
    get_facet_values,
    splits_documents,
)
from clew.core.filter import Filter
from clew.core.types import Chunk
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    CHUNK,
    DOCUMENT,
    Backend,
    Head,
    NamedRows,
    Row,
    Select,
    Snapshot,
    named_documents,
    select,
)
from clew.drivers.store.batches import take_batch
from clew.drivers.store.redact import Part, make_part, redact_chunk, redact_row

MAX_KNOWN = 20_000  # documents, and chunks of those shown in part, that are kept for the next read
SHOWN = frozenset(made.RECORD + made.CHUNK_COLUMNS + ("channel",))  # columns that may be read
HIDDEN = Part({}, (), 0, "")  # of a document of which nothing is seen
Parts = dict[int, Part | None]  # by the number of the document; None: all of it is shown


class Boundary:
    """A filter as conditions on chunks and on documents, and what it shows of documents, as far as that is known."""

    def __init__(self, where: Filter) -> None:
        self._where = where
        self.splits = splits_documents(where)  # whether some chunks of a document may be seen and others not
        self._known: tuple[Head | None, Parts] = (None, {})  # as of a state; never changed, only replaced

    @cached_property
    def of_chunks(self) -> tuple[Condition, ...]:
        """The alternatives for a chunk."""
        return expand_filter(self._where)

    @cached_property
    def of_documents(self) -> tuple[Condition, ...]:
        """The alternatives for a document as a whole."""
        return expand_document_filter(self._where)

    def narrow(self, wanted: Select) -> Select:
        """The documents that are meant; where the filter names some, only those."""
        named = named_documents(self.of_chunks)
        return wanted if named is None else replace(wanted, where=(*wanted.where, ("id", "in", named)))

    def get_known(self, head: Head, documents: Iterable[int]) -> Parts:
        """What is shown of those of the documents of which it is known."""
        state, known = self._known
        return {each: known[each] for each in documents if each in known} if state == head else {}

    def keep(self, head: Head, parts: Parts) -> None:
        """Keeps what is shown of documents until the collection changes."""
        state, known = self._known
        for kept in ({**known, **parts} if state == head else parts, parts, Parts()):
            if len(kept) + sum(len(part.places) for part in kept.values() if part) <= MAX_KNOWN:
                self._known = head, kept
                break


class FilteredSnapshot:
    """A state of a collection with a filter added to every `find`; `whole` is the state without it."""

    def __init__(self, whole: Snapshot, boundary: Boundary) -> None:
        self.whole, self._boundary = whole, boundary

    @property
    def head(self) -> Head:
        """What is said of the whole collection."""
        return self.whole.head

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """The rows of documents as they are shown, and of chunks as they are stored; all others are refused."""
        if wanted.kind not in (CHUNK, DOCUMENT) or not SHOWN.issuperset(columns):
            refuse()
        if wanted.kind == DOCUMENT:
            return self._find_documents(wanted, columns)
        own, channels = self._boundary.of_chunks, wanted.get_values("channel")
        if channels is not None:
            own = tuple(each for each in own if _admits_channels(each, channels))
        return self.whole.find(_add_conditions(wanted, own), columns)

    def _find_documents(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        every = replace(self._boundary.narrow(wanted), limit=None)
        if not self._boundary.splits:
            return wanted.arrange(self.whole.find(_add_conditions(every, self._boundary.of_documents), columns))
        rows = self.whole.find(every, made.RECORD)
        parts = self._load_parts(rows)
        seen = ((row, part) for row in rows if (part := parts[row["row"]]) is not HIDDEN)
        return wanted.arrange(row if part is None else redact_row(row, part) for row, part in seen)

    def find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Documents as they are stored, not only those that are seen: for a scan of their chunks."""
        return self.whole.find(self._boundary.narrow(wanted), columns)

    def find_parts(self, documents: Iterable[int]) -> Parts:
        """What is shown of documents; nothing of those that are shown whole because the filter splits none."""
        numbers = set(documents) if self._boundary.splits else set()
        known = self._boundary.get_known(self.head, numbers) if numbers else {}
        return known | self._load_parts(self.whole.find(select(DOCUMENT, row=numbers - known.keys()), made.RECORD))

    def shows_part(self, document: Row) -> bool:
        """Whether chunks of a document that was found here are hidden."""
        return self.find_parts([document["row"]]).get(document["row"]) is not None

    def redact_chunks(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[Chunk]:
        """Chunks that were found here, as they are shown."""
        parts = self.find_parts(row["doc"] for row in rows)
        shown = ((parts.get(row["doc"]), chunk) for row, chunk in zip(rows, chunks, strict=True))
        return [chunk if part is None else redact_chunk(chunk, part) for part, chunk in shown]

    def _load_parts(self, documents: Sequence[Row]) -> Parts:
        """What is shown of documents; read where it is not known."""
        if not documents:
            return {}
        known = self._boundary.get_known(self.head, [row["row"] for row in documents])
        unknown = {row["row"]: row for row in documents if row["row"] not in known}
        empty = {number for number, row in unknown.items() if not row["chunks"]}
        seen = {row["row"] for row in self.whole.find(select(DOCUMENT, self._boundary.of_documents, row=empty), ())}
        parts: Parts = dict.fromkeys(unknown, HIDDEN) | dict.fromkeys(seen)
        left = [(number, row["chunks"], row["chars"]) for number, row in unknown.items() if number not in empty]
        while left:
            batch = take_batch(left)
            found = self.whole.find(select(CHUNK, self._boundary.of_chunks, doc=batch), made.CHUNK_COLUMNS)
            for number, own in made.group_by_document(found).items():
                parts[number] = make_part(unknown[number], own)
            left = left[len(batch) :]
        if parts:
            self._boundary.keep(self.head, parts)
        return known | parts


class FilteredBackend:
    """A backend that reads what a filter admits; see `Backend`. Its index is the whole one, to be given the filter."""

    keeps_records = False
    remedy_unreadable: Remedy = ""

    def __init__(self, whole: Backend, where: Filter) -> None:
        self._whole, self._boundary = whole, Boundary(where)
        self.place, self.dim, self.index, self.head = whole.place, whole.dim, whole.index, whole.head

    @contextmanager
    def read(self) -> Iterator[FilteredSnapshot]:
        """One state for several reads."""
        with self._whole.read() as snapshot:
            yield FilteredSnapshot(snapshot, self._boundary)

    def named(self, kind: str) -> "ReadOnlyRows":
        """What was measured of the whole collection; the rest names sources and quotes of all of it."""
        return ReadOnlyRows(self._whole.named(kind)) if kind == "calibration" else refuse()

    def describe(self) -> tuple[str, int]:
        """The kind of the index; the size is not told."""
        return self._whole.describe()[0], 0

    def flush(self, *, with_graph: bool = True) -> None:
        """Does nothing: there are no changes."""

    def close(self) -> None:
        """Does nothing: the whole is closed."""

    def _refuse(self, *_: object, **__: object) -> Never:
        refuse()

    write = swap_vectors = reopen = compact = maintain = reclaim_room = _refuse
    inspect = repair = pack_facets = notes = _refuse


class ReadOnlyRows:
    """Named values that are not changed; see `NamedRows`."""

    def __init__(self, rows: NamedRows) -> None:
        self.read, self.clock = rows.read, rows.clock

    def change(self, *_: object, **__: object) -> Never:
        """Refused."""
        refuse()


def refuse() -> Never:
    """Refuses a change, or a copy of what is not admitted."""
    raise SettingsError("this engine sees a part of the collection and only reads; change the whole collection")


def _add_conditions(wanted: Select, own: Sequence[Condition]) -> Select:
    given = wanted.alternatives
    return replace(wanted, alternatives=tuple(own) if given is None else combine_conditions(own, given))


def _admits_channels(condition: Condition, channels: Collection[str]) -> bool:
    """Whether a condition can admit a chunk of one of the channels."""
    named = (group for group in condition.groups if get_facet_field(group) == "channel")
    return all(not set(get_facet_values(group)).isdisjoint(channels) for group in named)
