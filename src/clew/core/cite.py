"""Citations: where a quote stands in which version of a document, so that anybody can check it byte for byte."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from clew.core.ids import digest

Standing = Literal["stands", "moved", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote and its place: `document.text[start:end]` in that version; what else is here is for the reader.

    A message of a conversation is cited with who said it and when, a page of a file with its number.
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


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """A citation held against the document as it is now; where it moved to, `start` says."""

    citation: Citation
    standing: Standing
    start: int | None = None


def quote_hash(quote: str) -> str:
    """What a citation keeps of its quote, so that the smallest change shows."""
    return digest("quote", quote)


def check_citation(citation: Citation, text: str | None) -> CitationCheck:
    """How a citation stands against a document's text as it is now; None is a document that is not there.

    It stands while the same words stand at the same place, whatever else has changed. They have moved where they are
    found elsewhere in the text; with the place alone (no quote was kept) that cannot be told.
    """
    if text is None:
        return CitationCheck(citation, "gone")
    if quote_hash(text[citation.start : citation.end]) == citation.hash:
        return CitationCheck(citation, "stands", citation.start)
    if citation.quote and quote_hash(citation.quote) == citation.hash and citation.quote in text:
        nearest = min(_places(citation.quote, text), key=lambda at: abs(at - citation.start))
        return CitationCheck(citation, "moved", nearest)
    return CitationCheck(citation, "changed")


def _places(quote: str, text: str) -> list[int]:
    found = [text.find(quote)]
    while (after := text.find(quote, found[-1] + 1)) >= 0:
        found.append(after)
    return found
