"""Reading a collection in batches: how much of it is in memory at once, and the scan over all chunks.

A batch never ends inside a document, so a document that is replaced between two batches is read once, as it was
before or after.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from clew.core.types import Chunk

DOCUMENT_PAGE = 256  # documents whose sizes are read at once
MAX_CHUNKS, MAX_CHARS = 2000, 8_000_000  # of a batch, unless a single document has more


class ChunkReader(Protocol):
    """Reads the chunks that the filter of a scan admits; each call is one transaction."""

    def read_chunk_page(self, after: str | None, limit: int) -> list[Chunk]:
        """The first `limit` chunks of the documents after one (None: of all), by document id and index."""

    def read_chunk_ids(self, doc_id: str) -> list[str]:
        """The ids of the chunks of a document, in order."""

    def read_chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids that are still there, by id."""


def take_batch(sizes: Iterable[Sequence[int]]) -> list[int]:
    """The first rows of `(row, chunks, chars)` that together stay within a batch; at least one if there are any."""
    rows, chunks, chars = list[int](), 0, 0
    for row, more_chunks, more_chars in sizes:
        chunks, chars = chunks + more_chunks, chars + more_chars
        if rows and (chunks > MAX_CHUNKS or chars > MAX_CHARS):
            break
        rows.append(row)
    return rows


def scan_chunks(reader: ChunkReader) -> Iterator[Chunk]:
    """Every chunk of a reader by document id and index; one that exists throughout comes exactly once."""
    after: str | None = None
    while True:
        page = reader.read_chunk_page(after, MAX_CHUNKS)
        is_last = len(page) < MAX_CHUNKS
        if not is_last and page[0].doc_id == page[-1].doc_id:
            after = page[0].doc_id
            yield from _scan_document(reader, after)
            continue
        if not is_last:  # its last document may go on after the page: the next page begins with it
            page = [chunk for chunk in page if chunk.doc_id != page[-1].doc_id]
        yield from page
        if is_last:
            return
        after = page[-1].doc_id


def _scan_document(reader: ChunkReader, doc_id: str) -> Iterator[Chunk]:
    """The chunks of a document that alone exceeds a batch: its ids are read at once, the chunks in batches."""
    ids = reader.read_chunk_ids(doc_id)
    for start in range(0, len(ids), MAX_CHUNKS):
        batch = ids[start : start + MAX_CHUNKS]
        chunks = reader.read_chunks_by_id(batch)
        yield from (chunks[chunk_id] for chunk_id in batch if chunk_id in chunks)
