"""Each chunk once."""

from clew.core.types import Hit


def by_chunk(hits: list[Hit]) -> list[Hit]:
    """The hits in their order with each chunk only once, where it stood first, under its best score."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        known = kept.get(hit.chunk.id)
        if known is None or hit.score > known.score:
            kept[hit.chunk.id] = hit
    return list(kept.values())
