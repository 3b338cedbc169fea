"""A read-only view of a collection through a filter, which is added to every read.

A chunk is visible if the filter admits it. A document is visible if one of its chunks is, or if it has no chunks and
the filter admits the document.

A document with hidden chunks is redacted: hidden text is blank, so that positions stay valid, and hidden sections are
removed. Also removed is everything derived from the whole: the summary, a title from a hidden message, the contexts of
chunks (earlier messages), and the times of writing, which become those of the first and last visible message.
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
    """The visible chunks of a document that has hidden ones."""

    places: Mapping[str, int]  # of the chunks, by id
    messages: tuple[str, ...]  # ids of their messages, in order
    chars: int
    text: str  # of the first chunk
    created: str | None = None  # the time of the first chunk
    updated: str | None = None  # and of the last


def make_part(doc_id: str, chunks: Sequence[Columns]) -> Part:
    """Make the visible part of a document from the CHUNK_COLUMNS of its admitted chunks."""
    # Skip computing places in the whole document: they are not shown.
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
    """Redact the RECORD of a partly visible document: remove the summary, take the title from the visible part."""
    record = made.parse_record(columns)  # check the checksum before changing the record
    shown: Row = dict.fromkeys(("hash", "stamp", "summary", "summary_by"), "")
    if record.kind == THREAD_KIND:
        channel = str(record.meta.get("channel", ""))
        first = part.messages[0] if part.messages else ""
        shown |= {"title": make_thread_title(channel, part.text), "uri": make_thread_uri(channel, first)}
    shown |= {"created": part.created, "updated": part.updated}
    shown |= {"chars": part.chars, "chunks": len(part.places), "sum": checksums.COMPARED}
    return tuple([shown.get(name, value) for name, value in zip(made.RECORD, columns, strict=True)])


def redact_chunk(chunk: Chunk, part: Part) -> Chunk:
    """Redact a visible chunk: remove content of other chunks (its context) and references to a hidden parent."""
    hidden = () if chunk.meta.get("reply_to") in part.messages else ("reply_to", "guessed")
    meta = {key: value for key, value in chunk.meta.items() if key not in hidden}
    return replace(chunk, index=part.places[chunk.id], total=len(part.places), context="", meta=meta)


def redact_document(document: Document, record: DocumentRecord, chunks: Sequence[Chunk]) -> Document:
    """Redact a document: blank its text outside visible chunks and messages, and use the redacted record."""
    messages = frozenset(str(chunk.meta["message"]) for chunk in chunks if "message" in chunk.meta)
    spans = [(chunk.start, chunk.end) for chunk in chunks]
    kept, sections = dict[int | None, int](), list[Section]()  # the new position of each visible section
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


MAX_KNOWN = 10_000  # documents whose visible parts are cached
COLUMNS = frozenset((*made.RECORD, *made.CHUNK_COLUMNS, "channel"))  # the readable columns
HIDDEN = Part({}, (), 0, "")  # of an invisible document
Parts = dict[int, Part | None]  # by row number of the document; None: fully visible


def refuse(*_: object, **__: object) -> Never:
    """Raise SettingsError for an operation on the whole collection."""
    raise SettingsError("this engine sees a part of the collection and only reads; change the whole collection")


class FilteredBackend:
    """A backend that reads only what a filter admits; see `Backend`. Its index is unfiltered: pass it the filter."""

    remedy_unreadable: Remedy = ""

    def __init__(self, whole: Backend, where: Filter) -> None:
        self._whole, self._where = whole, where
        self.place, self.dim, self.index, self.head = whole.place, whole.dim, whole.index, whole.head
        self.splits = facets.splits_documents(where)
        self._known: tuple[Head | None, Parts] = (None, {})  # with the head; never changed, only replaced

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
        """Open a snapshot for several reads."""
        with self._whole.read(since) as snapshot:
            yield FilteredSnapshot(snapshot, self)

    def get_known(self, head: Head) -> Parts:
        """Return the cached visible parts of documents as of a head."""
        state, known = self._known
        return known if state == head else {}

    def keep(self, head: Head, parts: Parts) -> None:
        """Cache the visible parts of documents for the next read of the same state."""
        known = self.get_known(head)
        self._known = head, {**known, **parts} if len(known) < MAX_KNOWN else parts

    def describe(self) -> tuple[str, int]:
        """Return the kind of the index, and 0 in place of the size."""
        return self._whole.describe()[0], 0

    def flush(self, *, with_graph: bool = True) -> None:
        """Do nothing: there are no changes."""

    def close(self) -> None:
        """Do nothing: the whole is closed."""

    write = named = swap_vectors = reopen = compact = maintain = reclaim_room = staticmethod(refuse)
    inspect = repair = pack_facets = notes = staticmethod(refuse)


class FilteredSnapshot:
    """A snapshot with a filter added to every `find`; `whole` is the unfiltered snapshot."""

    def __init__(self, whole: Snapshot, backend: FilteredBackend) -> None:
        self.whole, self._backend = whole, backend

    @property
    def head(self) -> Head:
        """The head of the whole collection."""
        return self.whole.head

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find redacted columns of documents and stored columns of chunks; refuse other kinds and columns."""
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
        if lost := next((row for row in rows if row[made.ROW] not in parts), None):
            raise checksums.damaged_error(f"the document {lost[0]!r}")
        seen = ((row, part) for row in rows if (part := parts[row[made.ROW]]) is not HIDDEN)
        shown = [row if part is None else redact_record(row, part) for row, part in seen][: wanted.limit]
        places = [made.RECORD.index(name) for name in columns]
        return [tuple([row[place] for place in places]) for row in shown]

    def find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find unredacted documents, only those that the filter names, if it names any; else even hidden ones."""
        named = named_documents(self._backend.of_chunks)
        own = () if named is None else (("id", "in", named),)
        return self.whole.find(replace(wanted, where=(*wanted.where, *own)), columns)

    def find_parts(self, documents: Iterable[int]) -> Parts:
        """Find the visible parts of documents by row number, reading uncached ones; empty if the filter splits none."""
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
                if number not in unknown:
                    raise checksums.damaged_error(f"a chunk of the document in row {number}")
                doc_id, count = unknown[number]
                fresh[number] = None if len(own) == count else make_part(doc_id, own)
            left = left[len(batch) :]
        self._backend.keep(self.head, fresh)
        return parts | fresh

    def shows_part(self, document: int) -> bool:
        """Return whether a document found in this snapshot has hidden chunks."""
        return self.find_parts([document]).get(document) is not None

    def redact_chunks(self, rows: Sequence[Columns], chunks: Sequence[Chunk]) -> list[Chunk]:
        """Redact chunks found in this snapshot; `rows` are their CHUNK_COLUMNS."""
        parts = self.find_parts(row[1] for row in rows)
        if not parts:
            return list(chunks)
        shown = ((parts[row[1]], chunk) for row, chunk in zip(rows, chunks, strict=True))
        return [chunk if part is None else redact_chunk(chunk, part) for part, chunk in shown]


def _add_conditions(wanted: Select, own: Sequence[facets.Condition]) -> Select:
    given = wanted.alternatives
    return replace(wanted, alternatives=tuple(own) if given is None else facets.combine_conditions(own, given))
