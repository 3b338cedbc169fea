"""The paragraph chunker: text is split at blank lines, and the last paragraphs of a chunk are repeated in the next.

It splits a conversation that is asked as a query, and text that has no structure beyond paragraphs.
"""

from collections.abc import Sequence

from clew.core.protocols import Chunker
from clew.core.text import estimate_tokens
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import SEPARATE, Atom, TokenCounter, split_oversized_atoms
from clew.index.chunk.blocks import PARAGRAPH
from clew.index.chunk.build import assign_spans_to_sections, build_chunks_from_spans
from clew.index.chunk.pack import (
    Span,
    check_size_and_overlap,
    make_exact_token_check,
    pack_atoms,
    split_oversized_spans,
)

MAX_TOKENS = 1800  # under the limit of 2048 that models of the time had
OVERLAP_TOKENS = 150


def estimate_token_counts(texts: Sequence[str]) -> list[int]:
    """An estimate of the tokens of each text, for when there is no tokenizer."""
    return [estimate_tokens(text) for text in texts]


def chunk_markdown(
    text: str,
    *,
    max_tokens: int = MAX_TOKENS,
    overlap_tokens: int | None = None,
    count: TokenCounter = estimate_token_counts,
) -> list[str]:
    """The chunks of a text as strings: whole paragraphs, at most `max_tokens` in each."""
    spans = find_paragraph_spans(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens, count=count)
    return [text[start:end] for start, end in spans]


def make_paragraph_chunker(
    *, max_tokens: int = MAX_TOKENS, overlap_tokens: int | None = None, count: TokenCounter = estimate_token_counts
) -> Chunker:
    """A chunker of whole paragraphs that ignores headings as boundaries."""
    overlap = _resolve_overlap(max_tokens, overlap_tokens)

    def chunk(document: Document) -> list[Chunk]:
        spans = find_paragraph_spans(document.text, max_tokens=max_tokens, overlap_tokens=overlap, count=count)
        return build_chunks_from_spans(document, assign_spans_to_sections(document, spans), headings=True)

    return chunk


def find_paragraph_spans(
    text: str,
    *,
    max_tokens: int = MAX_TOKENS,
    overlap_tokens: int | None = None,
    count: TokenCounter = estimate_token_counts,
) -> list[Span]:
    """The spans of the chunks: none exceeds the limit, and only white space is outside of them.

    A chunk starts with the last paragraphs of the one before that are within `overlap_tokens` (150, or a quarter of the
    limit if that is less), as far as there is room. A paragraph over the limit is split at sentences, then words, then
    characters, and none of it is repeated.
    """
    overlap = _resolve_overlap(max_tokens, overlap_tokens)
    found = [
        Atom(m.start(), m.start() + len(m[0].rstrip()), "paragraph", 0, repeatable=True)
        for m in PARAGRAPH.finditer(text)
    ]
    found[:1] = [atom._replace(break_level=SEPARATE) for atom in found[:1]]
    atoms, counts = split_oversized_atoms(text, found, size=max_tokens, count=count)
    ranges = pack_atoms(atoms, make_exact_token_check(text, atoms, counts, count), size=max_tokens, overlap=overlap)
    spans = [(atoms[low].start, atoms[high - 1].end) for low, high in ranges]
    return split_oversized_spans(text, spans, [atom.start for atom in atoms], size=max_tokens, count=count)


def _resolve_overlap(max_tokens: int, overlap_tokens: int | None) -> int:
    overlap = min(OVERLAP_TOKENS, max_tokens // 4) if overlap_tokens is None else overlap_tokens
    check_size_and_overlap(size=max_tokens, overlap=overlap, names=("max_tokens", "overlap_tokens"))
    return overlap
