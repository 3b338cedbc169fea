"""Conversion of documents to rows and back: one piece per message of a thread or per page, and one row per chunk.

A chunk's terms are two small arrays of 64-bit hashes and counts. Among ten million words, a collision has a probability
of about one in 400,000.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from math import isnan
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from clew.core.errors import ConcurrentChange
from clew.core.facets import collect_facets
from clew.core.filter import Meta
from clew.core.memo import Memo
from clew.core.stored import Hashes, NewDocument, PackedTerms, StoredDocument
from clew.core.text import Terms
from clew.core.thread import BLOCK_BITS, is_thread
from clew.core.time import from_iso, to_iso, to_timestamp
from clew.core.types import Chunk, Document, DocumentRecord, Matrix, Section, Vector
from clew.drivers.store import checks, checksums
from clew.drivers.store.backend import BLOCK, CHUNK, DOCUMENT, PIECE, Columns, Row

# A chunk of a message is stored with its place in the message (`piece`), so that a thread changes without a complete
# rewrite. Its place in the thread is the sum of the sizes of the blocks and messages before it. For a page, `piece` is
# null and the place is that in the page.
_DECODER = json.JSONDecoder()  # json.loads without its checks of the argument


def to_json(value: Any) -> str:
    """Write a value as compact JSON; sets become lists, and values that JSON cannot represent their `str`."""
    return _ENCODER.encode(value)


def meta_to_json(meta: Meta) -> str:
    """Write meta as a JSON object."""
    return to_json(dict(meta)) if meta else "{}"


def parse_meta(text: str) -> Meta:
    """Parse meta from a JSON object."""
    return dict(_DECODER.decode(text)) if text != "{}" else {}


def headings_to_json(headings: Sequence[str]) -> str:
    """Write headings as a JSON list."""
    return strings_to_json(headings) if headings else "[]"


def strings_to_json(strings: Iterable[str]) -> str:
    """Write strings as a JSON list, faster than `to_json`."""
    return f"[{','.join(map(encode_basestring, strings))}]"


def access_to_json(access: Set[str] | None) -> str | None:
    """Write labels as a JSON list; None stays None."""
    return None if access is None else to_json(sorted(access))


def parse_access(text: str | None) -> frozenset[str] | None:
    """Parse labels from a JSON list; None stays None."""
    return None if text is None else frozenset(json.loads(text))


def times_to_text(document: Document, created: str | None) -> tuple[str, str]:
    """Return the times of a document's first and last write as ISO 8601: its own, else the stored `created` or now."""
    now = datetime.now(UTC).isoformat()
    return to_iso(document.created) or created or now, to_iso(document.updated) or now


def sections_to_json(sections: Sequence[Section]) -> str:
    """Write sections as a JSON list of lists."""
    return to_json([_section_to_list(section) for section in sections])


def _section_to_list(of: Section) -> list[Any]:
    columns = [of.start, of.end, of.label, of.parent, of.id, of.author, to_iso(of.at), of.page, of.guessed]
    if of.awaits is not None:
        return [*columns, None if of.access is None else sorted(of.access), of.awaits]
    return columns if of.access is None else [*columns, sorted(of.access)]


def parse_sections(text: str) -> list[Section]:
    """Parse the sections of a piece of a document, in order."""
    return [_parse_section(*columns) for columns in _DECODER.decode(text)] if text != "[]" else []


def _parse_section(
    start: int,
    end: int,
    label: str,
    parent: int | None,
    section_id: str,
    author: str,
    at: str | None,
    page: int | None,
    guessed: bool = False,
    access: Sequence[str] | None = None,
    awaits: str | None = None,
) -> Section:
    labels = None if access is None else frozenset(access)
    return Section(start, end, label, parent, section_id, author, from_iso(at), page, guessed, labels, awaits)


