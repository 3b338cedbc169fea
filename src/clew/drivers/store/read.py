"""Reads of documents, chunks and vectors from a state of a collection, as they were put."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from clew.core.facets import Condition, expand_document_filter, expand_filter
from clew.core.filter import Filter
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Vector
from clew.drivers.store import batches, checksums, codec
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    BLOCK,
    CHUNK,
    DOCUMENT,
    PIECE,
    Backend,
    Row,
    Select,
    Snapshot,
    Transaction,
    named_documents,
    select,
)
from clew.drivers.store.batches import DOCUMENT_PAGE, take_batch
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.filtered import FilteredSnapshot
from clew.drivers.store.redact import redact_document

_PLACED = ("row", "id", "chars", "chunks")  # of a document whose chunks are placed
_PLACE = itemgetter("doc", "n")  # of a piece
Before = Mapping[tuple[int, int], tuple[int, int]]  # of a message, by document and number: characters and chunks


def find_document(rows: Snapshot | Transaction, doc_id: str, columns: Sequence[str] = made.RECORD) -> Row:
    """The row of a document, with its record unless other columns are asked for, or NotFound."""
    found = rows.find(select(DOCUMENT, id=[doc_id]), columns)
    if not found:
        raise not_found_error(doc_id)
    return found[0]


def find_pieces(rows: Snapshot | Transaction, docs: Iterable[int]) -> list[Row]:
    """The pieces of documents, in order."""
    found = rows.find(select(PIECE, doc=list(docs)), made.PIECE_COLUMNS)
    return sorted(found, key=_PLACE)


def read_document(snapshot: Snapshot, doc_id: str) -> Document:
    """The document with its text, or NotFound."""
    row = find_document(snapshot, doc_id)
    if isinstance(snapshot, FilteredSnapshot):
        if snapshot.shows_part(row):
            chunks = parse_chunks(snapshot, snapshot.find(select(CHUNK, doc=[row["row"]]), made.CHUNK_COLUMNS))
            return redact_document(read_document(snapshot.whole, doc_id), made.parse_record(row), chunks)
        snapshot = snapshot.whole
    pieces = find_pieces(snapshot, [row["row"]])
    return codec.build_whole_document(made.parse_record(row), map(made.piece_columns, pieces))


def list_records(snapshot: Snapshot, where: Filter) -> Iterator[DocumentRecord]:
    """The records of the documents that a filter admits, by uri and id."""
    alternatives = expand_document_filter(where)
    named = named_documents(alternatives)
    wanted = select(DOCUMENT, alternatives) if named is None else select(DOCUMENT, alternatives, id=named)
    found = snapshot.find(wanted, made.RECORD)
    return iter([made.parse_record(row) for row in sorted(found, key=lambda row: (row["uri"], row["id"]))])


def add_up_before(snapshot: Snapshot, chunks: Iterable[Row], documents: Mapping[int, Row]) -> Before:
    """What stands before each message that chunks are of; without those that cannot be proved by what is stored."""
    wanted = {(row["doc"], row["piece"] >> codec.BLOCK_BITS) for row in chunks if row["piece"] is not None}
    if not wanted:
        return {}
    docs = {doc for doc, _ in wanted}
    starts = _add_up_blocks(snapshot.find(select(BLOCK, doc=docs), ("doc", "block", "chars", "chunks")), documents)
    found = snapshot.find(select(BLOCK, doc=docs, block={block for _, block in wanted}), made.BLOCK_COLUMNS)
    before: dict[tuple[int, int], tuple[int, int]] = {}
    for row in found:
        doc, block = row["doc"], row["block"]
        made_of = [row[name] for name in made.BLOCK_COLUMNS[:-1]]
        if (doc, block) in starts and (doc, block) in wanted and checksums.matches(row["sum"], *made_of):
            chars, count = starts[doc, block]
            for n, more_chars, more_chunks in json.loads(row["sizes"]):
                before[doc, n] = (chars, count)
                chars, count = chars + more_chars, count + more_chunks
    return before


def _add_up_blocks(blocks: Iterable[Row], documents: Mapping[int, Row]) -> dict[tuple[int, int], tuple[int, int]]:
    """What stands before each block, of the threads whose blocks add up to the whole."""
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    for doc, own in made.group_by_document(blocks).items():
        chars, chunks, found = 0, 0, dict[tuple[int, int], tuple[int, int]]()
        for row in sorted(own, key=lambda row: int(row["block"])):
            found[doc, row["block"]] = chars, chunks
            chars, chunks = chars + row["chars"], chunks + row["chunks"]
        document = documents.get(doc)
        if document is not None and (chars, chunks) == (document["chars"], document["chunks"]):
            starts |= found
    return starts


def parse_chunks(snapshot: Snapshot, chunks: Sequence[Row], documents: Mapping[int, Row] | None = None) -> list[Chunk]:
    """Rows of chunks as chunks."""
    if isinstance(snapshot, FilteredSnapshot):
        return snapshot.redact_chunks(chunks, parse_chunks(snapshot.whole, chunks))
    if documents is None:
        found = snapshot.find(select(DOCUMENT, row={row["doc"] for row in chunks}), _PLACED)
        documents = {row["row"]: row for row in found}
    try:
        before = add_up_before(snapshot, chunks, documents)
        named = ((row, documents[row["doc"]], before.get((row["doc"], row["piece"]))) for row in chunks)
        return [codec.parse_chunk(made.get_chunk(row), of["id"], of["chunks"], start) for row, of, start in named]
    except (KeyError, TypeError) as error:  # of no document, or a text in place of a number
        raise checksums.damaged_error("the place of a chunk that was found") from error


def read_document_chunks(snapshot: Snapshot, doc_id: str) -> list[Chunk]:
    """The chunks of a document in order, or NotFound."""
    document = find_document(snapshot, doc_id, (*_PLACED, "sum"))
    found = snapshot.find(select(CHUNK, doc=[document["row"]]), made.CHUNK_COLUMNS)
    chunks = parse_chunks(snapshot, sorted(found, key=made.order_of), {document["row"]: document})
    _check_numbers(document, chunks)
    return chunks


def _check_numbers(document: Row, chunks: Sequence[Chunk]) -> None:
    places = [chunk.index for chunk in chunks]
    is_part = document["sum"] == checksums.COMPARED  # labels hide a part of it
    known = sorted(set(places)) if is_part else list(range(len(places)))
    if places != known or not (is_part or len(places) == document["chunks"]):
        raise checksums.damaged_error(f"the list of the chunks of the document {document['id']!r}")


def read_chunks_by_id(
    snapshot: Snapshot, chunk_ids: Sequence[str], alternatives: Sequence[Condition] | None = None
) -> dict[str, Chunk]:
    """Those of the chunks that exist, and that a filter admits if there is one, by id."""
    wanted = set(chunk_ids)
    found = snapshot.find(select(CHUNK, alternatives, id=wanted), made.CHUNK_COLUMNS)
    if any(row["id"] not in wanted for row in found):
        raise checksums.damaged_error("the index of the chunks")
    return {chunk.id: chunk for chunk in parse_chunks(snapshot, found)}


def read_latest_chunks(snapshot: Snapshot, channel: str, k: int) -> list[Chunk]:
    """The k chunks of a channel that were added last, the last one at the end."""
    if k < 1:
        return []
    wanted = replace(select(CHUNK, channel=[channel]), order="-row", limit=k)
    return parse_chunks(snapshot, snapshot.find(wanted, made.CHUNK_COLUMNS)[::-1])


def list_channels(snapshot: Snapshot) -> list[str]:
    """The channels that have chunks, by name: each is looked up after the one before it."""
    if isinstance(snapshot, FilteredSnapshot):
        wanted = (replace(select(CHUNK, channel=[name]), limit=1) for name in list_channels(snapshot.whole))
        return [row["channel"] for each in wanted for row in snapshot.find(each, ("channel",))]
    channels: list[str] = []
    while True:
        after = (("channel", ">", channels[-1] if channels else ""),)
        found = snapshot.find(Select(CHUNK, after, order="channel", limit=1), ("channel",))  # type: ignore[arg-type]
        if not found:
            break
        channels.append(found[0]["channel"])
    has_empty = snapshot.find(replace(select(CHUNK, channel=[""]), limit=1), ("channel",))
    return ["", *channels] if has_empty else channels


def read_hits(snapshot: Snapshot, numbers: Sequence[int]) -> dict[int, Hit]:
    """The chunks in these rows that still exist, with their documents' records; the scores are left at 0."""
    found = snapshot.find(select(CHUNK, row=numbers), made.CHUNK_COLUMNS)
    wanted = select(DOCUMENT, row={row["doc"] for row in found})
    documents = {row["row"]: row for row in snapshot.find(wanted, made.RECORD)}
    records = {number: made.parse_record(row) for number, row in documents.items()}
    chunks = parse_chunks(snapshot, found, documents)
    return {row["row"]: Hit(chunk, records[row["doc"]], 0.0) for row, chunk in zip(found, chunks, strict=True)}


