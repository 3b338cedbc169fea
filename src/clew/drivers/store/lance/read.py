"""Reads of documents, chunks and vectors from a version of a collection, as they were put."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clew.core.facets import Condition, expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.stored import StoredDocument
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Vector
from clew.drivers.store import codec
from clew.drivers.store.batches import DOCUMENT_PAGE, take_batch
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.lance import rows as made
from clew.drivers.store.lance.content import Content
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, PIECE, Row
from clew.drivers.store.lance.search import Scored
from clew.drivers.store.lance.select import Select, named_documents, select
from clew.drivers.store.lance.snapshot import Snapshot

_HIT_COLUMNS = (*made.CHUNK_COLUMNS, *made.DOCUMENT_COLUMNS)
Before = Mapping[tuple[int, int], tuple[int, int]]  # of a message, by document and number: characters and chunks


def find_document(snapshot: Snapshot, doc_id: str) -> Row:
    """The row of a document, or NotFound."""
    found = snapshot.find(select(DOCUMENT, id=[doc_id]), made.DOCUMENT_COLUMNS)
    if not found:
        raise not_found_error(doc_id)
    return found[0]


def find_pieces(snapshot: Snapshot, docs: Iterable[int]) -> list[Row]:
    """The pieces of documents, in order."""
    found = snapshot.find(select(PIECE, doc=list(docs)), made.PIECE_COLUMNS)
    return sorted(found, key=lambda row: (row["doc"], row["n"]))


def read_document(snapshot: Snapshot, doc_id: str) -> Document:
    """The document with its text, or NotFound."""
    row = find_document(snapshot, doc_id)
    pieces = find_pieces(snapshot, [row["doc"]])
    return codec.build_whole_document(made.parse_record(row), [made.piece_columns(piece) for piece in pieces])


def list_records(snapshot: Snapshot, where: Filter) -> Iterator[DocumentRecord]:
    """The records of the documents that a filter admits, by uri and id."""
    alternatives = expand_document_filter(where)
    named = named_documents(alternatives)
    wanted = select(DOCUMENT, alternatives) if named is None else select(DOCUMENT, alternatives, id=named)
    found = snapshot.find(wanted, made.DOCUMENT_COLUMNS)
    return iter([made.parse_record(row) for row in sorted(found, key=lambda row: (row["uri"], row["id"]))])


def add_up_before(snapshot: Snapshot, chunks: Iterable[Row]) -> Before:
    """What stands before each message of the threads that chunks are of."""
    docs = {row["doc"] for row in chunks if row["piece"] is not None}
    if not docs:
        return {}
    before: dict[tuple[int, int], tuple[int, int]] = {}
    pieces = snapshot.find(select(PIECE, doc=docs), ("doc", "n", "chars", "chunks"))
    doc, chars, count = None, 0, 0
    for row in sorted(pieces, key=lambda row: (row["doc"], row["n"])):
        if row["doc"] != doc:
            doc, chars, count = row["doc"], 0, 0
        before[row["doc"], row["n"]] = (chars, count)
        chars, count = chars + row["chars"], count + row["chunks"]
    return before


def parse_chunks(snapshot: Snapshot, chunks: Sequence[Row], documents: Mapping[int, Row] | None = None) -> list[Chunk]:
    """Rows of chunks as chunks."""
    if documents is None:
        found = snapshot.find(select(DOCUMENT, row={row["doc"] for row in chunks}), ("row", "id", "chunks"))
        documents = {row["row"]: row for row in found}
    before = add_up_before(snapshot, chunks)
    return [
        made.parse_chunk(
            row, documents[row["doc"]], None if row["piece"] is None else before.get((row["doc"], row["piece"]))
        )
        for row in chunks
    ]


def read_document_chunks(snapshot: Snapshot, doc_id: str) -> list[Chunk]:
    """The chunks of a document in order, or NotFound."""
    document = find_document(snapshot, doc_id)
    found = snapshot.find(select(CHUNK, doc=[document["doc"]]), made.CHUNK_COLUMNS)
    if len(found) != document["chunks"]:
        raise damaged_error(f"the list of the chunks of the document {doc_id!r}")
    return parse_chunks(snapshot, sorted(found, key=made.order_of), {document["doc"]: document})


def read_chunks_by_id(
    snapshot: Snapshot, chunk_ids: Sequence[str], alternatives: Sequence[Condition] | None = None
) -> dict[str, Chunk]:
    """Those of the chunks that exist, and that a filter admits if there is one, by id."""
    found = snapshot.find(select(CHUNK, alternatives, id=set(chunk_ids)), made.CHUNK_COLUMNS)
    return {chunk.id: chunk for chunk in parse_chunks(snapshot, found)}


def read_latest_chunks(snapshot: Snapshot, channel: str, k: int) -> list[Chunk]:
    """The k chunks of a channel that were added last, the last one at the end."""
    if k < 1:
        return []
    found = sorted(row["row"] for row in snapshot.find(select(CHUNK, channel=[channel]), ("row",)))[-k:]
    rows = snapshot.find(select(CHUNK, row=found), made.CHUNK_COLUMNS)
    return parse_chunks(snapshot, sorted(rows, key=lambda row: int(row["row"])))


def list_channels(snapshot: Snapshot) -> list[str]:
    """The channels that have chunks, by name."""
    return sorted({row["channel"] for row in snapshot.find(select(CHUNK), ("channel",)) if row["channel"] is not None})


def read_hits(snapshot: Snapshot, scored: Sequence[Scored], k: int) -> list[Hit]:
    """The k best of the chunks in these rows with their documents' records, best first, ties by id."""
    numbers = {each.row for each in scored} | {each.doc for each in scored}
    rows = {row["row"]: row for row in snapshot.find_numbered(numbers, _HIT_COLUMNS)}
    chunks = parse_chunks(snapshot, [rows[each.row] for each in scored], rows)
    records = {each.doc: made.parse_record(rows[each.doc]) for each in scored}
    hits = [Hit(chunk, records[each.doc], each.score) for chunk, each in zip(chunks, scored, strict=True)]
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))[:k]


