"""A document with all that a store keeps of it: what moves from one store to another without being made again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from clew.core.types import Chunk, Document, Matrix, Section, Vector

Hashes = NDArray[np.int64]
Counts = NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Packed:
    """The terms of a chunk: the hash and the count of each word in the order of the hashes, and how many in all."""

    hashes: Hashes
    counts: Counts
    length: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document, its chunks in order, their vectors and terms, and the vector of its summary if it has one.

    Terms are hashes of words, as every store keeps them: nothing needs to be read, cut, analysed or embedded again.
    """

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Matrix
    terms: tuple[Packed, ...]
    summary_vector: Vector | None = None

    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal for two documents that are kept alike, to the last bit."""
        made = xxhash.xxh3_128()
        made.update(_line(_document(self.document)))
        for chunk, vector, terms in zip(self.chunks, self.vectors, self.terms, strict=True):
            made.update(_line([*_chunk(chunk), terms.length, len(terms.hashes)]))
            for array, form in ((vector, "<f4"), (terms.hashes, "<i8"), (terms.counts, "<u2")):
                made.update(np.ascontiguousarray(array, form).tobytes())
        if self.summary_vector is not None:
            made.update(np.ascontiguousarray(self.summary_vector, "<f4").tobytes())
        return made.hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an exported file: its name, how many rows it has, and the SHA-256 of its bytes."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an exported file says of itself. `language` is how the words were read, as the settings have it."""

    embedder: str
    dim: int
    language: str
    documents: int
    chunks: int
    parts: tuple[Part, ...]
    format: int


@dataclass(frozen=True, slots=True)
class StagedModel:
    """The model whose vectors stand beside those in use, and whether they were in use before."""

    embedder: str
    dim: int
    was_used: bool


def _document(of: Document) -> list[Any]:
    head = [of.id, of.text, of.kind, of.title, of.uri, of.summary, of.hash, of.stamp, dict(of.meta)]
    return [*head, [_section(each) for each in of.sections]]


def _section(of: Section) -> list[Any]:
    return [of.start, of.end, of.label, of.parent, of.id, of.author, of.at and of.at.isoformat(), of.page, of.guessed]


def _chunk(of: Chunk) -> Sequence[Any]:
    at = of.at and of.at.isoformat()
    return [of.id, of.index, of.total, of.text, of.start, of.end, of.headings, of.context, at, dict(of.meta)]


def _line(of: Sequence[Any]) -> bytes:
    return json.dumps(of, sort_keys=True, default=str).encode() + b"\n"
