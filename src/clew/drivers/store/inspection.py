"""Checks of documents as they are stored, the same for every store: spans, counts, vectors and terms of each."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from clew.core.doctor import Defect, Remedy
from clew.core.errors import CollectionDamaged, NotFound
from clew.core.jobs import JOB_STATES
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.thread import is_thread
from clew.core.types import Document
from clew.drivers.store.checks import UNIT_TOLERANCE, are_terms_sorted
from clew.drivers.store.checksums import ADVICE
from clew.drivers.store.mend import Mending
from clew.drivers.store.term_ids import MAX_COUNT

BATCH = 32  # documents that are read at once; one by one where one of them is damaged
ATTEMPTS = 10  # to look at what others change meanwhile
UNREADABLE = (CollectionDamaged, ValueError, TypeError, KeyError)  # by damage; any other error says nothing of the rows


class DocumentReader(Protocol):
    """The reads of a store that a check of its documents needs."""

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Those documents with everything stored of them."""

    def document(self, doc_id: str) -> Document:
        """The document with its text."""

    def change_number(self) -> int:
        """The number of the last change."""

    def plan_mending(self, doc_id: str) -> Mending:
        """What mends a document whose record or text is damaged."""

    def find_wrong_filters(self, stored: Sequence[StoredDocument]) -> set[str]:
        """The ids of those documents that filters see otherwise than they are: by labels, authors, times, meta."""


def sample_documents(sizes: Sequence[tuple[str, int]], max_chunks: int | None) -> list[str]:
    """The ids of documents, given with their chunks: all, or random ones that have about so many chunks together."""
    if max_chunks is None or sum(chunks for _, chunks in sizes) <= max_chunks:
        return [doc_id for doc_id, _ in sizes]
    ids: list[str] = []
    total = 0
    for doc_id, chunks in random.sample(sizes, len(sizes)):  # another one every day
        if ids and total + chunks > max_chunks:
            continue
        ids.append(doc_id)
        total += chunks
        if total >= max_chunks or len(ids) >= max_chunks:
            break
    return ids


def find_bad_jobs(rows: Iterable[Sequence[Any]]) -> list[str]:
    """The ids of jobs that cannot be read, of rows of id, state, request and result."""
    return [
        job_id
        for job_id, state, request, result in rows
        if state not in JOB_STATES or not all(map(_is_json_object, (request, result or "{}")))
    ]


def find_bad_sessions(rows: Iterable[Sequence[Any]]) -> list[str]:
    """The names of sessions that cannot be read, of rows of name, documents and messages."""
    return [name for name, *texts in rows if not all(isinstance(_parse_json(text), list) for text in texts)]


def _is_json_object(text: str) -> bool:
    return isinstance(_parse_json(text), dict)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return None


def inspect_documents(store: DocumentReader, ids: Sequence[str]) -> Iterator[Defect]:
    """What is wrong with each of these documents."""
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        try:
            found = list(_inspect_found(store, list(store.stored_documents(batch))))
        except UNREADABLE:
            wrong = batch
        else:
            wrong = list(dict.fromkeys(each.document for each in found))
        for doc_id in wrong:
            yield from inspect_while_unchanged(store.change_number, partial(_inspect_alone, store, doc_id))


def inspect_while_unchanged(get_change: Callable[[], int], inspect: Callable[[], Iterable[Defect]]) -> list[Defect]:
    """What an inspection finds: what is being changed meanwhile may look wrong, so it is looked at again."""
    for _ in range(ATTEMPTS):
        before = get_change()
        found = list(inspect())
        if not found or get_change() == before:
            break
    return found


def _inspect_found(store: DocumentReader, found: Sequence[StoredDocument]) -> Iterator[Defect]:
    for stored in found:
        yield from inspect_stored(stored)
    for doc_id in sorted(store.find_wrong_filters(found)):
        problem = f"filters see the document {doc_id!r} otherwise than it is (labels, author, time or meta)"
        yield Defect("filters", problem, doc_id, "rechunk")