def read_vectors_by_chunk_id(snapshot: Snapshot, chunk_ids: Sequence[str]) -> dict[str, Vector]:
    """The vectors of those of the chunks that exist."""
    return {row["id"]: row["vector"] for row in snapshot.find(select(CHUNK, id=set(chunk_ids)), ("id", "vector"))}


def read_stored_documents(content: Content, doc_ids: Sequence[str] | None) -> Iterator[StoredDocument]:
    """All documents, or those named, in the order they were added; one batch is in memory at a time."""
    after = 0
    while True:
        snapshot = content.read_for_vectors()
        named = () if doc_ids is None else (("id", "in", set(doc_ids)),)
        wanted = Select(DOCUMENT, (("row", ">", after), *named))
        sizes = snapshot.find(wanted, ("row", "chunks", "chars"))
        page = sorted((row["row"], row["chunks"], row["chars"]) for row in sizes)[:DOCUMENT_PAGE]
        numbers = take_batch(page)
        if not numbers:
            return
        yield from _read_document_batch(snapshot, numbers)
        after = numbers[-1]


def _read_document_batch(snapshot: Snapshot, numbers: Sequence[int]) -> Iterator[StoredDocument]:
    found = snapshot.find(select(DOCUMENT, row=numbers), (*made.DOCUMENT_COLUMNS, "vector"))
    pieces = made.group_by_document(find_pieces(snapshot, numbers))
    columns = (*made.CHUNK_COLUMNS, "terms", "counts", "vector")
    chunks = made.group_by_document(snapshot.find(select(CHUNK, doc=numbers), columns))
    for document in sorted(found, key=lambda row: int(row["row"])):
        own = sorted(chunks.get(document["row"], []), key=made.order_of)
        if len(own) != document["chunks"]:
            raise damaged_error(f"the list of the chunks of the document {document['id']!r}")
        texts = [made.piece_columns(piece) for piece in pieces.get(document["row"], [])]
        vectors: Any = np.stack([row["vector"] for row in own]) if own else np.zeros((0, snapshot.head.dim), np.float32)
        yield StoredDocument(
            codec.build_whole_document(made.parse_record(document), texts),
            tuple(parse_chunks(snapshot, own, {document["row"]: document})),
            vectors,
            tuple(made.read_terms(row) for row in own),
            document.get("vector"),
        )


class FilteredChunks:
    """Reads the chunks that a filter admits, for a scan; each call is of one version."""

    def __init__(self, content: Content, where: Filter) -> None:
        self._content, self._alternatives = content, expand_filter(where)

    def read_chunk_page(self, after: str | None, limit: int) -> list[Chunk]:
        """The first `limit` chunks of the documents after one (None: of all), by document id and index."""
        snapshot = self._content.read()
        named = named_documents(self._alternatives)
        conditions: tuple[Any, ...] = () if named is None else (("id", "in", named),)
        if after is not None:
            conditions = (*conditions, ("id", ">", after))
        found = snapshot.find(Select(DOCUMENT, conditions), ("id", "row", "chunks"))
        page: list[Chunk] = []
        ordered = sorted(found, key=lambda row: str(row["id"]))
        for start in range(0, len(ordered), limit):
            documents = {row["row"]: row for row in ordered[start : start + limit]}
            rows = snapshot.find(select(CHUNK, self._alternatives, doc=list(documents)), made.CHUNK_COLUMNS)
            rows.sort(key=lambda row: (documents[row["doc"]]["id"], *made.order_of(row)))
            page += parse_chunks(snapshot, rows[: limit - len(page)], documents)
            if len(page) >= limit:
                break
        return page

    def read_chunk_ids(self, doc_id: str) -> list[str]:
        """The ids of the chunks of a document, in order."""
        snapshot = self._content.read()
        found = snapshot.find(select(DOCUMENT, id=[doc_id]), ("row",))
        wanted = select(CHUNK, self._alternatives, doc=[row["row"] for row in found])
        return [row["id"] for row in sorted(snapshot.find(wanted, ("id", "piece", "idx")), key=made.order_of)]

    def read_chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids that are still there, by id."""
        return read_chunks_by_id(self._content.read(), chunk_ids, self._alternatives)
