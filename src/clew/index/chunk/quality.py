"""After a chunker, where it is asked for: small chunks are joined, and those that say nothing are left out."""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.ids import chunk_ids
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import Count
from clew.index.read.text.markdown import parts_of


def characters(texts: Sequence[str]) -> list[int]:
    """The length of each text: the count for sizes that are given in characters."""
    return [len(text) for text in texts]


def merge_small(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    min_size: int = 200,
    max_size: int | None = None,
    count: Count = characters,
) -> list[Chunk]:
    """The chunks, neighbours under the same headings joined if either is smaller than `min_size`.

    Two are joined as one span of the document, so that an overlap is not doubled, and never beyond `max_size`.
    """
    merged: list[Chunk] = []
    sizes: list[int] = []
    for chunk, size in zip(chunks, count([chunk.text for chunk in chunks]), strict=True):
        before = merged[-1] if merged else None
        if before is not None and min(size, sizes[-1]) < min_size and _are_neighbours(document, before, chunk):
            text = document.text[before.start : chunk.end]
            joined = count([text])[0]
            if max_size is None or joined <= max_size:
                meta = {key: value for key, value in before.meta.items() if chunk.meta.get(key) == value}
                merged[-1] = replace(before, text=text, end=chunk.end, meta=meta)
                sizes[-1] = joined
                continue
        merged.append(chunk)
        sizes.append(size)
    return renumbered(merged)


def drop_poor(
    chunks: Sequence[Chunk], *, min_chars: int = 50, min_alphanumeric: float = 0.3, min_words: int = 5
) -> list[Chunk]:
    """The chunks that say something beside their headings; code and tables of two lines or more always do."""
    return renumbered(
        [
            chunk
            for chunk in chunks
            if _says_something(chunk, min_chars=min_chars, min_alphanumeric=min_alphanumeric, min_words=min_words)
        ]
    )


def renumbered(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks with indexes from 0 on without a gap, and ids that fit what they say now."""
    ids = chunk_ids(chunks[0].doc_id, [chunk.embed_text for chunk in chunks]) if chunks else []
    return [
        replace(chunk, id=id_, index=index, total=len(chunks))
        for index, (chunk, id_) in enumerate(zip(chunks, ids, strict=True))
    ]


def _are_neighbours(document: Document, before: Chunk, after: Chunk) -> bool:
    """Whether nothing but white space is between two chunks of one document that stand under the same headings."""
    return (
        before.doc_id == after.doc_id
        and before.headings == after.headings
        and before.start <= after.start
        and before.end <= after.end
        and not document.text[before.end : after.start].strip()
    )


def _says_something(chunk: Chunk, *, min_chars: int, min_alphanumeric: float, min_words: int) -> bool:
    if chunk.meta.get("content") in ("code", "table") and "\n" in chunk.text:
        return True
    parts = parts_of(chunk.text)
    if any(part.kind in ("code", "table") and "\n" in chunk.text[part.start : part.end] for part in parts):
        return True
    body = "\n\n".join(chunk.text[part.start : part.end] for part in parts if part.kind != "heading")
    if len(body) < max(min_chars, 1) or len(body.split()) < min_words:
        return False
    return sum(map(str.isalnum, body)) >= min_alphanumeric * len(body)
