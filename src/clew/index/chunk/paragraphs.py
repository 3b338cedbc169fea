"""The paragraph chunker: text is cut at blank lines, and the last paragraphs of a chunk begin the next.

It cuts a conversation that is asked as a query, and whatever has no more structure than paragraphs.
"""

from collections.abc import Sequence

from clew.core.protocols import Chunker
from clew.core.text import estimate_tokens
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import APART, Atom, Count, refined
from clew.index.chunk.blocks import PARAGRAPH
from clew.index.chunk.build import build, cuts_of
from clew.index.chunk.pack import Span, check, exact, fitted, pack

MAX_TOKENS = 1800  # under the limit of 2048 that models of the time had
OVERLAP_TOKENS = 150


def estimated(texts: Sequence[str]) -> list[int]:
    """About how many tokens each text has, for when there is no tokenizer."""
    return [estimate_tokens(text) for text in texts]


def chunk_markdown(
    text: str, *, max_tokens: int = MAX_TOKENS, overlap_tokens: int | None = None, count: Count = estimated
) -> list[str]:
    """The chunks of a text as texts: whole paragraphs, at most `max_tokens` in each."""
    spans = paragraph_spans(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens, count=count)
    return [text[start:end] for start, end in spans]


def paragraphs(*, max_tokens: int = MAX_TOKENS, overlap_tokens: int | None = None, count: Count = estimated) -> Chunker:
    """A chunker of whole paragraphs, whatever headings they stand under."""
    overlap = _overlap(max_tokens, overlap_tokens)

    def chunk(document: Document) -> list[Chunk]:
        spans = paragraph_spans(document.text, max_tokens=max_tokens, overlap_tokens=overlap, count=count)
        return build(document, cuts_of(document, spans), headings=True)

    return chunk


def paragraph_spans(
    text: str, *, max_tokens: int = MAX_TOKENS, overlap_tokens: int | None = None, count: Count = estimated
) -> list[Span]:
    """Where the chunks begin and end: none is over the limit, and nothing but white space is outside of them.

    A chunk begins with the last paragraphs of the one before that are within `overlap_tokens` (150, or a quarter of the
    limit if that is less) as far as there is room. A paragraph over the limit is cut at sentences, then words, then
    characters, and of it nothing is repeated.
    """
    overlap = _overlap(max_tokens, overlap_tokens)
    found = [
        Atom(m.start(), m.start() + len(m[0].rstrip()), "paragraph", 0, whole=True) for m in PARAGRAPH.finditer(text)
    ]
    found[:1] = [atom._replace(cut=APART) for atom in found[:1]]
    atoms, counts = refined(text, found, size=max_tokens, count=count)
    ranges = pack(atoms, exact(text, atoms, counts, count), size=max_tokens, overlap=overlap)
    spans = [(atoms[low].start, atoms[high - 1].end) for low, high in ranges]
    return fitted(text, spans, [atom.start for atom in atoms], size=max_tokens, count=count)


def _overlap(max_tokens: int, overlap_tokens: int | None) -> int:
    overlap = min(OVERLAP_TOKENS, max_tokens // 4) if overlap_tokens is None else overlap_tokens
    check(size=max_tokens, overlap=overlap, names=("max_tokens", "overlap_tokens"))
    return overlap