def join_pieces(doc_id: str, pieces: Iterable[Sequence[Any]]) -> tuple[str, tuple[Section, ...]]:
    """Join the text and sections of pieces (PIECE_COLUMNS); CollectionDamaged if one is corrupt.

    A message is stored with the id of its parent and with spans relative to its own text.
    """
    texts: list[str] = []
    sections: list[list[Any]] = []  # the fields of each
    positions: dict[str, int] = {}
    parents: dict[int, str] = {}
    at = 0
    for n, text, columns, chars, chunks, message, parent, awaits, doc, stored in pieces:
        if not checksums.matches(stored, doc, n, text, columns, chars, chunks, message, parent, awaits):
            raise checksums.damaged_error(f"the text of the document {doc_id!r}")
        here = _DECODER.decode(columns) if columns != "[]" else []
        if message is not None:
            positions[message] = len(sections)
            if parent is not None:
                parents[len(sections)] = parent
            for each in here:
                each[0], each[1] = each[0] + at, each[1] + at
        texts.append(text)
        sections += here
        at += len(text)
    for position, parent in parents.items():
        sections[position][3] = positions.get(parent)
    return "".join(texts), tuple([_parse_section(*columns) for columns in sections])


def parse_chunk(columns: Sequence[Any], doc_id: str, total: int, before: tuple[int, int] | None) -> Chunk:
    """Parse a chunk from CHUNK_COLUMNS; CollectionDamaged if it or its place is corrupt.

    before: The characters and chunks before its message; None if unknown.
    """
    _, _, piece, number, start, end, headings, context, at, meta, text, chunk_id, stored = columns
    if not checksums.matches(stored, *columns[:-1]) or start is None:  # None: a server view found no place
        raise checksums.damaged_error(f"the chunk {chunk_id!r} of the document {doc_id!r}")
    if piece is not None:
        if before is None:
            raise checksums.damaged_error(f"the place of the chunk {chunk_id!r} in the document {doc_id!r}")
        chars, chunks = before
        number, start, end = number + chunks, start + chars, end + chars
    titles = _parse_headings(headings) if headings != "[]" else ()
    said, about = datetime.fromisoformat(at) if at else None, _DECODER.raw_decode(meta)[0] if meta != "{}" else {}
    return Chunk(chunk_id, doc_id, number, total, text, start, end, titles, context, said, about)


def parse_record(columns: Sequence[Any]) -> DocumentRecord:
    """Parse a document's record from the columns RECORD; CollectionDamaged if it is corrupt."""
    return DocumentRecord(*_parse_record(columns))


def _parse_record(columns: Sequence[Any]) -> tuple[Any, ...]:
    *written, stored = columns
    if not checksums.matches(stored, *written):
        raise checksums.damaged_error(f"the document {columns[0]!r}")
    meta, access, by, created, updated, _ = written[9:]
    return (
        *written[:9],
        _DECODER.raw_decode(meta)[0] if meta != "{}" else {},
        None if access is None else parse_access(access),
        by,
        datetime.fromisoformat(created) if created else None,
        datetime.fromisoformat(updated) if updated else None,
    )


def record_to_facets(columns: Sequence[Any]) -> str:
    """Return the facets of a document as JSON, from unchecked columns RECORD; ValueError if they cannot be parsed."""
    doc_id, _, _, kind, _, _, _, _, _, meta, access, *_ = columns
    record = DocumentRecord(doc_id, kind=kind, meta=parse_meta(meta), access=parse_access(access))
    return strings_to_json(sorted(collect_facets(record)))


def build_document(columns: Sequence[Any], pieces: Sequence[Sequence[Any]], *, is_whole: bool = True) -> Document:
    """Build a document from its columns RECORD and its pieces (PIECE_COLUMNS).

    is_whole: Whether these are all its pieces; CollectionDamaged if then one is missing or has another size.
    """
    doc_id, title, uri, kind, digest, stamp, chars, _, summary, meta, *others = _parse_record(columns)
    text, sections = join_pieces(doc_id, pieces)
    if is_whole and (len(text) != chars or any(each[5] is not None and each[3] != len(each[1]) for each in pieces)):
        raise checksums.damaged_error(f"the text of the document {doc_id!r}")
    return Document(doc_id, text, sections, kind, title, uri, summary, meta, digest, stamp, *others)


@lru_cache(4096)  # all chunks of a section share their headings
def _parse_headings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _to_plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_plain)


class Piece(NamedTuple):
    """A row of pieces, without its document."""

    n: int
    text: str
    sections: str
    chars: int = 0
    chunks: int = 0
    message: str | None = None
    parent: str | None = None
    awaits: str | None = None


class Placed(NamedTuple):
    """The stored place of a chunk: its piece (None for a page), and number and span relative to the piece."""

    piece: int | None
    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Split:
    """A document as pieces, and the places of its chunks."""

    pieces: list[Piece]
    places: list[Placed]


