"""Extension points that are plain functions: they hold no resource, so a Callable type is enough."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clew.core.types import Chunk, Document, Hit, Query


@dataclass(frozen=True, slots=True)
class Verdict:
    """The opinion of a Judge: a grade from 1 to 5 (None: not graded) and, if it is low, a way to a better query.

    `refine` is called only if another search is allowed, since it may cost a model call; None: there is no better one.
    """

    grade: int | None
    refine: Callable[[], Query | None] | None = None


Reader = Callable[[bytes, str], Document | str]
"""Reads a file format that Clew does not know: the bytes of a file and its uri in, a Document or its markdown text out.

    def read_foo(data: bytes, uri: str) -> Document | str:
        return data.decode("latin-1").replace("==", "#")

A text, or a Document without sections, is parsed as markdown. Clew sets `id` and `uri`, and a title if there is none.
An exception makes this one file fail, with its text as the reason.
"""
Chunker = Callable[[Document], list[Chunk]]
"""Splits a document into chunks, in document order.

Each is a non-empty span, `chunk.text == document.text[chunk.start:chunk.end]`, with the `doc_id` of the document; they
may overlap. Clew sets `id`, `index` and `total`.
"""
Enricher = Callable[[Document, list[Chunk]], list[Chunk]]
"""Returns the chunks of a document with more to embed, usually a `context` that places each in the document.

The spans follow the rules of a Chunker.
"""
Strategy = Callable[[Query], list[Hit]]
"""Searches: hits for a query, best first, all of them admitted by `query.where`. It is the one type of retrieval.

It returns at least `query.k` hits if there are as many; the engine cuts to `k`. No hits is an empty list, a failure
raises.
"""
Step = Callable[[Query, list[Hit]], list[Hit]]
"""Changes the hits of a strategy: filters, re-scores or re-orders them, best first. It must not change its argument."""
Rewrite = Callable[[Query], list[Query]]
"""The queries to search with in place of one; at least one, with the same `where`."""
Fuse = Callable[[Sequence[list[Hit]]], list[Hit]]
"""Merges the rankings of several searches into one, each chunk once, best first."""
Judge = Callable[[Query, list[Hit]], Verdict]
"""Grades how well the hits answer the query."""
