"""Citations and contexts: the position of a quote in a version of a document, and passages merged from hits."""

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

    A message of a conversation is cited with its author and time. Elsewhere `section` is the path of headings above the
    quote, and `page` or `line` the number of the page or line that it begins on, where they are known; `second` is the
    second of a recording at which it begins.
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
    """The result of checking a citation against the current document; `start` is where the quote stands now."""

    citation: Citation
    standing: CitationStatus
    start: int | None = None


def hash_quote(quote: str) -> str:
    """Hash a quote, so that a citation detects any change of it."""
    return digest("quote", quote)


def check_citation(citation: Citation, text: str | None) -> CitationCheck:
    """Check a citation against the current text of its document, None if the document is gone.

    It "stands" while the same text is at the same position, whatever else has changed, and has "moved" if the text is
    found elsewhere, which needs the quote itself; otherwise it has "changed". So has one whose
    quote does not have its hash.
    """
    if text is None:
        return CitationCheck(citation, "gone")
    if citation.quote and hash_quote(citation.quote) != citation.hash:
        return CitationCheck(citation, "changed")  # the quote itself is not the one that was cited
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

    `avg_similarity` is the mean similarity of the hits that have one. `copies` are hits of other documents with the
    text of one of its chunks: they are not shown again, but their sources are named with the passage. `messages` are
    those of a conversation, in the order of the text. `table_header` are the header row and the delimiter of a table in
    which the passage begins.
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
    """The passages that fit the token budget, the prompt text made of them, its citations, and what was left out.

    Nothing found is an empty Context with a reason; a failure raises.
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