def split_document(document: Document, chunks: Sequence[Chunk]) -> Split:
    """Split a document into one piece for each message of a thread, or one for a page."""
    if _is_splittable(document, chunks):
        return split_messages(document, range(len(document.sections)), range(len(document.sections)), chunks)
    piece = Piece(0, document.text, sections_to_json(document.sections))
    return Split([piece], [Placed(None, chunk.index, chunk.start, chunk.end) for chunk in chunks])


def split_messages(
    document: Document, numbers: Sequence[int], positions: Iterable[int], chunks: Sequence[Chunk]
) -> Split:
    """Make pieces with these numbers from the messages at `positions` of a thread, and the places of the chunks."""
    starts = [section.start for section in document.sections]
    counts: dict[int, int] = {}
    places: list[Placed] = []
    for chunk in chunks:
        position = bisect_right(starts, chunk.start) - 1
        index = counts[position] = counts.get(position, -1) + 1
        start = starts[position]
        places.append(Placed(numbers[position], index, chunk.start - start, chunk.end - start))
    pieces = []
    for position in positions:
        section = document.sections[position]
        parent = None if section.parent is None else document.sections[section.parent].id
        own = replace(section, start=0, end=section.end - section.start, parent=None)
        pieces.append(
            Piece(
                numbers[position],
                document.text[section.start : section.end],
                sections_to_json([own]),
                section.end - section.start,
                counts.get(position, -1) + 1,
                section.id,
                parent,
                section.awaits,
            )
        )
    return Split(pieces, places)


def _is_splittable(document: Document, chunks: Sequence[Chunk]) -> bool:
    """Return whether the sections are messages with distinct ids that cover the text, and no chunk spans two."""
    sections = document.sections
    if not is_thread(document) or len({section.id for section in sections}) != len(sections):
        return False
    ends = [0, *(section.end for section in sections)]
    if ends[-1] != len(document.text) or any(a != b.start for a, b in zip(ends, sections, strict=False)):
        return False
    if any(section.end <= section.start for section in sections):
        return False
    spans = ((bisect_right(ends, chunk.start), chunk.end) for chunk in chunks)
    return all(position < len(ends) and end <= ends[position] for position, end in spans)


def check_revision(doc_id: str, expected: int, stored: int) -> None:
    """Raise ConcurrentChange unless a thread still has the revision that the caller read; 0: it does not exist."""
    if expected != stored:
        raise ConcurrentChange(
            f"the thread {doc_id!r} changed since it was read; read it again and change that; nothing was stored"
        )


MAX_COUNT = 65_535  # of a word in a chunk


def pack_terms(terms: Terms | PackedTerms) -> PackedTerms:
    """Pack terms as arrays, without words whose count is not positive; return packed terms unchanged."""
    if isinstance(terms, PackedTerms):
        return terms
    some = terms if min(terms.values(), default=1) > 0 else {word: count for word, count in terms.items() if count > 0}
    length = sum(some.values())
    hashes = np.fromiter(map(_HASHES.__getitem__, some), np.int64, len(some))
    counts = np.fromiter(some.values(), np.int64, len(some))
    order = hashes.argsort()
    counts = counts if length <= MAX_COUNT else np.minimum(counts, MAX_COUNT)
    return PackedTerms(hashes[order], counts[order].astype(np.uint16), length)


def hash_terms(terms: Sequence[str]) -> Hashes:
    """Hash each term to a number, in order."""
    return np.array([_HASHES[term] for term in terms], np.int64)


FACET_SEED = 1  # makes the hashes of facets differ from those of words


def hash_facet(facet: str) -> int:
    """Hash a facet to a number, for an index of numbers."""
    return _hash_word(facet, FACET_SEED)


def _hash_word(word: str, seed: int = 0) -> int:
    """Hash a word to a signed 64-bit number, as SQLite and PostgreSQL store numbers."""
    digest = xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"), seed=seed)
    return digest - (1 << 64) if digest >> 63 else digest


_HASHES = Memo(_hash_word, max_key=64)  # most words recur


