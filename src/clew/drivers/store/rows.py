"""Documents, pieces and chunks as rows, and back."""

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter

from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Vector
from clew.drivers.store import checksums, codec
from clew.drivers.store.backend import BLOCK, CHUNK, DOCUMENT, PIECE, Columns, Row
from clew.drivers.store.entries import Entry, facets_to_json
from clew.drivers.store.pieces import Piece, Placed

RECORD = (
    *("id", "title", "uri", "document_kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access"),
    *("summary_by", "created", "updated", "row", "sum"),
)
WHOLE = (*RECORD, "revision", "vector")  # of the row of a document that is written again
PIECE_COLUMNS = (*Piece._fields, "doc", "sum")
CHUNK_COLUMNS = (  # in the order of the checksum
    *("row", "doc", "piece", "idx", "start", "stop", "headings", "context", "at", "meta", "text", "id", "sum"),
)
BLOCK_COLUMNS = ("doc", "block", "chars", "chunks", "sizes", "sum")
ROW = RECORD.index("row")
get_place = itemgetter(*map(RECORD.index, ("id", "chars", "chunks")))  # what the chunks of a document are placed by
piece_columns, chunk_columns = itemgetter(*PIECE_COLUMNS), itemgetter(*CHUNK_COLUMNS)


def make_document_row(
    document: Document, chunks: int, *, row: int, created: str | None, revision: int, vector: Vector | None
) -> Row:
    """The row of a document."""
    first, last = codec.times_to_text(document, created)
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
            "meta": codec.meta_to_json(document.meta),
            "access": codec.access_to_json(document.access),
            "summary_by": document.summary_by,
            "created": first,
            "updated": last,
            "revision": revision,
            "facets": facets_to_json(document),
            "vector": vector,
        }
    )


def seal_document(row: Row) -> Row:
    """The row of a document with its facets, and the checksum of its columns."""
    columns = [row[name] for name in RECORD[:-1]]
    facets = row.get("facets") or codec.record_to_facets(columns)
    pending = 1 if row["summary"] and row["chunks"] and row["vector"] is None else None
    return {**row, "facets": facets, "pending": pending, "sum": checksums.hash_values(*columns)}


def make_piece_row(piece: Piece, doc: int) -> Row:
    """The row of a piece of a document; that of a message is in a block."""
    block = None if piece.message is None else piece.n >> codec.BLOCK_BITS
    columns = zip(PIECE_COLUMNS, (*piece, doc, checksums.hash_values(doc, *piece)), strict=True)
    return {"kind": PIECE, **dict(columns), "block": block}


def make_block_row(doc: int, block: int, sizes: Sequence[tuple[int, int, int]]) -> Row:
    """The row of a block: the numbers of the messages in it, and the characters and chunks of each."""
    chars, chunks, text = sum(each[1] for each in sizes), sum(each[2] for each in sizes), json.dumps(sizes)
    columns = (doc, block, chars, chunks, text, checksums.hash_values(doc, block, chars, chunks, text))
    return {"kind": BLOCK, **dict(zip(BLOCK_COLUMNS, columns, strict=True))}


def make_chunk_row(entry: Entry, place: Placed, *, row: int, doc: int) -> Row:
    """The row of a chunk."""
    chunk = entry.chunk
    headings, at, meta = codec.headings_to_json(chunk.headings), to_iso(chunk.at), codec.meta_to_json(chunk.meta)
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
    """The channel that a chunk is looked up by."""
    channel = chunk.meta.get("channel")
    return channel if isinstance(channel, str) else None


def matches_chunk(columns: Columns) -> bool:
    """Whether CHUNK_COLUMNS are as written, and the chunk has a place: labels hide one that cannot be added up."""
    return checksums.matches(columns[-1], *columns[:-1]) and columns[4] is not None


def matches_piece(columns: Columns) -> bool:
    """Whether PIECE_COLUMNS are as written."""
    return checksums.matches(columns[-1], columns[-2], *columns[:-2])


def order_of(chunk: Columns) -> tuple[int, int]:
    """What the chunks of a document are ordered by: the first of their CHUNK_COLUMNS."""
    return (-1 if chunk[2] is None else chunk[2], chunk[3])


def group_by(place: int, rows: Iterable[Columns]) -> dict[int, list[Columns]]:
    """Rows by their column at a place."""
    grouped: dict[int, list[Columns]] = {}
    for row in rows:
        grouped.setdefault(row[place], []).append(row)
    return grouped
