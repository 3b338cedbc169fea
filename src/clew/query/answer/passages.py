"""The numbered passages of a context that an answer may cite, each with its text as stored."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from clew.core.cite import Citation, Context, MergedChunk
from clew.core.sentences import split_sentences
from clew.core.text import extract_terms, tokenize_words
from clew.core.types import Chunk, Document, DocumentRecord
from clew.core.words import load_words
from clew.query.context.assemble import make_citation

Read = Callable[[str], Document]
Span = tuple[int, int]

NEGATIONS = load_words("facts")["negations"]
MAX_GAP = 400  # characters that an ellipsis in a quote may stand for
_STOPS = ".,;:!?"
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:…|\.\.\.)\s*\]|\(\s*(?:…|\.\.\.)\s*\)|…|\.\s?\.\s?\.)\s*")
_CLAUSE_BREAK = re.compile(
    r"[,;:()—–]\s|\s-\s|"
    r"\b(?:but|although|though|while|whereas|because|which|who|where|when|and|so that|since|however)\b",
    re.IGNORECASE,
)
_EQUIVALENT_SIGNS = ("'‘’‚‛`´", '"“”„«»', "-‐‑‒–—−", "…")  # variants of the same sign


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A passage with its number in the prompt; `pieces` are (start, text) read from the document by position."""

    number: int
    passage: MergedChunk
    record: DocumentRecord
    pieces: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """The text of the passage."""
        return "\n".join(text for _, text in self.pieces)

    @property
    def text_with_authors(self) -> str:
        """The text of the passage, under the header of a table it begins in, with the author before each message."""
        parts = [f"{self.passage.table_header}\n"] if self.passage.table_header else []
        for start, text in self.pieces:
            at = 0
            for begin, author in self._find_message_authors(start, start + len(text)):
                parts += [text[at : begin - start], f"\n{author}: "]
                at = begin - start
            parts += [text[at:], "\n"]
        return "".join(parts).strip()

    @property
    def title_and_headings(self) -> str:
        """The title of the document and the headings, whose words a sentence may use too."""
        headings = dict.fromkeys(heading for hit in self.passage.chunks for heading in hit.chunk.headings)
        return " ".join([self.record.title, *headings])

    def find_quote(self, quote: str) -> Span | None:
        """Return the span of a quote in the document, ignoring white space, variants of signs and ellipses.

        An ellipsis may omit the rest of a sentence or whole sentences, but no negation.
        """
        patterns = [
            pattern for pattern in (compile_quote_pattern(quote), compile_elided_quote_pattern(quote)) if pattern
        ]
        for pattern in patterns:
            for start, text in self.pieces:
                found = pattern.search(text)
                if found and all(_can_quote_omit(text, *found.span(gap)) for gap in range(1, len(found.groups()) + 1)):
                    return start + found.start(), start + found.end()
        return None

    def omits_negation(self, span: Span) -> bool:
        """Return whether a span leaves out a negation of the clause that it is part of."""
        at, text = next((at, text) for at, text in self.pieces if at <= span[0] < at + len(text))
        return omits_negation(text, span[0] - at, span[1] - at)

    def find_supporting_sentences(self, claim: str, *, max_sentences: int = 2) -> list[Span]:
        """Find the sentences that together cover most terms of a claim, best first; each must add enough of them."""
        wanted = set(extract_terms(claim))
        min_added = max(2.0, 0.3 * len(wanted))
        spans = [
            (at + low, at + high, text[low:high]) for at, text in self.pieces for low, high in split_sentences(text)
        ]
        taken: list[Span] = []
        while len(taken) < max_sentences and spans:
            low, high, text = max(spans, key=lambda each: len(wanted & extract_terms(each[2]).keys()))
            if taken and len(wanted & extract_terms(text).keys()) < min_added:
                break
            taken.append((low, high))
            wanted -= extract_terms(text).keys()
        return taken

    def read_span(self, span: Span) -> str:
        """Return the text of a span of the document, as far as the passage has it."""
        return next(text[span[0] - at : span[1] - at] for at, text in self.pieces if at <= span[0] < at + len(text))

    def cite_span(self, span: Span) -> Citation:
        """Return the citation of a span of the passage."""
        return make_citation(self._find_chunk_of_span(span), self.record, span[0], self.read_span(span))

    def _find_message_authors(self, low: int, high: int) -> list[tuple[int, str]]:
        """Return the start and author of each message between two positions."""
        chunks = [hit.chunk for hit in self.passage.chunks]
        found = {max(low, each.start): str(each.meta.get("author") or "") for each in chunks if each.start < high}
        return sorted((at, author) for at, author in found.items() if author and low <= at)

    def _find_chunk_of_span(self, span: Span) -> Chunk:
        chunks = [hit.chunk for hit in self.passage.chunks]
        return next((chunk for chunk in chunks if chunk.start <= span[0] < chunk.end), chunks[0])


