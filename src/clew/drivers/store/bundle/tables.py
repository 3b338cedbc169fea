"""Whole documents as Parquet tables and back, to the last bit."""

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clew.core.stored import Packed, StoredDocument
from clew.core.types import Chunk, Document, Section
from clew.drivers.store import codec

_SECTION = pa.struct(
    [
        *((name, pa.int64()) for name in ("start", "end", "parent")),
        *((name, pa.string()) for name in ("label", "id", "author", "at")),
        ("page", pa.int64()),
        ("guessed", pa.bool_()),
    ]
)
_DOCUMENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "kind", "title", "uri", "summary", "meta", "hash", "stamp")),
        ("sections", pa.list_(_SECTION)),
        ("summary_vector", pa.list_(pa.float32())),
        ("chunks", pa.int64()),
    ]
)
_CHUNKS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "document", "text", "context", "at", "meta")),
        *((name, pa.int64()) for name in ("index", "start", "end", "length")),
        ("headings", pa.list_(pa.string())),
    ]
)


def documents(wholes: Sequence[StoredDocument]) -> bytes:
    """A part with all of the documents but their chunks; meta is JSON, times are ISO 8601."""
    return _parquet(pa.Table.from_pylist([_document(each) for each in wholes], schema=_DOCUMENTS))


def chunks(wholes: Sequence[StoredDocument], dim: int) -> bytes:
    """A part with their chunks, vectors and terms: hashes of words with their counts, and how many in all."""
    rows = [_chunk(*pair) for each in wholes for pair in zip(each.chunks, each.terms, strict=True)]
    terms = [packed for each in wholes for packed in each.terms]
    vectors = np.concatenate([np.empty((0, dim), np.float32), *(each.vectors for each in wholes)])
    ends = pa.array([0, *accumulate(len(packed.hashes) for packed in terms)], pa.int32())
    table = pa.Table.from_pylist(rows, schema=_CHUNKS)
    for name, column in (
        ("vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dim)),
        ("terms", pa.ListArray.from_arrays(ends, _joined([packed.hashes for packed in terms], np.int64))),
        ("counts", pa.ListArray.from_arrays(ends, _joined([packed.counts for packed in terms], np.uint16))),
    ):
        table = table.append_column(name, column)
    return _parquet(table)


def wholes(of_documents: bytes, of_chunks: bytes, dim: int) -> list[StoredDocument]:
    """The documents of a pair of parts."""
    table = pq.read_table(pa.BufferReader(of_chunks))
    rows = table.select(_CHUNKS.names).to_pylist()
    vectors = _flat(table, "vector").reshape(len(rows), dim)
    hashes, counts = _flat(table, "terms"), _flat(table, "counts")
    ends = list(accumulate(table["terms"].combine_chunks().value_lengths().to_pylist() if rows else []))
    found, start = [], 0
    for said in pq.read_table(pa.BufferReader(of_documents)).to_pylist():
        many = said["chunks"]
        here = range(start, start + many)
        spans = [slice(ends[at - 1] if at else 0, ends[at]) for at in here]
        packed = [Packed(hashes[span], counts[span], rows[at]["length"]) for at, span in zip(here, spans, strict=True)]
        vector = said["summary_vector"]
        found.append(
            StoredDocument(
                _read_document(said),
                tuple(_read_chunk(rows[at], many) for at in here),
                vectors[start : start + many],
                tuple(packed),
                None if vector is None else np.array(vector, np.float32),
            )
        )
        start += many
    return found


def _document(whole: StoredDocument) -> dict[str, Any]:
    of = whole.document
    names = ("start", "end", "parent", "label", "id", "author", "page", "guessed")
    sections = [
        {**{name: getattr(each, name) for name in names}, "at": codec.time_text(each.at)} for each in of.sections
    ]
    kept = {name: getattr(of, name) for name in ("id", "text", "kind", "title", "uri", "summary", "hash", "stamp")}
    vector, many = whole.summary_vector, len(whole.chunks)
    return {**kept, "meta": codec.meta_text(of.meta), "sections": sections, "summary_vector": vector, "chunks": many}


def _read_document(said: dict[str, Any]) -> Document:
    sections = tuple(Section(**{**each, "at": codec.time(each["at"])}) for each in said["sections"])
    kept = {name: said[name] for name in ("id", "text", "kind", "title", "uri", "summary", "hash", "stamp")}
    return Document(**kept, sections=sections, meta=json.loads(said["meta"]))


def _chunk(of: Chunk, terms: Packed) -> dict[str, Any]:
    return {
        "id": of.id,
        "document": of.doc_id,
        "text": of.text,
        "context": of.context,
        "at": codec.time_text(of.at),
        "meta": codec.meta_text(of.meta),
        "index": of.index,
        "start": of.start,
        "end": of.end,
        "length": terms.length,
        "headings": of.headings,
    }


def _read_chunk(said: dict[str, Any], total: int) -> Chunk:
    return Chunk(
        said["id"],
        said["document"],
        said["index"],
        total,
        said["text"],
        said["start"],
        said["end"],
        tuple(said["headings"]),
        said["context"],
        codec.time(said["at"]),
        json.loads(said["meta"]),
    )


def _joined(arrays: Sequence[Any], kind: Any) -> Any:
    return pa.array(np.concatenate([np.empty(0, kind), *arrays]))


def _flat(table: Any, name: str) -> Any:
    column = table[name]
    return column.combine_chunks().flatten().to_numpy() if len(column) else np.empty(0, np.float32)


def _parquet(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data
