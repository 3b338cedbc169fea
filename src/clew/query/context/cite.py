"""Makes the citations of a context, and checks citations of earlier answers against the current documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from clew.core.cite import Citation, CitationCheck, MergedChunk, check_citation, hash_quote
from clew.core.errors import NotFound
from clew.core.time import find_second, get_times
from clew.core.types import Chunk, Document, DocumentRecord

Read = Callable[[str], Document]


def cite_passages(passages: Sequence[MergedChunk], records: Mapping[str, DocumentRecord]) -> tuple[Citation, ...]:
    """Return one citation per chunk of the passages, in their order; those of its copies follow each passage."""
    return tuple(
        make_citation(hit.chunk, records[hit.chunk.doc_id], hit.chunk.start, hit.chunk.text)
        for passage in passages
        for hit in (*passage.chunks, *passage.copies)
        if hit.chunk.doc_id in records
    )


def make_citation(chunk: Chunk, record: DocumentRecord, start: int, quote: str) -> Citation:
    """Make the citation of a quote that begins at a position of the document, with the metadata of its chunk."""
    return Citation(
        document=record.id,
        version=record.hash,
        start=start,
        end=start + len(quote),
        hash=hash_quote(quote),
        quote=quote,
        title=record.title,
        uri=record.uri,
        page=chunk.meta.get("page"),
        message=str(chunk.meta.get("message", "")),
        author=str(chunk.meta.get("author", "")),
        at=chunk.at,
        section=chunk.headings,
        line=_find_line(chunk, start),
        second=find_second(get_times(chunk.meta), start - chunk.start),
    )


def _find_line(chunk: Chunk, start: int) -> int | None:
    """Find the line of the file on which a position of the chunk is; None where the lines are not those of a file."""
    first = chunk.meta.get("line")
    if not isinstance(first, int):
        return None
    return first + chunk.text.count("\n", 0, max(0, start - chunk.start))


def check_citations(citations: Iterable[Citation], read: Read) -> Iterator[CitationCheck]:
    """Check whether each quote still stands in its document, moved, changed or is gone."""
    last: tuple[str, str | None] = ("", None)
    for citation in citations:
        if last[0] != citation.document:
            last = (citation.document, _read_document_text(citation.document, read))
        yield check_citation(citation, last[1])


def _read_document_text(doc_id: str, read: Read) -> str | None:
    try:
        return read(doc_id).text
    except NotFound:
        return None
