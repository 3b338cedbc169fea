"""Citations: the position of a quote in a version of a document, so that anybody can check it byte for byte."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clew.core.ids import digest

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
    """The hash of a quote, by which a citation detects any change."""
    return digest("quote", quote)


def check_citation(citation: Citation, text: str | None) -> CitationCheck:
    """Checks a citation against the current text of its document, None if the document is gone.

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