def read_vectors_by_chunk_id(snapshot: Snapshot, chunk_ids: Sequence[str]) -> dict[str, Vector]:
    """The vectors of those of the chunks that exist and have one."""
    found = snapshot.find(select(CHUNK, id=set(chunk_ids)), ("id", "vector"))
    return {row["id"]: row["vector"] for row in found if row["vector"] is not None}


def read_stored_documents(backend: Backend, doc_ids: Sequence[str] | None) -> Iterator[StoredDocument]:
    """All documents, or those named, in the order they were added; one batch is in memory at a time."""
    named = () if doc_ids is None else (("id", "in", set(doc_ids)),)
    after = 0
    while True:
        wanted = Select(DOCUMENT, (("row", ">", after), *named), order="row", limit=DOCUMENT_PAGE)
        with backend.read() as snapshot:
            sizes = snapshot.find(wanted, ("row", "chunks", "chars"))
            numbers = take_batch((row["row"], row["chunks"], row["chars"]) for row in sizes)
            batch = list(_read_document_batch(snapshot, numbers))
        if not numbers:
            return
        after = numbers[-1]
        yield from batch


def _read_document_batch(snapshot: Snapshot, numbers: Sequence[int]) -> Iterator[StoredDocument]:
    found = {row["row"]: row for row in snapshot.find(select(DOCUMENT, row=numbers), made.WHOLE)}
    pieces = made.group_by_document(find_pieces(snapshot, numbers))
    columns = (*made.CHUNK_COLUMNS, "length", "terms", "counts", "vector")
    rows = sorted(snapshot.find(select(CHUNK, doc=numbers), columns), key=lambda row: (row["doc"], made.order_of(row)))
    parsed, chunks, at = parse_chunks(snapshot, rows, found), made.group_by_document(rows), 0
    for number, document in sorted(found.items()):
        own = chunks.get(number, [])
        shown, at = tuple(parsed[at : at + len(own)]), at + len(own)
        _check_numbers(document, shown)
        vectors = np.full((len(own), snapshot.head.dim), np.nan, np.float32)  # nan: still to be made
        for place, row in enumerate(own):
            if row["vector"] is not None:
                vectors[place] = row["vector"]
        texts = map(made.piece_columns, pieces.get(number, []))
        yield StoredDocument(
            codec.build_whole_document(made.parse_record(document), texts),
            shown,
            vectors,
            tuple([PackedTerms(row["terms"], row["counts"], row["length"]) for row in own]),
            document["vector"],
        )


