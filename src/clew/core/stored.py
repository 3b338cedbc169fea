"""Stored values: documents with their index entries, sessions, and records of collections."""

import json
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from clew.core.text import Terms
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Matrix, Message, Section, Vector

Hashes = NDArray[np.int64]
Counts = NDArray[np.uint16]
SLICE = 64  # texts per call of an embedder; after a crash at most this many are embedded again


@dataclass(frozen=True, slots=True)
class PackedTerms:
    """The terms of a chunk: hash and count of each term, sorted by hash, and the total count."""

    hashes: Hashes
    counts: Counts
    length: int


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to put: its chunks with their unit vectors and terms, and the vector of its summary, if any."""

    document: Document
    chunks: Sequence[Chunk]
    vectors: Matrix
    terms: Sequence[Terms]
    summary_vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document: its chunks in order, their vectors and terms, and the vector of its summary, if any.

    It has everything to put the document into another store without reading, chunking or embedding again: terms are
    hashed alike in every store.
    """

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Matrix
    terms: tuple[PackedTerms, ...]
    summary_vector: Vector | None = None

    def fingerprint(self) -> str:
        """Hash everything stored to 32 hexadecimal digits; equal only if all bits are."""
        hasher = xxhash.xxh3_128()
        hasher.update(_to_json_line(_list_document_fields(self.document)))
        for chunk, vector, terms in zip(self.chunks, self.vectors, self.terms, strict=True):
            hasher.update(_to_json_line([*_list_chunk_fields(chunk), terms.length, len(terms.hashes)]))
            for array, form in ((vector, "<f4"), (terms.hashes, "<i8"), (terms.counts, "<u2")):
                hasher.update(np.ascontiguousarray(array, form).tobytes())
        if self.summary_vector is not None:
            hasher.update(np.ascontiguousarray(self.summary_vector, "<f4").tobytes())
        return hasher.hexdigest()


@dataclass(frozen=True, slots=True)
class BundlePart:
    """A part of an exported bundle: its name, its number of rows, and the SHA-256 of its bytes."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an exported bundle. `language` is that of the analyser, as in the settings.

    `calibration` is the store's calibration text, so that a restored collection gives the same relevance.
    """

    embedder: str
    dim: int
    language: str
    documents: int
    chunks: int
    parts: tuple[BundlePart, ...]
    format: int
    calibration: str = ""


@dataclass(frozen=True, slots=True)
class StagedModel:
    """The model of staged vectors, stored beside the active ones; `was_used`: they were active before."""

    embedder: str
    dim: int
    was_used: bool


def _list_document_fields(of: Document) -> list[Any]:
    head = [of.id, of.text, of.kind, of.title, of.uri, of.summary, of.hash, of.stamp, dict(of.meta)]
    access = [] if of.access is None and not of.summary_by else [_sort_labels(of.access), of.summary_by]
    return [*head, [_list_section_fields(each) for each in of.sections], *access]


def _list_section_fields(of: Section) -> list[Any]:
    columns = [of.start, of.end, of.label, of.parent, of.id, of.author, to_iso(of.at), of.page, of.guessed]
    access = [] if of.access is None and of.awaits is None else [_sort_labels(of.access)]
    return [*columns, *access, *([] if of.awaits is None else [of.awaits])]


def _sort_labels(access: Set[str] | None) -> list[str] | None:
    return None if access is None else sorted(access)


def _list_chunk_fields(of: Chunk) -> Sequence[Any]:
    span = [of.id, of.index, of.total, of.text, of.start, of.end]
    return [*span, of.headings, of.context, to_iso(of.at), dict(of.meta)]


def _to_json_line(of: Sequence[Any]) -> bytes:
    return json.dumps(of, sort_keys=True, default=str).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session: its documents in the order of their numbers, from 1, and the messages of its chat.

    `used` is the time of its last use, in seconds since 1970. A `kept` session never expires.
    """

    documents: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    used: float = 0.0
    kept: bool = False

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each document, by id."""
        return {doc_id: number for number, doc_id in enumerate(self.documents, 1)}


ChangeSession = Callable[[StoredSession], StoredSession]


def messages_to_json(messages: tuple[Message, ...]) -> str:
    """Write the roles and texts of messages as ASCII JSON, which can also escape lone surrogates."""
    return json.dumps([[message.role, message.text] for message in messages])


def parse_messages(text: str) -> tuple[Message, ...]:
    """Parse the messages that `messages_to_json` wrote."""
    return tuple(Message(said, role=role) for role, said in json.loads(text))


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    """A collection in a folder or on a server: its name, counts, embedder, times and size.

    `updated` is the time of the last write of a document. `created` is None for a collection of an earlier Clew. On a
    server, `bytes` is its share of the tables. `problem` says why it cannot be opened; the counts are then 0.
    """

    name: str
    documents: int = 0
    chunks: int = 0
    embedder: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    bytes: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DroppedCollection:
    """A dropped collection as it was before; `left` are foreign files in its folder, which stay."""

    collection: CollectionRecord
    left: tuple[str, ...] = ()
