"""The fields of a hit that every adapter returns: its source, its relevance, and its citation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from clew.core.attribution import make_passage_message
from clew.core.errors import SettingsError
from clew.core.filter import Filter
from clew.core.types import Hit


class Searchable(Protocol):
    """A collection that an adapter can search: an Engine, or a Client of a server."""

    def search(self, query: str, /, *, k: int | None, strategy: str | None, where: Filter) -> Any:
        """Return the hits, or their JSON."""


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A found chunk; `score` is its relevance, or the raw score if that is unknown."""

    id: str
    document: str
    text: str
    start: int
    end: int
    score: float
    metadata: dict[str, Any]


def find_chunks(
    engine: Searchable, query: str, *, k: int | None, strategy: str | None, where: Filter
) -> list[FoundChunk]:
    """Find the chunks for a query with an Engine or a Client, best first; SettingsError for anything else."""
    search = getattr(engine, "search", None)
    found: Any = search(query, k=k, strategy=strategy, where=where) if callable(search) else None
    if isinstance(found, Mapping):
        return [_read_json(each) for each in found["hits"]]
    if isinstance(found, list):
        return [_read_hit(hit, rank) for rank, hit in enumerate(found, 1)]
    if hasattr(found, "close"):
        found.close()  # a coroutine of an AsyncClient or clew.aio.Engine that nobody awaits
    raise SettingsError(f"an adapter searches in a clew.Engine or a clew.Client, not in a {type(engine).__name__}")


def make_metadata(hit: Hit, *, rank: int) -> dict[str, Any]:
    """Make the metadata of a hit: document, span and scores, and for a message its author and time.

    `start` and `end` are the positions of the text in its document, so that a citation can be checked.
    """
    document, chunk = hit.document, hit.chunk
    message = make_passage_message(chunk.meta, chunk.at, "")
    said: dict[str, Any] | None = None
    if message is not None:
        at = message.at.isoformat() if message.at else None
        said = {"id": message.id, "author": message.author, "channel": message.channel, "at": at}
    return _join(
        {"id": document.id, "title": document.title, "uri": document.uri, "kind": document.kind},
        {"id": chunk.id, "start": chunk.start, "end": chunk.end, "headings": list(chunk.headings), "meta": chunk.meta},
        {"rank": rank, "relevance": hit.relevance, "similarity": hit.similarity, "score": hit.score},
        said,
    )


def _join(
    document: Mapping[str, Any], chunk: Mapping[str, Any], numbers: Mapping[str, Any], said: Mapping[str, Any] | None
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "document": document["id"],
        **{name: document[name] for name in ("title", "uri", "kind")},
        "chunk": chunk["id"],
        **{name: chunk[name] for name in ("start", "end", "headings")},
        **numbers,
        "citation": f"{document['uri'] or document['id']}#{chunk['start']}-{chunk['end']}",
    }
    if said is not None:
        made |= {"message": said["id"], **{name: said[name] for name in ("author", "channel", "at")}}
    return {**{name: value for name, value in chunk["meta"].items() if name not in made}, **made}


def _read_hit(hit: Hit, rank: int) -> FoundChunk:
    score = hit.score if math.isnan(hit.relevance) else hit.relevance
    chunk, metadata = hit.chunk, make_metadata(hit, rank=rank)
    return FoundChunk(chunk.id, hit.document.id, chunk.text, chunk.start, chunk.end, score, metadata)


def _read_json(hit: Mapping[str, Any]) -> FoundChunk:
    """Read a hit from a server's JSON; an unknown number is null there and NaN here."""
    numbers = {name: math.nan if hit[name] is None else hit[name] for name in ("relevance", "similarity", "score")}
    document, chunk = hit["document"], hit["chunk"]
    metadata = _join(document, chunk, {"rank": hit["rank"], **numbers}, hit["message"])
    score = numbers["score"] if math.isnan(numbers["relevance"]) else numbers["relevance"]
    return FoundChunk(chunk["id"], document["id"], chunk["text"], chunk["start"], chunk["end"], score, metadata)
