"""Messages put together again from their chunks, for the renderers and for scoring."""

from collections.abc import Iterable

from clew.core.time import to_timestamp
from clew.core.types import Chunk, Hit
from clew.query.context.results import has_position


def group_by_message(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """The hits of each message by its id, the best first; chunks of no message are left out."""
    messages: dict[str, list[Hit]] = {}
    for hit in hits:
        if name := hit.chunk.meta.get("message"):
            messages.setdefault(str(name), []).append(hit)
    return {name: sorted(parts, key=lambda hit: (-hit.score, hit.chunk.id)) for name, parts in messages.items()}


def rebuild_message_text(chunks: Iterable[Chunk]) -> str:
    """The text of a message from its chunks in any order; overlaps appear once, missing chunks are skipped."""
    text, reach = "", -1
    for chunk in sorted(chunks, key=_chunk_key):
        known = has_position(chunk) and reach >= 0
        if known and chunk.end <= reach:
            continue
        own = chunk.text[reach - chunk.start :] if known and chunk.start < reach else chunk.text
        joint = "" if not text or (known and chunk.start <= reach) else " "
        text += joint + own
        reach = chunk.end if has_position(chunk) else -1
    return text


def rebuild_messages(chunks: Iterable[Chunk]) -> list[str]:
    """The whole text of each message that the chunks belong to, oldest first; those without a time come first."""
    parts: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        if name := chunk.meta.get("message"):
            parts.setdefault(str(name), []).append(chunk)
    in_order = sorted(parts, key=lambda name: (to_timestamp(parts[name][0].at) or 0.0, name))
    return [rebuild_message_text(parts[name]) for name in in_order]


def _chunk_key(chunk: Chunk) -> tuple[int, int, str]:
    return int(chunk.meta.get("chunk_index", chunk.index)), chunk.start, chunk.id