def has_negation(text: str) -> bool:
    """Return whether a text has a negation."""
    return bool(NEGATIONS.intersection(tokenize_words(text))) or "n't" in text or "n’t" in text


def omits_negation(text: str, low: int, high: int) -> bool:
    """Return whether a span of a text leaves out a negation of the clauses that it is part of."""
    for start, end in split_sentences(text):
        if start >= high or end <= low:
            continue
        cuts = [start, *(start + mark.start() for mark in _CLAUSE_BREAK.finditer(text[start:end])), end]
        for begin, stop in pairwise(cuts):
            outside = text[begin : min(low, stop)] + " " + text[max(high, begin) : stop]
            if begin < high and stop > low and has_negation(outside):
                return True
    return False


def number_passages(context: Context, read: Read) -> list[NumberedPassage]:
    """Assign numbers from 1 to the passages of a context, and read their text again from the store."""
    records = {record.id: record for record in context.documents}
    texts = {doc_id: read(doc_id).text for doc_id in {each.chunks[0].chunk.doc_id for each in context.passages}}
    found: list[NumberedPassage] = []
    for number, passage in enumerate(context.passages, 1):
        doc_id = passage.chunks[0].chunk.doc_id
        text = texts[doc_id]
        spans = passage.spans or [(hit.chunk.start, hit.chunk.end) for hit in passage.chunks]
        pieces = tuple((start, text[start:end]) for start, end in spans)
        found.append(NumberedPassage(number, passage, records[doc_id], pieces))
    return found


@lru_cache(maxsize=256)  # a quote is searched in every passage
def compile_quote_pattern(quote: str) -> "re.Pattern[str] | None":
    """Return a pattern for the whole words of a quote in order, ignoring white space and variants of signs.

    None for a quote without words.
    """
    words = quote.strip().strip(_STOPS).split()
    if not words:
        return None
    before = r"(?<!\w)" if words[0][0].isalnum() else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() else ""
    return re.compile(before + r"\s+".join("".join(map(_to_sign_pattern, word)) for word in words) + after)


@lru_cache(maxsize=256)
def compile_elided_quote_pattern(quote: str) -> "re.Pattern[str] | None":
    """Return a pattern for the parts of a quote with ellipses, with a group for each omitted text.

    None for a quote without an ellipsis.
    """
    parts = [pattern.pattern for part in _ELLIPSIS.split(quote) if (pattern := compile_quote_pattern(part))]
    has_ellipsis = _ELLIPSIS.search(quote)
    return None if not has_ellipsis or not parts else re.compile(rf"(.{{0,{MAX_GAP}}}?)".join(parts), re.DOTALL)


def _can_quote_omit(text: str, low: int, high: int) -> bool:
    """Return whether a quote may omit a span: within one sentence, or whole sentences, and no negation."""
    if has_negation(text[low:high]):
        return False
    spans = split_sentences(text)
    before = next(((start, end) for start, end in spans if start < low <= end), (low, low))
    after = next(((start, end) for start, end in spans if start <= high < end), (high, high))
    return before == after or (not text[low : before[1]].strip(_STOPS) and after[0] == high)


def _to_sign_pattern(character: str) -> str:
    for signs in _EQUIVALENT_SIGNS:
        if character in signs:
            return f"[{re.escape(signs)}]"
    return re.escape(character)