def _inspect_alone(store: DocumentReader, doc_id: str) -> Iterator[Defect]:
    """What is wrong with one document, which may not be readable."""
    try:
        found = list(store.stored_documents([doc_id]))
    except UNREADABLE as error:
        problem = str(error).removesuffix(f"; {ADVICE}")
        if not isinstance(error, CollectionDamaged):
            problem = f"the document {doc_id!r} cannot be read ({error})"
        yield Defect("truth", problem, doc_id, _choose_remedy(store, doc_id))
        return
    yield from _inspect_found(store, found)


def _choose_remedy(store: DocumentReader, doc_id: str) -> Remedy:
    """What repairs a document that cannot be read with its chunks: new chunks if they are what is damaged."""
    try:
        if _are_sections_in_order(store.document(doc_id)):
            return "rechunk"
    except NotFound:
        return "rechunk"
    except UNREADABLE:
        pass
    return store.plan_mending(doc_id).remedy


def _are_sections_in_order(document: Document) -> bool:
    at = 0
    for section in document.sections:
        if not at <= section.start <= section.end <= len(document.text):
            return False
        at = section.start
    return True


def inspect_stored(stored: StoredDocument) -> Iterator[Defect]:
    """What is wrong with a document whose rows are as they were written."""
    document = stored.document
    name = f"the document {document.id!r}"
    if wrong := _count_wrong_spans(stored):
        yield Defect("spans", f"{wrong} chunks of {name} are not where they say in its text", document.id, "rechunk")
    if not _are_sections_in_order(document):
        remedy: Remedy = "trim" if is_thread(document) else "keep"
        yield Defect("spans", f"the sections of {name} do not lie in its text in order", document.id, remedy)
    if any(
        _is_wrong_parent(section.parent, place, len(document.sections))
        for place, section in enumerate(document.sections)
    ):
        yield Defect(
            "threads" if is_thread(document) else "spans",
            f"a section of {name} stands below one that is not there",
            document.id,
            next_step="add its source again; a thread that was added message by message can be read, but not followed",
        )
    if any(chunk.index != number or chunk.total != len(stored.chunks) for number, chunk in enumerate(stored.chunks)):
        yield Defect("counts", f"the chunks of {name} are not numbered from 0 to the last", document.id, "rechunk")
    if wrong := _count_wrong_lengths(stored.vectors):
        yield Defect("vectors", f"{wrong} vectors of {name} are not of unit length", document.id, "rechunk")
    if not all(map(_are_terms_right, stored.terms)):
        yield Defect("postings", f"the terms of {name} are not sorted, or not counted", document.id, "rechunk")
    if document.summary and stored.summary_vector is None and stored.chunks:
        yield Defect("summaries", f"the summary of {name} has no vector", document.id, "summarise")
    if stored.summary_vector is not None and _count_wrong_lengths(stored.summary_vector[None]):
        yield Defect(
            "summaries", f"the vector of the summary of {name} is not of unit length", document.id, "summarise"
        )


def find_ids(defects: Iterable[Defect], *remedies: Remedy) -> list[str]:
    """The documents that are to be repaired in one of these ways, each once."""
    return list(dict.fromkeys(each.document for each in defects if each.remedy in remedies and each.document))


def _is_wrong_parent(parent: int | None, place: int, total: int) -> bool:
    return parent is not None and not (0 <= parent < total and parent != place)


def _are_terms_right(terms: PackedTerms) -> bool:
    if not are_terms_sorted(terms):
        return False
    total = int(terms.counts.sum())
    return terms.length == total or (terms.length > total and int(terms.counts.max(initial=0)) == MAX_COUNT)


def _count_wrong_spans(stored: StoredDocument) -> int:
    text = stored.document.text
    return sum(chunk.text != text[chunk.start : chunk.end] for chunk in stored.chunks)


def _count_wrong_lengths(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return int((~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)).sum())
