"""The quality filter of page chunks (`ingestion.quality_filter`): small ones are merged, poor ones dropped."""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.text import tokenize_words
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import TokenCounter
from clew.index.chunk.build import assign_chunk_indexes_and_ids
from clew.index.read.text.markdown import parse_markdown_blocks


def count_characters(texts: Sequence[str]) -> list[int]:
    """The length of each text: the counter for sizes that are given in characters."""
    return [len(text) for text in texts]


def merge_and_drop_chunks(
    document: Document, chunks: Sequence[Chunk], *, max_size: int, count: TokenCounter
) -> list[Chunk]:
    """The chunks with small ones merged up to `max_size` by `count`, and then the poor ones dropped."""
    return drop_poor_chunks(merge_small_chunks(document, chunks, max_size=max_size, count=count))


def merge_small_chunks(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    min_chars: int = 200,
    max_size: int | None = None,
    count: TokenCounter = count_characters,
) -> list[Chunk]:
    """The chunks, neighbours under the same headings merged if either has fewer than `min_chars` characters.

    The merged chunk is one span of the document, so an overlap is not doubled; it never exceeds `max_size` by `count`.
    """
    merged: list[Chunk] = []
    for chunk in chunks:
        before = merged[-1] if merged else None
        if before is not None and _is_mergeable(document, before, chunk, min_chars):
            text = document.text[before.start : chunk.end]
            if max_size is None or count([text])[0] <= max_size:
                meta = {key: value for key, value in before.meta.items() if chunk.meta.get(key) == value}
                merged[-1] = replace(before, text=text, end=chunk.end, meta=meta)
                continue
        merged.append(chunk)
    return assign_chunk_indexes_and_ids(merged)


def drop_poor_chunks(
    chunks: Sequence[Chunk], *, min_chars: int = 50, min_alphanumeric: float = 0.3, min_words: int = 5
) -> list[Chunk]:
    """The chunks with enough text besides their headings; code and tables of two lines or more always stay."""
    return assign_chunk_indexes_and_ids(
        [
            chunk
            for chunk in chunks
            if _has_enough_text(chunk, min_chars=min_chars, min_alphanumeric=min_alphanumeric, min_words=min_words)
        ]
    )


def _is_mergeable(document: Document, before: Chunk, after: Chunk, min_chars: int) -> bool:
    """Whether one of two chunks is small, they have the same headings, and only white space is between them."""
    return (
        min(len(before.text), len(after.text)) < min_chars
        and before.headings == after.headings
        and before.start <= after.start
        and before.end <= after.end
        and not document.text[before.end : after.start].strip()
    )


def _has_enough_text(chunk: Chunk, *, min_chars: int, min_alphanumeric: float, min_words: int) -> bool:
    if chunk.meta.get("content") in ("code", "table") and "\n" in chunk.text:
        return True
    blocks = parse_markdown_blocks(chunk.text)
    if any(block.kind in ("code", "table") and "\n" in chunk.text[block.start : block.end] for block in blocks):
        return True
    body = "\n\n".join(chunk.text[block.start : block.end] for block in blocks if block.kind != "heading")
    if len(body) < max(min_chars, 1) or len(tokenize_words(body)) < min_words:
        return False
    return sum(map(str.isalnum, body)) >= min_alphanumeric * len(body)
