"""Documents, pieces and chunks as rows of the dataset, and back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clew.core.facets import collect_facets
from clew.core.stored import PackedTerms
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, DocumentRecord, Vector
from clew.drivers.store import checksums, codec
from clew.drivers.store.entries import Entry
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, PIECE, Row
from clew.drivers.store.pieces import Piece, Placed

RECORD = (
    *("id", "title", "uri", "document_kind", "hash", "stamp", "chars", "chunks", "summary", "meta", "access"),
    *("summary_by", "created", "updated", "row", "sum"),
)
PIECE_COLUMNS = (*Piece._fields, "doc", "sum")
CHUNK_COLUMNS = (
    *("id", "doc", "piece", "idx", "start", "stop", "print", "text", "headings", "context", "at", "meta", "length"),
    "sum",
)
DOCUMENT_COLUMNS = ("doc", "revision", *RECORD)
_CHUNK_BITS = 24  # as codec packs characters and chunks in one number


def make_document_row(
    document: Document, chunks: int, *, row: int, created: str | None, revision: int, vector: Vector | None
) -> Row:
    """The row of a document."""
    first, last = codec.times_to_text(document, created)
    made: Row = {
        "kind": DOCUMENT,
        "row": row,
        "doc": row,
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
        "facets": sorted(collect_facets(document)),
        "vector": vector,
    }
    return seal_document(made)


def seal_document(row: Row) -> Row:
    """The row of a document with the checksum of its columns."""
    return {**row, "sum": checksums.hash_values(*(row[name] for name in RECORD[:-1]))}


def make_piece_row(piece: Piece, *, row: int, doc: int) -> Row:
    """The row of a piece of a document."""
    return {"kind": PIECE, "row": row, "doc": doc, **piece._asdict(), "sum": checksums.hash_values(doc, *piece)}


def make_chunk_row(entry: Entry, place: Placed, *, row: int, doc: int) -> Row:
    """The row of a chunk."""
    chunk = entry.chunk
    shown = (
        codec.headings_to_json(chunk.headings),
        chunk.context,
        to_iso(chunk.at),
        codec.meta_to_json(chunk.meta),
        chunk.text,
    )
    channel = chunk.meta.get("channel")
    return {
        "kind": CHUNK,
        "row": row,
        "doc": doc,
        "id": chunk.id,
        **dict(zip(("piece", "idx", "start", "stop"), place, strict=True)),
        **dict(zip(("headings", "context", "at", "meta", "text"), shown, strict=True)),
        "print": entry.fingerprint,
        "channel": channel if isinstance(channel, str) else None,
        "seconds": entry.seconds,
        "length": entry.length,
        "sum": checksums.hash_values(row, doc, *place, *shown, chunk.id),
        "facets": json.loads(entry.facets),
        "terms": np.frombuffer(entry.terms, np.int64),
        "counts": np.frombuffer(entry.counts, np.uint16),
        "vector": np.frombuffer(entry.vector, np.float32),
    }


def parse_record(row: Mapping[str, Any]) -> DocumentRecord:
    """The record of a document; CollectionDamaged if it is not as written."""
    return codec.parse_record([row[name] for name in RECORD])


def piece_columns(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A piece as `codec.PIECE_COLUMNS`."""
    return tuple(row[name] for name in PIECE_COLUMNS)


def parse_chunk(row: Mapping[str, Any], document: Mapping[str, Any], before: tuple[int, int] | None) -> Chunk:
    """A chunk of a document; `before` are the characters and chunks before its message, of a thread."""
    return codec.parse_chunk(chunk_columns(row, document, before))


def chunk_columns(row: Mapping[str, Any], document: Mapping[str, Any], before: tuple[int, int] | None) -> list[Any]:
    """A chunk as `codec.CHUNK_COLUMNS`."""
    packed = None if before is None else (before[0] << _CHUNK_BITS) + before[1]
    shown = [row[name] for name in ("text", "headings", "context", "at", "meta", "row", "doc", "piece", "idx")]
    return [row["id"], document["id"], packed, document["chunks"], *shown, row["start"], row["stop"], row["sum"]]


def read_terms(row: Mapping[str, Any]) -> PackedTerms:
    """The terms of a chunk."""
    return PackedTerms(row["terms"], row["counts"], row["length"])


def order_of(row: Mapping[str, Any]) -> tuple[int, int]:
    """What the chunks of a document are ordered by."""
    return (-1 if row["piece"] is None else row["piece"], row["idx"])


def group_by_document(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Rows by their document."""
    grouped: dict[int, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["doc"], []).append(row)
    return grouped
