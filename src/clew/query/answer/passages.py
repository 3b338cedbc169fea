"""What an answer may rest on: the numbered passages of a context, each with its words as the store has them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from clew.core.cite import Citation, quote_hash
from clew.core.text import sentences, terms
from clew.core.types import Chunk, Context, Document, DocumentRecord, MergedChunk
from clew.query.answer.denial import cut_short, denies

Read = Callable[[str], Document]
Span = tuple[int, int]

GAP = 400  # characters that a quote may leave out in one place
_STOPS = ".,;:!?"
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:…|\.\.\.)\s*\]|\(\s*(?:…|\.\.\.)\s*\)|…|\.\s?\.\s?\.)\s*")
_ALIKE = ("'‘’‚‛`´", '"“”„«»', "-‐‑‒–—−", "…")  # signs that are written one way here and another there


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage under the number that it is shown with; `pieces` are read from the document by position."""

    number: int
    passage: MergedChunk
    record: DocumentRecord
    pieces: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """All its words."""
        return "\n".join(text for _, text in self.pieces)

    @property
    def spoken(self) -> str:
        """All its words, each message after the name of whoever wrote it."""
        parts = []
        for start, text in self.pieces:
            at = 0
            for begin, author in self._authors(start, start + len(text)):
                parts += [text[at : begin - start], f"\n{author}: "]
                at = begin - start
            parts += [text[at:], "\n"]
        return "".join(parts).strip()

    @property
    def about(self) -> str:
        """What a sentence on it may say besides: the names of the document and of its headings."""
        headings = dict.fromkeys(heading for hit in self.passage.chunks for heading in hit.chunk.headings)
        return " ".join([self.record.title, *headings])

    def find(self, quote: str) -> Span | None:
        """Where the words of a quote stand in the document, white space, the shape of signs and what is left out aside.

        What an ellipsis leaves out may be the rest of a sentence or whole sentences, but no denial.
        """
        patterns = [pattern for pattern in (verbatim(quote), elided(quote)) if pattern]
        for pattern in patterns:
            for start, text in self.pieces:
                found = pattern.search(text)
                if found and all(_may_go(text, *found.span(gap)) for gap in range(1, len(found.groups()) + 1)):
                    return start + found.start(), start + found.end()
        return None

    def denied(self, span: Span) -> bool:
        """Whether a stretch leaves out a denial of the clause that it is part of."""
        at, text = next((at, text) for at, text in self.pieces if at <= span[0] < at + len(text))
        return cut_short(text, span[0] - at, span[1] - at)

    def says(self, claim: str, *, most: int = 2) -> list[Span]:
        """The sentences that together have most of a claim's terms, the best first; another only if it adds enough."""
        wanted = set(terms(claim))
        least = max(2.0, 0.3 * len(wanted))
        spans = [(at + low, at + high, text[low:high]) for at, text in self.pieces for low, high in sentences(text)]
        taken: list[Span] = []
        while len(taken) < most and spans:
            low, high, text = max(spans, key=lambda each: len(wanted & terms(each[2]).keys()))
            if taken and len(wanted & terms(text).keys()) < least:
                break
            taken.append((low, high))
            wanted -= terms(text).keys()
        return taken

    def words(self, span: Span) -> str:
        """What stands between two places of the document, as far as it is shown."""
        return next(text[span[0] - at : span[1] - at] for at, text in self.pieces if at <= span[0] < at + len(text))

    def cite(self, span: Span) -> Citation:
        """The citation of a stretch of the passage."""
        quote = self.words(span)
        chunk = self._chunk(span)
        return Citation(
            document=self.record.id,
            version=self.record.hash,
            start=span[0],
            end=span[0] + len(quote),
            hash=quote_hash(quote),
            quote=quote,
            title=self.record.title,
            uri=self.record.uri,
            page=chunk.meta.get("page"),
            message=str(chunk.meta.get("message", "")),
            author=str(chunk.meta.get("author", "")),
            at=chunk.at,
        )

    def _authors(self, low: int, high: int) -> list[tuple[int, str]]:
        """Where messages begin between two places, and who wrote them."""
        chunks = [hit.chunk for hit in self.passage.chunks]
        found = {max(low, each.start): str(each.meta.get("author") or "") for each in chunks if each.start < high}
        return sorted((at, author) for at, author in found.items() if author and low <= at)

    def _chunk(self, span: Span) -> Chunk:
        chunks = [hit.chunk for hit in self.passage.chunks]
        return next((chunk for chunk in chunks if chunk.start <= span[0] < chunk.end), chunks[0])


def shown_in(context: Context, read: Read) -> list[Shown]:
    """The passages of a context by number, their words read again from the store."""
    records = {record.id: record for record in context.documents}
    found: list[Shown] = []
    for number, passage in enumerate(context.passages, 1):
        doc_id = passage.chunks[0].chunk.doc_id
        text = read(doc_id).text
        pieces = tuple((start, text[start:end]) for start, end in _whole(passage))
        found.append(Shown(number, passage, records[doc_id], pieces))
    return found


def _whole(passage: MergedChunk) -> Sequence[Span]:
    return passage.spans or [(hit.chunk.start, hit.chunk.end) for hit in passage.chunks]


@lru_cache(maxsize=256)  # a quote is looked for in every passage
def verbatim(quote: str) -> "re.Pattern[str] | None":
    """A pattern for the words of a quote in their order, each whole, whatever white space and shape of signs is there.

    None for a quote without any.
    """
    words = quote.strip().strip(_STOPS).split()
    if not words:
        return None
    before = r"(?<!\w)" if words[0][0].isalnum() else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() else ""
    return re.compile(before + r"\s+".join("".join(map(_sign, word)) for word in words) + after)


@lru_cache(maxsize=256)
def elided(quote: str) -> "re.Pattern[str] | None":
    """A pattern for the parts of a quote that leaves something out, a group for what stands between each two of them.

    None for a quote that leaves nothing out.
    """
    parts = [pattern.pattern for part in _ELLIPSIS.split(quote) if (pattern := verbatim(part))]
    whole = not _ELLIPSIS.search(quote)
    return None if whole or not parts else re.compile(rf"(.{{0,{GAP}}}?)".join(parts), re.DOTALL)


def _may_go(text: str, low: int, high: int) -> bool:
    """Whether a quote may leave out a stretch: within one sentence, or whole sentences, and no denial."""
    if denies(text[low:high]):
        return False
    spans = sentences(text)
    before = next(((start, end) for start, end in spans if start < low <= end), (low, low))
    after = next(((start, end) for start, end in spans if start <= high < end), (high, high))
    return before == after or (not text[low : before[1]].strip(_STOPS) and after[0] == high)


def _sign(character: str) -> str:
    for signs in _ALIKE:
        if character in signs:
            return f"[{re.escape(signs)}]"
    return re.escape(character)
