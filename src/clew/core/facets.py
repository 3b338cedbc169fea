"""What filters see of a chunk: one set of `field value` words and one time, the same in every store.

A Filter becomes a few groups of such words; a chunk is admitted when it has a word of every group. An index can then
keep one posting list, one payload field or one array column, whatever it is built on.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from clew.core.types import Chunk, Document, Filter


def facets_of(document: Document, chunk: Chunk) -> frozenset[str]:
    """Every word that a filter may ask of this chunk."""
    meta = {**document.meta, **chunk.meta}
    pairs = [("document", document.id), ("kind", document.kind)]
    pairs += [(name, value) for name in ("channel", "author") for value in _values(meta.get(name))]
    pairs += [(f"meta.{key}", value) for key, given in meta.items() for value in _values(given)]
    return frozenset(_word(*pair) for pair in pairs)


def required_facets(where: Filter) -> list[frozenset[str]]:
    """The groups of words of which a chunk needs one each."""
    named = {
        "document": where.documents,
        "kind": where.kinds,
        "channel": where.channels,
        "author": where.authors,
        **{f"meta.{key}": frozenset(_values(value)) for key, value in where.meta.items()},
    }
    return [
        frozenset(_word(name, value) for value in values)
        for name, values in named.items()
        if values or name.startswith("meta.")  # a key that is asked to be nothing is met by no chunk
    ]


def to_timestamp(at: datetime | None) -> float | None:
    """The time as seconds since 1970; one without a zone is taken as UTC."""
    if at is None:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _word(name: str, value: str) -> str:
    return f"{name}\x1f{value}"


def _values(value: Any) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in _values(member)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, float) and value.is_integer():
        return [str(int(value))]
    return [str(value)]
