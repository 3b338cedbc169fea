"""Citations of what a context shows, and citations of earlier answers held against the documents as they are now."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from clew.core.cite import Citation, CitationCheck, check_citation, quote_hash
from clew.core.errors import NotFound
from clew.core.types import Chunk, Document, DocumentRecord, MergedChunk

Read = Callable[[str], Document]


def citations(passages: Sequence[MergedChunk], records: Mapping[str, DocumentRecord]) -> tuple[Citation, ...]:
    """One citation for each chunk that was found and is shown, in the order of the passages."""
    return tuple(
        cited(hit.chunk, records[hit.chunk.doc_id])
        for passage in passages
        for hit in passage.chunks
        if hit.chunk.doc_id in records
    )


def cited(chunk: Chunk, record: DocumentRecord, start: int | None = None, end: int | None = None) -> Citation:
    """The citation of a chunk, or of a part of it by positions in the document."""
    start = chunk.start if start is None else start
    end = chunk.end if end is None else end
    quote = chunk.text[start - chunk.start : end - chunk.start]
    return Citation(
        document=record.id,
        version=record.hash,
        start=start,
        end=end,
        hash=quote_hash(quote),
        quote=quote,
        title=record.title,
        uri=record.uri,
        page=chunk.meta.get("page"),
        message=str(chunk.meta.get("message", "")),
        author=str(chunk.meta.get("author", "")),
        at=chunk.at,
    )


def check(given: Iterable[Citation], read: Read) -> Iterator[CitationCheck]:
    """How each citation stands; a document is read once for those that follow one another."""
    last: tuple[str, str | None] = ("", None)
    for citation in given:
        if last[0] != citation.document:
            last = (citation.document, _text(citation.document, read))
        yield check_citation(citation, last[1])


def _text(doc_id: str, read: Read) -> str | None:
    try:
        return read(doc_id).text
    except NotFound:
        return None
