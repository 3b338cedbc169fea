"""A collection as far as a filter admits it: the filter is a condition of everything that is read.

A chunk is seen if the filter admits it, a document if one of its chunks is, or if it has none and is admitted itself.
Of a document with hidden chunks, only a part is shown; see `redact`. Nothing can be changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Never

from clew.core import facets
from clew.core.doctor import Remedy
from clew.core.errors import SettingsError
from clew.core.filter import Filter
from clew.core.types import Chunk
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    CHUNK,
    DOCUMENT,
    Backend,
    Columns,
    Head,
    Select,
    Snapshot,
    named_documents,
    select,
)
from clew.drivers.store.batches import take_batch
from clew.drivers.store.redact import Part, make_part, redact_chunk, redact_record

MAX_KNOWN = 10_000  # documents of which is kept what is shown of them
COLUMNS = frozenset((*made.RECORD, *made.CHUNK_COLUMNS, "channel"))  # that may be read
HIDDEN = Part({}, (), 0, "")  # of a document of which nothing is seen
Parts = dict[int, Part | None]  # by the number of the document; None: all of it is shown


def refuse(*_: object, **__: object) -> Never:
    """Refuses a change, or a copy of what is not admitted."""
    raise SettingsError("this engine sees a part of the collection and only reads; change the whole collection")


class FilteredBackend:
    """A backend that reads what a filter admits; see `Backend`. Its index is the whole one, to be given the filter."""

    remedy_unreadable: Remedy = ""

    def __init__(self, whole: Backend, where: Filter) -> None:
        self._whole, self._where = whole, where
        self.place, self.dim, self.index, self.head = whole.place, whole.dim, whole.index, whole.head
        self.splits = facets.splits_documents(where)
        self._known: tuple[Head | None, Parts] = (None, {})  # as of a state; never changed, only replaced

    @cached_property
    def of_chunks(self) -> tuple[facets.Condition, ...]:
        """The alternatives of the filter for a chunk."""
        return facets.expand_filter(self._where)

    @cached_property
    def of_documents(self) -> tuple[facets.Condition, ...]:
        """The alternatives of the filter for a document as a whole."""
        return facets.expand_document_filter(self._where)

    @contextmanager
    def read(self, since: Head | None = None) -> Iterator["FilteredSnapshot"]:
        """One state for several reads."""
        with self._whole.read(since) as snapshot:
            yield FilteredSnapshot(snapshot, self)

    def get_known(self, head: Head) -> Parts:
        """What is shown of documents in a state, as far as it was read."""
        state, known = self._known
        return known if state == head else {}

    def keep(self, head: Head, parts: Parts) -> None:
        """Keeps what is shown of documents for the next read of the same state."""
        known = self.get_known(head)
        self._known = head, {**known, **parts} if len(known) < MAX_KNOWN else parts

    def describe(self) -> tuple[str, int]:
        """The kind of the index; the size is not told."""
        return self._whole.describe()[0], 0

    def flush(self, *, with_graph: bool = True) -> None:
        """Does nothing: there are no changes."""

    def close(self) -> None:
        """Does nothing: the whole is closed."""

    write = named = swap_vectors = reopen = compact = maintain = reclaim_room = staticmethod(refuse)
    inspect = repair = pack_facets = notes = staticmethod(refuse)


class FilteredSnapshot:
    """A state of a collection with a filter added to every `find`; `whole` is the state without it."""

    def __init__(self, whole: Snapshot, backend: FilteredBackend) -> None:
        self.whole, self._backend = whole, backend

    @property
    def head(self) -> Head:
        """What is said of the whole collection."""
        return self.whole.head

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Columns of documents as they are shown, and of chunks as they are stored; all others are refused."""
        if wanted.kind not in (CHUNK, DOCUMENT) or not COLUMNS.issuperset(columns):
            refuse()
        if wanted.kind == DOCUMENT:
            return self._find_documents(wanted, columns)
        own, channels = self._backend.of_chunks, wanted.get_values("channel")
        if channels is not None:
            own = tuple(each for each in own if facets.admits_channels(each, channels))
        return self.whole.find(_add_conditions(wanted, own), columns)

    def _find_documents(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        every = replace(wanted, limit=None)
        if not self._backend.splits:
            return self.find_stored(_add_conditions(every, self._backend.of_documents), columns)[: wanted.limit]
        rows = self.find_stored(every, made.RECORD)
        parts = self.find_parts(row[made.ROW] for row in rows)
        seen = ((row, part) for row in rows if (part := parts[row[made.ROW]]) is not HIDDEN)
        shown = [row if part is None else redact_record(row, part) for row, part in seen][: wanted.limit]
        places = [made.RECORD.index(name) for name in columns]
        return [tuple([row[place] for place in places]) for row in shown]

    def find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Documents as they are stored; where the filter names some, only those, else also hidden ones."""
        named = named_documents(self._backend.of_chunks)
        own = () if named is None else (("id", "in", named),)
        return self.whole.find(replace(wanted, where=(*wanted.where, *own)), columns)

    def find_parts(self, documents: Iterable[int]) -> Parts:
        """What is shown of documents, by number; read where it is not known. Empty if the filter splits none."""
        if not self._backend.splits:
            return {}
        numbers, known = set(documents), self._backend.get_known(self.head)
        parts = {each: known[each] for each in numbers if each in known}
        if len(parts) == len(numbers):
            return parts
        found = self.whole.find(select(DOCUMENT, row=numbers - parts.keys()), ("row", "chunks", "chars", "id"))
        empty = [row for row, count, *_ in found if not count]
        seen = self.whole.find(select(DOCUMENT, self._backend.of_documents, row=empty), ("row",))
        unknown = {row: (doc_id, count) for row, count, _, doc_id in found}
        fresh: Parts = dict.fromkeys(unknown, HIDDEN) | dict.fromkeys(row for (row,) in seen)
        left = [sizes for *sizes, _ in found if sizes[1]]
        while left:
            batch = take_batch(left)
            chunks = self.whole.find(select(CHUNK, self._backend.of_chunks, doc=batch), made.CHUNK_COLUMNS)
            for number, own in made.group_by(1, chunks).items():
                doc_id, count = unknown[number]
                fresh[number] = None if len(own) == count else make_part(doc_id, own)
            left = left[len(batch) :]
        self._backend.keep(self.head, fresh)
        return parts | fresh

    def shows_part(self, document: int) -> bool:
        """Whether chunks of a document that was found here are hidden."""
        return self.find_parts([document]).get(document) is not None

    def redact_chunks(self, rows: Sequence[Columns], chunks: Sequence[Chunk]) -> list[Chunk]:
        """Chunks that were found here, by their CHUNK_COLUMNS, as they are shown."""
        parts = self.find_parts(row[1] for row in rows)
        if not parts:
            return list(chunks)
        shown = ((parts[row[1]], chunk) for row, chunk in zip(rows, chunks, strict=True))
        return [chunk if part is None else redact_chunk(chunk, part) for part, chunk in shown]


def _add_conditions(wanted: Select, own: Sequence[facets.Condition]) -> Select:
    given = wanted.alternatives
    return replace(wanted, alternatives=tuple(own) if given is None else facets.combine_conditions(own, given))
