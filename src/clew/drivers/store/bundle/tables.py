"""Stored documents as Parquet tables and back, to the last bit."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clew.core.stored import PackedTerms, StoredDocument
from clew.core.time import from_iso, to_iso
from clew.core.types import Chunk, Document, Section
from clew.drivers.store import codec
from clew.drivers.store.bundle.verify import MAX_PART_BYTES, MalformedPart, check_columns

_TEXT_FIELDS = ("id", "text", "kind", "title", "uri", "summary", "hash", "stamp")
_SECTION = pa.struct(
    [
        *((name, pa.int64()) for name in ("start", "end", "parent")),
        *((name, pa.string()) for name in ("label", "id", "author", "at")),
        ("page", pa.int64()),
        ("guessed", pa.bool_()),
        ("access", pa.list_(pa.string())),
        ("awaits", pa.string()),
    ]
)
_SECTION_FIELDS = [field.name for field in _SECTION]
_DOCUMENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "kind", "title", "uri", "summary", "meta", "hash", "stamp")),
        ("sections", pa.list_(_SECTION)),
        ("summary_vector", pa.list_(pa.float32())),
        ("chunks", pa.int64()),
        ("access", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("summary_by", "created", "updated")),
    ]
)
_CHUNKS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "document", "text", "context", "at", "meta")),
        *((name, pa.int64()) for name in ("index", "start", "end", "length")),
        ("headings", pa.list_(pa.string())),
    ]
)


# Columns that exports of earlier versions do not have; sections had fewer fields, too.
_LATER_COLUMNS = ("access", "summary_by", "created", "updated", "sections")


def documents_to_parquet(batch: Sequence[StoredDocument]) -> bytes:
    """A Parquet part with the documents without their chunks; meta is JSON, times are ISO 8601."""
    return _to_parquet(pa.Table.from_pylist([_document_to_row(stored) for stored in batch], schema=_DOCUMENTS))


def chunks_to_parquet(batch: Sequence[StoredDocument], dim: int) -> bytes:
    """A Parquet part with chunks, vectors and terms: hashes of words with their counts, and the number of words."""
    rows = [_chunk_to_row(*pair) for stored in batch for pair in zip(stored.chunks, stored.terms, strict=True)]
    terms = [packed for stored in batch for packed in stored.terms]
    vectors = np.concatenate([np.empty((0, dim), np.float32), *(stored.vectors for stored in batch)])
    ends = pa.array([0, *accumulate(len(packed.hashes) for packed in terms)], pa.int32())
    table = pa.Table.from_pylist(rows, schema=_CHUNKS)
    for name, column in (
        ("vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)),
        ("terms", pa.ListArray.from_arrays(ends, _concatenate([packed.hashes for packed in terms], np.int64))),
        ("counts", pa.ListArray.from_arrays(ends, _concatenate([packed.counts for packed in terms], np.uint16))),
    ):
        table = table.append_column(name, column)
    return _to_parquet(table)


def parse_stored_documents(documents: bytes, chunks: bytes, dim: int) -> list[StoredDocument]:
    """The documents of a pair of Parquet parts; MalformedPart, or an error of a library, if they cannot be read."""
    table = _read_table(chunks)
    arrays = {"vector": pa.list_(pa.float32(), dim), "terms": pa.list_(pa.int64()), "counts": pa.list_(pa.uint16())}
    check_columns(table, [*_CHUNKS, *pa.schema(arrays)], nullable=("at",))
    rows = table.select(_CHUNKS.names).to_pylist()
    vectors = _flatten(table, "vector").reshape(len(rows), dim)
    hashes, counts = _flatten(table, "terms"), _flatten(table, "counts")
    ends = list(accumulate(table["terms"].combine_chunks().value_lengths().to_pylist() if rows else []))
    batch, start = [], 0
    records = _read_table(documents)
    check_columns(records, _DOCUMENTS, optional=_LATER_COLUMNS, nullable=(*_LATER_COLUMNS, "summary_vector"))
    for row in records.to_pylist():
        count = row["chunks"]
        here = range(start, start + count)
        spans = [(at, slice(ends[at - 1] if at else 0, ends[at])) for at in here]
        vector = row["summary_vector"]
        batch.append(
            StoredDocument(
                _parse_document(row),
                tuple(_parse_chunk(rows[at], count) for at in here),
                vectors[start : start + count],
                tuple(PackedTerms(hashes[span], counts[span], rows[at]["length"]) for at, span in spans),
                None if vector is None else np.array(vector, np.float32),
            )
        )
        start += count
    if start != len(rows):
        raise MalformedPart(f"it has {len(rows)} chunks where its documents have {start}")
    return batch


def _read_table(data: bytes) -> Any:
    file = pq.ParquetFile(pa.BufferReader(data))
    sizes = (file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
    if (size := sum(sizes)) > MAX_PART_BYTES or (size := (table := file.read()).nbytes) > MAX_PART_BYTES:
        raise MalformedPart(f"its table has {size} bytes where {MAX_PART_BYTES} are the most")
    return table


def _to_columns(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Fields as columns: meta as JSON, a time as ISO 8601, labels as a list."""
    return {name: _to_column(getattr(value, name)) for name in names}


def _to_column(value: Any) -> Any:
    if isinstance(value, Mapping):
        return codec.meta_to_json(value)
    if isinstance(value, datetime):
        return to_iso(value)
    return sorted(value) if isinstance(value, Set) else value


def _document_to_row(stored: StoredDocument) -> dict[str, Any]:
    own = {
        "sections": [_to_columns(section, _SECTION_FIELDS) for section in stored.document.sections],
        "summary_vector": stored.summary_vector,
        "chunks": len(stored.chunks),
    }
    return _to_columns(stored.document, (name for name in _DOCUMENTS.names if name not in own)) | own


def _parse_document(row: dict[str, Any]) -> Document:
    return Document(
        **{name: row[name] for name in _TEXT_FIELDS},
        created=from_iso(row.get("created")),
        updated=from_iso(row.get("updated")),
        sections=tuple(map(_parse_section, row["sections"])),
        meta=json.loads(row["meta"]),
        access=row.get("access"),
        summary_by=row.get("summary_by") or "",
    )


def _parse_section(row: dict[str, Any]) -> Section:
    access = row.get("access")
    return Section(**{**row, "at": from_iso(row["at"]), "access": None if access is None else frozenset(access)})


def _chunk_to_row(chunk: Chunk, terms: PackedTerms) -> dict[str, Any]:
    own = {"document": chunk.doc_id, "length": terms.length}
    return _to_columns(chunk, (name for name in _CHUNKS.names if name not in own)) | own


def _parse_chunk(row: dict[str, Any], total: int) -> Chunk:
    return Chunk(
        **{name: row[name] for name in ("id", "index", "text", "start", "end", "context")},
        doc_id=row["document"],
        total=total,
        headings=tuple(row["headings"]),
        at=from_iso(row["at"]),
        meta=json.loads(row["meta"]),
    )


def _concatenate(arrays: Sequence[Any], kind: Any) -> Any:
    return pa.array(np.concatenate([np.empty(0, kind), *arrays]))


def _flatten(table: Any, name: str) -> Any:
    column = table[name]
    return column.combine_chunks().flatten().to_numpy() if len(column) else np.empty(0, np.float32)


def _to_parquet(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data
