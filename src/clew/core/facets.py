"""Facets: what filters see of a chunk, as one set of `field value` strings, the same in every store.

A Filter becomes groups of facets; a chunk is admitted if it has a facet of every group. An index then needs only one
posting list, payload field or array column.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clew.core.types import EVERYTHING, Chunk, Document, Filter

RESTRICTED = "access"  # the facet of a chunk that only some may see; the others are the labels of those who may


def collect_facets(document: Document, chunk: Chunk) -> frozenset[str]:
    """All facets of a chunk: its document, kind, channel, author and meta, the chunk's meta over the document's."""
    meta = {**document.meta, **chunk.meta}
    pairs = [("document", document.id), ("kind", document.kind)]
    pairs += [(name, value) for name in ("channel", "author") for value in _flatten_values(meta.get(name))]
    pairs += [(f"meta.{key}", value) for key, given in meta.items() for value in _flatten_values(given)]
    access = chunk.meta.get("access", document.access)
    pairs += [("access", label) for label in access or ()]
    return frozenset([*(_encode_facet(*pair) for pair in pairs), *([] if access is None else [RESTRICTED])])


def collect_required_facets(where: Filter) -> list[frozenset[str]]:
    """The groups of facets of a filter; a chunk must have at least one facet of each."""
    if where == EVERYTHING:
        return []
    named = {
        "document": where.documents,
        "kind": where.kinds,
        "channel": where.channels,
        "author": where.authors,
        **{f"meta.{key}": frozenset(_flatten_values(value)) for key, value in where.meta.items()},
    }
    return [
        frozenset(_encode_facet(name, value) for value in values)
        for name, values in named.items()
        if values or name.startswith("meta.")  # a meta key without a value matches no chunk
    ]


def collect_required_document_facets(where: Filter) -> list[frozenset[str]]:
    """The groups of a filter that apply to a document; authors and times are conditions on its chunks."""
    return collect_required_facets(replace(where, authors=EVERYTHING.authors, since=None, until=None))


def _encode_facet(name: str, value: str) -> str:
    return f"{name}\x1f{value}"


def _flatten_values(value: Any) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in _flatten_values(member)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, float) and value.is_integer():
        return [str(int(value))]
    return [str(value)]