_VECTOR_BITS = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk ready to write. Its fingerprint covers everything that a search uses."""

    chunk: Chunk
    seconds: float | None
    facets: str
    terms: PackedTerms
    vector: Vector | None  # None: pending
    fingerprint: int


@dataclass(frozen=True, slots=True)
class DocumentEntries:
    """A document ready to write: the entries of its chunks, and the vector of its summary, if given."""

    document: Document
    entries: Sequence[Entry]
    summary_vector: Vector | None = None


def make_new_entries(new: NewDocument | StoredDocument, dim: int) -> DocumentEntries:
    """Make the entries of a document; DriverFailed if a given vector is not a unit vector of this dimension."""
    vectors = checks.check_vectors(new.vectors, new.chunks, new.terms, dim)
    summary = None if new.summary_vector is None else checks.check_vector(new.summary_vector, dim)
    return DocumentEntries(new.document, make_entries(new.document, new.chunks, vectors, new.terms), summary)


def make_entries(
    document: Document, chunks: Sequence[Chunk], vectors: Matrix, terms: Sequence[Terms | PackedTerms]
) -> list[Entry]:
    """Make entries of a document's chunks, all in its channel, so that a filter by channel shows all or nothing."""
    entries: list[Entry] = []
    channel = document.meta.get("channel")
    facets_by_meta: dict[str, str] = {}  # a cache: many chunks have the same meta, and therefore facets
    for chunk, row, chunk_terms in zip(chunks, vectors, terms, strict=True):
        if channel is not None and chunk.meta.get("channel", channel) != channel:
            chunk = replace(chunk, meta={**chunk.meta, "channel": channel})
        packed, at, meta = pack_terms(chunk_terms), to_timestamp(chunk.at), repr(chunk.meta)
        facets = facets_by_meta.get(meta) or facets_by_meta.setdefault(meta, facets_to_json(document, chunk))
        filtered_by = f"{facets} {at!r}".encode("utf-8", "surrogatepass")
        words = xxh3_64_intdigest(b"\0".join([packed.hashes.tobytes(), packed.counts.tobytes(), filtered_by]))
        vector = None if isnan(row[0]) else row
        fingerprint = add_vector_to_print(words - (1 << 63), vector)
        entries.append(Entry(chunk, at, facets, packed, vector, fingerprint))
    return entries


def add_vector_to_print(fingerprint: int, vector: Vector | None) -> int:
    """Set the last 24 bits of a fingerprint to a hash of the vector, or to 0 if there is none."""
    own = 0 if vector is None else xxh3_64_intdigest(vector.tobytes()) & _VECTOR_BITS or 1
    return fingerprint & ~_VECTOR_BITS | own


def is_same_print(stored: int, entry: Entry) -> bool:
    """Return whether a stored chunk is the same to a search; a pending vector matches any stored one."""
    ignored = _VECTOR_BITS if entry.vector is None else 0
    return stored & ~ignored == entry.fingerprint & ~ignored


def facets_to_json(document: Document, chunk: Chunk | None = None) -> str:
    """Write the facets of a chunk, or of a document alone, as a sorted JSON list."""
    return strings_to_json(sorted(collect_facets(document, chunk)))


# Batches never split a document, so that a document that is replaced meanwhile is read only once.
DOCUMENT_PAGE = 256  # documents whose sizes are read in one query
MAX_CHUNKS, MAX_CHARS = 2000, 8_000_000  # per batch, unless a single document has more


def take_batch(sizes: Iterable[Sequence[int]]) -> list[int]:
    """Return the rows, from the start of `(row, chunks, chars)`, that fit in a batch; at least one if there are any."""
    rows, chunks, chars = list[int](), 0, 0
    for row, more_chunks, more_chars in sizes:
        chunks, chars = chunks + (more_chunks or 0), chars + (more_chars or 0)  # none where a row is damaged
        if rows and (chunks > MAX_CHUNKS or chars > MAX_CHARS):
            break
        rows.append(row)
    return rows


RECORD = (
    *("id", "title", "uri", "document_kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access"),
    *("summary_by", "created", "updated", "row", "sum"),
)
WHOLE = (*RECORD, "revision", "vector")  # the columns for rewriting the row of a document
PIECE_COLUMNS = (*Piece._fields, "doc", "sum")
CHUNK_COLUMNS = (  # in the order of the checksum
    *("row", "doc", "piece", "idx", "start", "stop", "headings", "context", "at", "meta", "text", "id", "sum"),
)
BLOCK_COLUMNS = ("doc", "block", "chars", "chunks", "sizes", "sum")
ROW = RECORD.index("row")
get_place = itemgetter(*map(RECORD.index, ("id", "chars", "chunks")))  # for placing the chunks of a document
piece_columns, chunk_columns = itemgetter(*PIECE_COLUMNS), itemgetter(*CHUNK_COLUMNS)


