"""What the tools reply. `search` and `fetch` are as ChatGPT and others expect them; the rest is the server's JSON."""

from typing import Any

from typing_extensions import TypedDict


class SearchResult(TypedDict):
    """A hit: the id is for `fetch`."""

    id: str
    title: str
    url: str
    text: str


class SearchResults(TypedDict):
    """The hits of a search, best first."""

    results: list[SearchResult]


class FetchedDocument(TypedDict):
    """A document with its whole text."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class ContextText(TypedDict):
    """Prompt text with numbered passages, and what the numbers cite; a reason where there is nothing."""

    text: str
    tokens: int
    citations: list[dict[str, Any]]
    reason: str


class AskedAnswer(TypedDict):
    """An answer with checked citations; `found` is false where there is none.

    `parts` are the passages quoted without a language model, each with the span that was chosen in it.
    """

    text: str
    found: bool
    confidence: float | None
    citations: list[dict[str, Any]]
    parts: list[dict[str, Any]]
    reason: str


class DocumentPart(TypedDict):
    """A part of a document; `next` is the start of the part after it."""

    id: str
    title: str
    url: str
    text: str
    start: int
    next: int | None


class DocumentList(TypedDict):
    """Documents by address; `next` is the start of those after them."""

    documents: list[dict[str, Any]]
    next: int | None


class FoundMessage(TypedDict):
    """A message that was found."""

    id: str
    channel: str
    author: str
    at: str | None
    text: str
    relevance: float | None


class FoundMessages(TypedDict):
    """Messages, best first."""

    messages: list[FoundMessage]


class AddedDocument(TypedDict):
    """What was added: the id of the document, and whether it was there before."""

    id: str
    added: bool
    changed: bool
    chunks: int


class CollectionStatus(TypedDict):
    """The counts of the collection."""

    collection: str
    documents: int
    chunks: int
    embedder: str
    channels: list[str]
