"""Citations and contexts: quotes with their position in a version of a document, and passages merged from hits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from clew.core.attribution import PassageMessage
from clew.core.ids import digest
from clew.core.types import DocumentRecord, Hit, Query

CitationStatus = Literal["stands", "moved", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote and its position: `document.text[start:end]` in that version; the other fields are for the reader.

    In a conversation, the citation has the author and time of the message. Elsewhere `section` is the path of headings
    above the quote; `page`, `line` or `second` (of a recording), where known, say where it begins.
    """

    document: str
    version: str
    start: int
    end: int
    hash: str
    quote: str = ""
    title: str = ""
    uri: str = ""
    page: int | None = None
    message: str = ""
    author: str = ""
    at: datetime | None = None
    section: tuple[str, ...] = ()
    line: int | None = None
    second: int | None = None


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The result of checking a citation against the current document; `start` is the quote's position now."""

    citation: Citation
    standing: CitationStatus
    start: int | None = None


def hash_quote(quote: str) -> str:
    """Hash a quote, so that a citation detects any change."""
    return digest("quote", quote)


def check_citation(citation: Citation, text: str | None) -> CitationCheck:
    """Check a citation against the current text of its document; None as text means that the document is gone.

    "stands": the same text is at the same position. "moved": the quote is elsewhere in the text (needs `quote`).
    "changed": neither, or the quote does not match its own hash.
    """
    if text is None:
        return CitationCheck(citation, "gone")
    if citation.quote and hash_quote(citation.quote) != citation.hash:
        return CitationCheck(citation, "changed")  # the quote was altered
    if hash_quote(text[citation.start : citation.end]) == citation.hash:
        return CitationCheck(citation, "stands", citation.start)
    if citation.quote and citation.quote in text:
        nearest = min(_find_occurrences(citation.quote, text), key=lambda at: abs(at - citation.start))
        return CitationCheck(citation, "moved", nearest)
    return CitationCheck(citation, "changed")


def _find_occurrences(quote: str, text: str) -> list[int]:
    found = [text.find(quote)]
    while (after := text.find(quote, found[-1] + 1)) >= 0:
        found.append(after)
    return found


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """A passage of merged hits; `spans` are its positions in the document, from which `text` is read.

    `avg_similarity` is the mean similarity of the hits that have one. `copies` are hits in other documents with the
    same text: they are not shown again, only their sources are named. `messages` are the messages in a conversation, in
    text order. `table_header` is the header and delimiter row of the table, if the passage begins within one.
    """

    text: str
    source: str
    heading_path: tuple[str, ...]
    heading_display: str
    chunks: tuple[Hit, ...]
    avg_similarity: float
    content_length: int
    spans: tuple[tuple[int, int], ...] = ()
    copies: tuple[Hit, ...] = ()
    messages: tuple[PassageMessage, ...] = ()
    table_header: str = ""


@dataclass(frozen=True, slots=True)
class DroppedPassage:
    """A passage that was found but left out of a Context, and why."""

    passage: MergedChunk
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """The passages that fit the token budget, their prompt text and citations, and the dropped passages.

    If nothing was found, the Context is empty and has a reason; a failure raises.
    """

    query: Query
    passages: tuple[MergedChunk, ...]
    text: str
    tokens: int
    documents: tuple[DocumentRecord, ...] = ()
    dropped: tuple[DroppedPassage, ...] = ()
    reason: str = ""
    citations: tuple[Citation, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the documents, by id