def make_document_row(
    document: Document, chunks: int, *, row: int, created: str | None, revision: int, vector: Vector | None
) -> Row:
    """Make the row of a document."""
    first, last = times_to_text(document, created)
    return seal_document(
        {
            "kind": DOCUMENT,
            "row": row,
            "id": document.id,
            "title": document.title,
            "uri": document.uri,
            "document_kind": document.kind,
            "hash": document.hash,
            "stamp": document.stamp,
            "chars": len(document.text),
            "chunks": chunks,
            "summary": document.summary,
            "meta": meta_to_json(document.meta),
            "access": access_to_json(document.access),
            "summary_by": document.summary_by,
            "created": first,
            "updated": last,
            "revision": revision,
            "facets": facets_to_json(document),
            "vector": vector,
        }
    )


def seal_document(row: Row) -> Row:
    """Complete the row of a document with its facets, pending flag and checksum."""
    columns = [row[name] for name in RECORD[:-1]]
    facets = row.get("facets") or record_to_facets(columns)
    pending = 1 if row["summary"] and row["chunks"] and row["vector"] is None else None
    return {**row, "facets": facets, "pending": pending, "sum": checksums.hash_values(*columns)}


def make_piece_row(piece: Piece, doc: int) -> Row:
    """Make the row of a piece; a message belongs to a block."""
    block = None if piece.message is None else piece.n >> BLOCK_BITS
    columns = zip(PIECE_COLUMNS, (*piece, doc, checksums.hash_values(doc, *piece)), strict=True)
    return {"kind": PIECE, **dict(columns), "block": block}


def make_block_row(doc: int, block: int, sizes: Sequence[tuple[int, int, int]]) -> Row:
    """Make the row of a block from (number, characters, chunks) of its messages."""
    chars, chunks, text = sum(each[1] for each in sizes), sum(each[2] for each in sizes), json.dumps(sizes)
    columns = (doc, block, chars, chunks, text, checksums.hash_values(doc, block, chars, chunks, text))
    return {"kind": BLOCK, **dict(zip(BLOCK_COLUMNS, columns, strict=True))}


def make_chunk_row(entry: Entry, place: Placed, *, row: int, doc: int) -> Row:
    """Make the row of a chunk."""
    chunk = entry.chunk
    headings, at, meta = headings_to_json(chunk.headings), to_iso(chunk.at), meta_to_json(chunk.meta)
    return {
        "kind": CHUNK,
        "row": row,
        "id": chunk.id,
        "doc": doc,
        "piece": place.piece,
        "idx": place.number,
        "start": place.start,
        "stop": place.end,
        "print": entry.fingerprint,
        "text": chunk.text,
        "headings": headings,
        "context": chunk.context,
        "at": at,
        "meta": meta,
        "channel": get_channel(chunk),
        "sum": checksums.hash_values(row, doc, *place, headings, chunk.context, at, meta, chunk.text, chunk.id),
        "seconds": entry.seconds,
        "length": entry.terms.length,
        "facets": entry.facets,
        "terms": entry.terms.hashes,
        "counts": entry.terms.counts,
        "vector": entry.vector,
        "pending": 1 if entry.vector is None else None,
    }


def get_channel(chunk: Chunk) -> str | None:
    """Return the channel of a chunk, if it is a text."""
    channel = chunk.meta.get("channel")
    return channel if isinstance(channel, str) else None


def matches_chunk(columns: Columns) -> bool:
    """Return whether CHUNK_COLUMNS match their checksum and have a place."""
    return checksums.matches(columns[-1], *columns[:-1]) and columns[4] is not None


def matches_piece(columns: Columns) -> bool:
    """Return whether PIECE_COLUMNS match their checksum."""
    return checksums.matches(columns[-1], columns[-2], *columns[:-2])


def order_of(chunk: Columns) -> tuple[int, int]:
    """Return the sort key of a chunk within its document, from CHUNK_COLUMNS or their beginning."""
    return (-1 if chunk[2] is None else chunk[2], chunk[3])


def group_by(place: int, rows: Iterable[Columns]) -> dict[int, list[Columns]]:
    """Group rows by the column at a position."""
    grouped: dict[int, list[Columns]] = {}
    for row in rows:
        grouped.setdefault(row[place], []).append(row)
    return grouped
