"""A collection as far as a filter admits it: the filter is a condition of everything that is read.

A chunk is seen if the filter admits it, a document if one of its chunks is, or if it has none and is admitted itself.
Nothing can be changed.

Of a document with hidden chunks, only a part is shown: the rest of its text is blank, so that positions stay true, its
other sections are gone, and so is what was made of the whole: its summary, a title taken from a hidden message, the
messages before a chunk that are kept as its context, and when it was written, in place of which are the times of the
first and the last message that are shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Never

from clew.core import facets
from clew.core.doctor import Remedy
from clew.core.errors import SettingsError
from clew.core.filter import Filter
from clew.core.thread import THREAD_KIND, make_thread_title, make_thread_uri
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Section
from clew.drivers.store import checksums
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    CHUNK,
    DOCUMENT,
    Backend,
    Columns,
    Head,
    Row,
    Select,
    Snapshot,
    named_documents,
    select,
)
from clew.drivers.store.rows import take_batch

BLANK = " "


@dataclass(frozen=True, slots=True)
class Part:
    """The chunks of a document that are shown, where others are not."""

    places: Mapping[str, int]  # of each among them, by id
    messages: tuple[str, ...]  # that they are of, by id, in order
    chars: int
    text: str  # of the first
    created: str | None = None  # the times of the first and the last
    updated: str | None = None


def make_part(doc_id: str, chunks: Sequence[Columns]) -> Part:
    """Make what is shown of a document, by the CHUNK_COLUMNS of its admitted chunks."""
    # The place in the whole is not shown, so it need not be added up.
    ordered = [made.parse_chunk(each, doc_id, 0, (0, 0)) for each in sorted(chunks, key=made.order_of)]
    messages = (chunk.meta.get("message") for chunk in ordered)
    return Part(
        {chunk.id: place for place, chunk in enumerate(ordered)},
        tuple(dict.fromkeys(str(each) for each in messages if each is not None)),
        sum(len(chunk.text) for chunk in ordered),
        ordered[0].text,
        to_iso(ordered[0].at),
        to_iso(ordered[-1].at),
    )


def redact_record(columns: Columns, part: Part) -> Columns:
    """Redact the RECORD of a document of which a part is shown: without its summary, with a title from that part."""
    record = made.parse_record(columns)  # before it is another than the one that was written
    shown: Row = dict.fromkeys(("hash", "stamp", "summary", "summary_by"), "")
    if record.kind == THREAD_KIND:
        channel = str(record.meta.get("channel", ""))
        first = part.messages[0] if part.messages else ""
        shown |= {"title": make_thread_title(channel, part.text), "uri": make_thread_uri(channel, first)}
    shown |= {"created": part.created, "updated": part.updated}
    shown |= {"chars": part.chars, "chunks": len(part.places), "sum": checksums.COMPARED}
    return tuple([shown.get(name, value) for name, value in zip(made.RECORD, columns, strict=True)])


def redact_chunk(chunk: Chunk, part: Part) -> Chunk:
    """Redact a chunk that is shown: remove what was taken from others, as its context, or a hidden parent."""
    hidden = () if chunk.meta.get("reply_to") in part.messages else ("reply_to", "guessed")
    meta = {key: value for key, value in chunk.meta.items() if key not in hidden}
    return replace(chunk, index=part.places[chunk.id], total=len(part.places), context="", meta=meta)


def redact_document(document: Document, record: DocumentRecord, chunks: Sequence[Chunk]) -> Document:
    """Redact a document: its text is blank outside the chunks and messages that are shown, and its record as shown."""
    messages = frozenset(str(chunk.meta["message"]) for chunk in chunks if "message" in chunk.meta)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    kept, sections = dict[int | None, int](), list[Section]()  # the new position of each section that is shown
    for position, section in enumerate(document.sections):
        if section.id in messages if messages else _overlaps(section, spans):
            kept[position] = len(sections)
            sections.append(section)
    if messages:
        spans += [(section.start, section.end) for section in sections]
    return replace(
        document,
        text=_blank_outside(document.text, spans),
        sections=tuple(
            [each if each.parent == (to := kept.get(each.parent)) else replace(each, parent=to) for each in sections]
        ),
        title=record.title,
        uri=record.uri,
        summary="",
        summary_by="",
        hash="",
        stamp="",
        created=record.created,
        updated=record.updated,
    )


def _blank_outside(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, at = list[str](), 0
    for start, end in sorted(spans):
        pieces.append(BLANK * (start - at))
        pieces.append(text[max(start, at) : end])
        at = max(at, end)
    return "".join([*pieces, BLANK * (len(text) - at)])


def _overlaps(section: Section, spans: Iterable[tuple[int, int]]) -> bool:
    return any(section.start < end and start < section.end for start, end in spans)


MAX_KNOWN = 10_000  # documents of which is kept what is shown of them
COLUMNS = frozenset((*made.RECORD, *made.CHUNK_COLUMNS, "channel"))  # that may be read
HIDDEN = Part({}, (), 0, "")  # of a document of which nothing is seen
Parts = dict[int, Part | None]  # by the number of the document; None: all of it is shown


def refuse(*_: object, **__: object) -> Never:
    """Refuse a change, or a copy of what is not admitted."""
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
        """Return one state for several reads."""
        with self._whole.read(since) as snapshot:
            yield FilteredSnapshot(snapshot, self)

    def get_known(self, head: Head) -> Parts:
        """Return what is shown of documents in a state, as far as it was read."""
        state, known = self._known
        return known if state == head else {}

    def keep(self, head: Head, parts: Parts) -> None:
        """Keep what is shown of documents for the next read of the same state."""
        known = self.get_known(head)
        self._known = head, {**known, **parts} if len(known) < MAX_KNOWN else parts

    def describe(self) -> tuple[str, int]:
        """Return the kind of the index; the size is not told."""
        return self._whole.describe()[0], 0

    def flush(self, *, with_graph: bool = True) -> None:
        """Do nothing: there are no changes."""

    def close(self) -> None:
        """Do nothing: the whole is closed."""

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
        """Find columns of documents as they are shown, and of chunks as they are stored; refuse all others."""
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
        """Find documents as they are stored; where the filter names some, only those, else also hidden ones."""
        named = named_documents(self._backend.of_chunks)
        own = () if named is None else (("id", "in", named),)
        return self.whole.find(replace(wanted, where=(*wanted.where, *own)), columns)

    def find_parts(self, documents: Iterable[int]) -> Parts:
        """Find what is shown of documents, by number; read where it is not known. Empty if the filter splits none."""
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
        """Return whether chunks of a document that was found here are hidden."""
        return self.find_parts([document]).get(document) is not None

    def redact_chunks(self, rows: Sequence[Columns], chunks: Sequence[Chunk]) -> list[Chunk]:
        """Redact chunks that were found here, by their CHUNK_COLUMNS, as they are shown."""
        parts = self.find_parts(row[1] for row in rows)
        if not parts:
            return list(chunks)
        shown = ((parts[row[1]], chunk) for row, chunk in zip(rows, chunks, strict=True))
        return [chunk if part is None else redact_chunk(chunk, part) for part, chunk in shown]


def _add_conditions(wanted: Select, own: Sequence[facets.Condition]) -> Select:
    given = wanted.alternatives
    return replace(wanted, alternatives=tuple(own) if given is None else facets.combine_conditions(own, given))