class ChunkScan:
    """A scan over the chunks that a filter admits; each page is of one state."""

    def __init__(self, backend: Backend, where: Filter) -> None:
        self._backend, self._alternatives = backend, expand_filter(where)

    def scan(self) -> Iterator[Chunk]:
        """Every chunk by document id and index; one that exists throughout comes exactly once."""
        after: str | None = None
        while True:
            page = self.read_chunk_page(after, batches.MAX_CHUNKS)
            is_last = len(page) < batches.MAX_CHUNKS
            if not is_last and page[0].doc_id == page[-1].doc_id:
                after = page[0].doc_id
                yield from self._scan_document(after)
                continue
            if not is_last:  # its last document may go on after the page: the next page begins with it
                page = [chunk for chunk in page if chunk.doc_id != page[-1].doc_id]
            yield from page
            if is_last:
                return
            after = page[-1].doc_id

    def _scan_document(self, doc_id: str) -> Iterator[Chunk]:
        """The chunks of a document that alone exceeds a batch: its ids are read at once, the chunks in batches."""
        ids = self.read_chunk_ids(doc_id)
        for start in range(0, len(ids), batches.MAX_CHUNKS):
            batch = ids[start : start + batches.MAX_CHUNKS]
            with self._backend.read() as snapshot:
                chunks = read_chunks_by_id(snapshot, batch, self._alternatives)
            yield from (chunks[chunk_id] for chunk_id in batch if chunk_id in chunks)

    def read_chunk_page(self, after: str | None, limit: int) -> list[Chunk]:
        """The first `limit` chunks of the documents after one (None: of all), by document id and index."""
        named = named_documents(self._alternatives)
        conditions: tuple[Any, ...] = () if named is None else (("id", "in", named),)
        page: list[Chunk] = []
        with self._backend.read() as snapshot:
            find = snapshot.find_stored if isinstance(snapshot, FilteredSnapshot) else snapshot.find
            while True:
                start = () if after is None else (("id", ">", after),)
                wanted = Select(DOCUMENT, (*conditions, *start), order="id", limit=limit)
                documents = {row["row"]: row for row in find(wanted, _PLACED)}
                rows = snapshot.find(select(CHUNK, self._alternatives, doc=list(documents)), made.CHUNK_COLUMNS)
                rows.sort(key=lambda row: (documents[row["doc"]]["id"], made.order_of(row)))
                page += parse_chunks(snapshot, rows[: limit - len(page)], documents)
                if len(page) >= limit or len(documents) < limit:
                    return page
                after = max(row["id"] for row in documents.values())

    def read_chunk_ids(self, doc_id: str) -> list[str]:
        """The ids of the chunks of a document, in order."""
        with self._backend.read() as snapshot:
            found = snapshot.find(select(DOCUMENT, id=[doc_id]), ("row",))
            wanted = select(CHUNK, self._alternatives, doc=[row["row"] for row in found])
            return [row["id"] for row in sorted(snapshot.find(wanted, ("id", "piece", "idx")), key=made.order_of)]
