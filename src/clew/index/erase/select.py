"""The first step of an erasure: which documents and messages it removes, and what they hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clew.core.filter import Filter
from clew.core.fingerprint import (
    Fingerprints,
    fingerprint_terms,
    fingerprint_texts,
    fingerprint_vectors,
    merge_fingerprints,
)
from clew.core.protocols import Store
from clew.core.stored import StoredDocument
from clew.core.thread import get_message_text, is_thread
from clew.core.types import Document
from clew.index.read.sections import get_source_uri


@dataclass(frozen=True, slots=True)
class Selection:
    """The ids of documents that are erased whole, and of single messages by the threads they are in."""

    documents: tuple[str, ...] = ()
    messages: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.documents or self.messages)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What a selection holds: ids, counts, and the fingerprints of its texts, vectors and terms."""

    documents: tuple[str, ...]
    messages: tuple[str, ...]
    uris: tuple[str, ...]  # of documents that are not threads; of a section, that of its source
    chunks: int
    vectors: int
    postings: int
    summaries: int
    fingerprints: Fingerprints


def select_author(store: Store, author: str) -> Selection:
    """The messages of an author in all threads, and the documents that name the author in their meta."""
    documents: list[str] = []
    messages: dict[str, frozenset[str]] = {}
    for record in list(store.documents()):
        document = store.document(record.id)
        if author in _flatten_texts(record.meta.get("author")) and not is_thread(document):
            documents.append(record.id)
            continue
        ids = frozenset(section.id for section in document.sections if section.author == author and section.id)
        if ids and len(ids) == len(document.sections):
            documents.append(record.id)
        elif ids:
            messages[record.id] = ids
    return Selection(tuple(documents), messages)


def select_channel(store: Store, channel: str) -> Selection:
    """The threads of a channel, and the documents that name it in their meta."""
    named = store.documents(Filter(channels=frozenset({channel})))
    # The very name: a filter also takes `#ops` for `ops`, and an erasure cannot be undone.
    return Selection(tuple(each.id for each in named if channel in _flatten_texts(each.meta.get("channel"))))


def list_authors(store: Store) -> set[str]:
    """Everybody who wrote a message or is named as the author of a document."""
    names: set[str] = set()
    for record in list(store.documents()):
        names.update(_flatten_texts(record.meta.get("author")))
        names.update(section.author for section in store.document(record.id).sections)
    return names - {""}


def tally_selection(store: Store, selection: Selection, *, author: str, channel: str, key: int) -> Tally:
    """What a selection holds. An author or a channel that is erased is itself a text that must not remain."""
    parts: list[Fingerprints] = [fingerprint_texts([author, channel], key)]
    documents: list[str] = []
    messages: list[str] = []
    uris: list[str] = []
    chunks = vectors = postings = summaries = 0
    for stored in store.stored_documents([*selection.documents, *selection.messages]):
        document = stored.document
        ids = selection.messages.get(document.id)
        erased = [
            terms
            for chunk, terms in zip(stored.chunks, stored.terms, strict=True)
            if ids is None or chunk.meta.get("message") in ids
        ]
        if ids is None:
            documents.append(document.id)
            messages += [section.id for section in document.sections] if is_thread(document) else []
            uris += [] if is_thread(document) else [get_source_uri(document)]
            texts = _list_document_texts(stored)
        else:
            messages += [section.id for section in document.sections if section.id in ids]
            texts = _list_message_texts(document, ids)
        chunks += len(erased)
        vectors += len(erased) + (stored.summary_vector is not None)
        postings += sum(len(terms.hashes) for terms in erased)
        summaries += bool(document.summary)
        parts.append(fingerprint_texts(texts, key))
        parts.append(_fingerprint_numbers(stored, key))
    return Tally(
        tuple(documents),
        tuple(messages),
        tuple(dict.fromkeys(filter(None, uris))),
        chunks,
        vectors,
        postings,
        summaries,
        merge_fingerprints(parts, key),
    )


def _fingerprint_numbers(stored: StoredDocument, key: int) -> Fingerprints:
    """The fingerprints of the vectors and terms of a document; those that remain are taken out later."""
    hashes = np.concatenate([np.empty(0, np.int64), *(terms.hashes for terms in stored.terms)])
    windows = [fingerprint_vectors(stored.vectors, key)]
    if stored.summary_vector is not None:
        windows.append(fingerprint_vectors(stored.summary_vector[None], key))
    return Fingerprints(key, vectors=np.unique(np.concatenate(windows)), terms=fingerprint_terms(hashes, key))


def _list_document_texts(stored: StoredDocument) -> Iterator[str]:
    """Every text of a document: its own, its record, and what was written about its chunks.

    Not its summary: sentences taken from the text are found as such, and the words of a model are not the author's.
    """
    document = stored.document
    yield from (document.id, document.text, document.title, document.uri)
    yield from _flatten_texts(document.meta)
    for section in document.sections:
        yield from (section.id, section.author, section.label)
    for chunk in stored.chunks:
        yield chunk.context


def _list_message_texts(document: Document, ids: frozenset[str]) -> Iterator[str]:
    """The texts of some messages; the summary of their thread may be made of the sentences of others."""
    for section in document.sections:
        if section.id in ids:
            yield section.id
            yield get_message_text(document, section)


def _flatten_texts(value: Any) -> list[str]:
    """All texts in a value of meta; numbers are too short to be told apart."""
    if isinstance(value, Mapping):
        return [text for member in value.values() for text in _flatten_texts(member)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in _flatten_texts(member)]
    return [value] if isinstance(value, str) else []
