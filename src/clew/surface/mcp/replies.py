"""What the tools reply. The text is for reading; that of `search` and `fetch` is JSON, as ChatGPT expects it."""

from collections.abc import Callable, Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict


class SearchResult(TypedDict):
    """A hit: the id is for `fetch`, the relevance the chance that it answers; a message says who wrote it and when."""

    id: str
    title: str
    url: str
    text: str
    relevance: float | None
    author: NotRequired[str]
    at: NotRequired[str | None]
    channel: NotRequired[str]


class SearchResults(TypedDict):
    """The hits of a search, best first; a reason where there are none."""

    results: list[SearchResult]
    reason: NotRequired[str]


class FetchedDocument(TypedDict):
    """A document with its text, or a part of it; `next` is then the start of the part after it."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]
    next: NotRequired[int | None]


class Source(TypedDict):
    """What a number in the text cites."""

    number: int
    id: str
    url: str


class ContextText(TypedDict):
    """Prompt text with numbered passages, and what the numbers cite; a reason where there is nothing."""

    text: str
    tokens: int
    sources: list[Source]
    reason: str


class Quote(Source):
    """A citation: the words of the source, and who said them when, if it is a message."""

    title: str
    quote: str
    author: str
    at: str | None


class AskedAnswer(TypedDict):
    """An answer with checked citations; `found` is false where there is none."""

    text: str
    found: bool
    confidence: float | None
    citations: list[Quote]
    reason: str


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


def _describe_answer(reply: Mapping[str, Any]) -> str:
    sources = (
        f"[{each['number']}] {', '.join(filter(None, (each['title'], each['author'], each['at'])))}  {each['url']}"
        for each in reply["citations"]
    )
    return "\n".join([reply["text"], *([reply["reason"]] if reply["reason"] else []), "", *sources]).strip()


def _describe_documents(reply: Mapping[str, Any]) -> str:
    lines = [f"{each['id']}  {each['kind']}  {each['title']}  {each['uri']}" for each in reply["documents"]]
    return "\n".join([*lines, f"more from start={reply['next']}"] if reply["next"] else lines) or "no documents"


def _describe_messages(reply: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{each['author']}, {each['at'] or 'no time'}, #{each['channel']} ({each['id']}): {each['text']}"
        for each in reply["messages"]
    )


def _describe_status(reply: Mapping[str, Any]) -> str:
    channels = f"; channels: {', '.join(reply['channels'])}" if reply["channels"] else ""
    return f"{reply['collection']}: {reply['documents']} documents in {reply['chunks']} chunks{channels}"


# The text of a reply, by tool; of the others it is the JSON.
TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "context": lambda reply: reply["text"] or reply["reason"],
    "ask": _describe_answer,
    "list_documents": _describe_documents,
    "search_conversations": _describe_messages,
    "status": _describe_status,
    "add": lambda reply: (
        f"{'added' if reply['added'] else 'changed' if reply['changed'] else 'unchanged'}: {reply['id']}"
    ),
}
