"""What every adapter carries of a hit: where it came from, how relevant it is, and how to cite it."""

from typing import Any

from clew.core.attribution import make_passage_message
from clew.core.types import Hit


def make_metadata(hit: Hit, *, rank: int) -> dict[str, Any]:
    """The metadata of a hit: document, span and numbers, and of a message its author and time.

    `start` and `end` are the positions of the text in its document, so that a citation can be checked.
    """
    made: dict[str, Any] = {
        "document": hit.document.id,
        "title": hit.document.title,
        "uri": hit.document.uri,
        "kind": hit.document.kind,
        "chunk": hit.chunk.id,
        "start": hit.chunk.start,
        "end": hit.chunk.end,
        "headings": list(hit.chunk.headings),
        "rank": rank,
        "relevance": hit.relevance,
        "similarity": hit.similarity,
        "score": hit.score,
        "citation": f"{hit.document.uri or hit.document.id}#{hit.chunk.start}-{hit.chunk.end}",
    }
    message = make_passage_message(hit.chunk.meta, hit.chunk.at, "")
    if message is not None:
        at = message.at.isoformat() if message.at else None
        made |= {"message": message.id, "author": message.author, "channel": message.channel, "at": at}
    return {**{name: value for name, value in hit.chunk.meta.items() if name not in made}, **made}
