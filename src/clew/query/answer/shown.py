"""What an answer may rest on: the numbered passages of a context, each with its words as the store has them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from clew.core.cite import Citation, quote_hash
from clew.core.text import sentences, terms
from clew.core.types import Chunk, Context, Document, DocumentRecord, MergedChunk

Read = Callable[[str], Document]
Span = tuple[int, int]

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
    def about(self) -> str:
        """What a sentence on it may say besides: the names of the document, of its headings and of who wrote it."""
        chunks = [hit.chunk for hit in self.passage.chunks]
        headings = dict.fromkeys(heading for chunk in chunks for heading in chunk.headings)
        authors = dict.fromkeys(str(chunk.meta.get("author", "")) for chunk in chunks)
        return " ".join([self.record.title, *headings, *authors])

    def find(self, quote: str) -> Span | None:
        """Where the words of a quote stand in the document, white space and the shape of signs aside."""
        pattern = verbatim(quote)
        for start, text in self.pieces:
            found = pattern.search(text) if pattern else None
            if found:
                return start + found.start(), start + found.end()
        return None

    def nearest(self, claim: str) -> Span:
        """The sentence that has most of a claim's terms; of equal ones the first."""
        wanted = terms(claim).keys()
        spans = [
            (start + low, start + high, text[low:high]) for start, text in self.pieces for low, high in sentences(text)
        ]
        low, high, _ = max(spans, key=lambda each: len(wanted & terms(each[2]).keys()))
        return low, high

    def cite(self, span: Span) -> Citation:
        """The citation of a stretch of the passage."""
        quote = next(text[span[0] - at : span[1] - at] for at, text in self.pieces if at <= span[0] < at + len(text))
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
    words = quote.strip().strip(".,;:!?").split()
    if not words:
        return None
    before = r"(?<!\w)" if words[0][0].isalnum() else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() else ""
    return re.compile(before + r"\s+".join("".join(map(_sign, word)) for word in words) + after)


def _sign(character: str) -> str:
    for signs in _ALIKE:
        if character in signs:
            return f"[{re.escape(signs)}]"
    return re.escape(character)
