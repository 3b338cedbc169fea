"""The second half of the write path: prepared documents are embedded in batches and stored, each whole or not at all.

Preparing runs ahead of the embedder in a thread, and chunks of several documents are embedded together, so that the
model never waits and memory does not grow with the corpus. The pages of a batch are stored in one transaction, and
reported as added after it. Whatever ends the work, what was stored stays, and the next
run continues from there.
"""

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np

from clew.core.errors import ClewError, ConcurrentChange, CostLimit, CountMismatch, DriverFailed
from clew.core.parallel import prefetch
from clew.core.protocols import Store
from clew.core.report import OnProgress, Report, SourceFailure
from clew.core.stored import NewDocument
from clew.core.thread import is_thread
from clew.core.thread_edit import ThreadEdit
from clew.core.types import Chunk, Matrix, Vector
from clew.index.add.batches import prepare_sources
from clew.index.add.counts import Run
from clew.index.add.embed import (
    embed_changed_chunks,
    embed_chunks_and_summaries,
    find_moved_vectors,
    find_unchanged_chunks,
)
from clew.index.add.moves import find_id_clashes, find_messages_deleted_from, find_moved_messages
from clew.index.add.prepare import (
    Given,
    Prepared,
    PrepareResult,
    Recipe,
    Unchanged,
    prepare_source_again,
)
from clew.index.chunk.terms import count_document_terms
from clew.index.thread.threads import remove_messages_from_thread

MAX_PREFETCH = 8  # documents prepared ahead of the embedder: few, since one may be large
BATCH_CHUNKS = 64  # chunks embedded together: enough to sort by length, few enough to show progress
MAX_ATTEMPTS = 20  # to write a thread that others write to at the same time
MAX_CONSECUTIVE_FAILURES = 3  # documents in a row that may fail in a driver before the work is given up


def run_pipeline(
    sources: Iterable[Given],
    *,
    store: Store,
    recipe: Recipe,
    total: int | None = None,
    total_bytes: int = 0,
    on_progress: OnProgress | None = None,
) -> Report:
    """Prepares, embeds and stores the sources in batches; one that fails is reported and the rest is added.

    Where the cost limit stops it, what was stored so far is kept and the report says so. What was read is stored
    whatever comes after it: while a source takes long, and before an interrupt or an error of a later one is raised.
    Progress is reported in that time too, every second.
    """
    run, stopped = Run(total, on_progress, total_bytes), ""
    store_waiting = partial(_embed_and_store_batch, store, recipe, run)
    prepared_ahead: list[PrepareResult] = []

    def store_and_report() -> None:
        if run.waiting:
            store_waiting()
        run.report_progress()

    results = prefetch(
        prepare_sources(sources, store=store, recipe=recipe),
        max_ahead=MAX_PREFETCH,
        on_idle=store_and_report,
        unused=prepared_ahead,
    )
    try:
        for result in results:
            if isinstance(result, Prepared):
                run.wait_for_batch(result)
            elif isinstance(result, Unchanged):
                run.skipped += 1
                run.done_bytes += result.size
                if result.stamp:
                    store.set_stamp(result.id, result.stamp)
            else:
                run.failed.append(result)
            if run.waiting_chunks >= BATCH_CHUNKS:
                store_waiting()
            run.report_progress()
    except CostLimit as limit:
        stopped = str(limit)
    except BaseException as error:
        if not (run.is_storing and isinstance(error, ClewError)):
            results.close()
            for each in prepared_ahead:
                if isinstance(each, Prepared):
                    run.wait_for_batch(each)
            with suppress(ClewError):
                store_waiting()
        raise
    try:
        store_waiting()
    except CostLimit as limit:
        stopped = str(limit)
    run.report_progress()
    return run.make_report(stopped)


def _embed_and_store_batch(store: Store, recipe: Recipe, run: Run) -> None:
    """Embeds the waiting documents in one call and stores each; if the call fails, each is embedded by itself.

    So too where the cost limit refuses the call: it may be enough for some of them.
    """
    batch = list(run.waiting)
    run.is_storing = True
    message_chunks = [chunk.id for prepared in batch if is_thread(prepared.document) for chunk in prepared.chunks]
    stored = dict(store.chunks_by_id(message_chunks)) if message_chunks else {}
    known = {**store.vectors(find_unchanged_chunks(batch, stored)), **find_moved_vectors(batch)}
    try:
        batch_vectors = embed_chunks_and_summaries(batch, known, recipe.embedder, run.count_embedded)
    except CountMismatch:
        raise
    except (DriverFailed, CostLimit):
        batch_vectors = None
    for is_page, group in groupby(batch, lambda each: batch_vectors is not None and not is_thread(each.document)):
        members = list(group)
        if is_page and batch_vectors is not None and _store_pages(members, batch_vectors, store, recipe):
            for prepared in members:
                run.count_stored(prepared, known)
            continue
        for prepared in members:
            _store_one(prepared, batch_vectors, stored, known, store, recipe, run)
    run.is_storing = False


def _store_pages(pages: Sequence[Prepared], vectors: Mapping[str, Vector], store: Store, recipe: Recipe) -> bool:
    """Stores pages in one transaction; False if it failed: one by one, all but those that cannot be stored are."""
    try:
        store.put_many([make_new_document(each, vectors, recipe) for each in pages])
    except DriverFailed:
        return False
    return True


def _store_one(
    prepared: Prepared,
    batch_vectors: Mapping[str, Vector] | None,
    stored: dict[str, Chunk],
    known: Container[str],
    store: Store,
    recipe: Recipe,
    run: Run,
) -> None:
    """Stores the first of the waiting documents, or counts its failure; `stored` are chunks of messages, by id.

    Without the vectors of its batch, and where a thread is stored without some of its messages, it is embedded here.
    """
    if clashes := find_id_clashes(prepared, stored):
        run.failed += [SourceFailure(prepared.uri_or_id, reason) for reason in clashes.values()]
        rest = remove_messages_from_thread(prepared.document, clashes.keys())
        if rest is None:
            run.take_first()
            return
        prepared = replace(prepared, document=rest, chunks=recipe.chunker(rest))
        batch_vectors = None  # others are embedded with what is left
    try:
        for doc_id, ids in find_moved_messages(prepared, stored).items():
            deleted = find_messages_deleted_from(doc_id, prepared.source, store)
            remove_thread_messages(doc_id, ids | deleted, store=store, recipe=recipe)
        vectors = embed_changed_chunks(prepared, store, recipe.embedder) if batch_vectors is None else batch_vectors
        put = _store_document_with_retry(prepared, vectors, store, recipe)
    except DriverFailed as error:
        run.take_first()
        run.failed.append(SourceFailure(prepared.uri_or_id, str(error)))
        run.consecutive_failures += 1
        if run.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            raise
        return
    stored |= {chunk.id: chunk for chunk in put.chunks} if is_thread(put.document) else {}
    run.count_stored(put, known)


def _store_document_with_retry(
    prepared: Prepared, vectors: Mapping[str, Vector], store: Store, recipe: Recipe
) -> Prepared:
    """Stores a document and returns it; a thread that others changed meanwhile is prepared again with their changes."""
    for _ in range(MAX_ATTEMPTS):
        try:
            store_document(prepared, vectors, store, recipe, instead_of=prepared.replaced_text)
            return prepared
        except ConcurrentChange as error:
            again = prepare_source_again(prepared.source, store=store, recipe=recipe) if prepared.source else prepared
            if isinstance(again, Unchanged):  # another process has stored the same
                return prepared
            if not isinstance(again, Prepared):
                raise
            prepared, conflict = again, error
            vectors = embed_changed_chunks(prepared, store, recipe.embedder)
    raise conflict


def remove_thread_messages(doc_id: str, messages: Set[str], *, store: Store, recipe: Recipe) -> int:
    """Removes messages from a thread and returns how many; those that were embedded with them are embedded again."""
    for _ in range(MAX_ATTEMPTS):
        document = store.document(doc_id)
        if messages.isdisjoint(section.id for section in document.sections):  # another process has removed them
            return 0
        remaining = remove_messages_from_thread(document, messages)
        if remaining is None:
            part = store.thread_part(doc_id, sorted(messages), reach=0)
            empty = replace(part.document, text="", sections=())
            if len(part.numbers) > len(document.sections):  # another process has added to it
                conflict = ConcurrentChange(f"the thread {doc_id!r} changed since it was read; add the export again")
                continue
            none = np.empty((0, recipe.embedder.dim), np.float32)
            try:
                store.edit_threads([ThreadEdit(empty, (), (), (), none, (), part.numbers, part.revision)])
            except ConcurrentChange as error:
                conflict = error
                continue
            return len(document.sections)
        prepared = Prepared(remaining, recipe.chunker(remaining))
        vectors = embed_changed_chunks(prepared, store, recipe.embedder)
        try:
            store_document(prepared, vectors, store, recipe, instead_of=document.text)
        except ConcurrentChange as error:
            conflict = error
            continue
        return len(document.sections) - len(remaining.sections)
    raise conflict


def store_document(
    prepared: Prepared, vectors: Mapping[str, Vector], store: Store, recipe: Recipe, *, instead_of: str | None
) -> None:
    """Stores a document with its chunks and its summary, in one transaction."""
    new = make_new_document(prepared, vectors, recipe)
    store.put(
        new.document, new.chunks, new.vectors, new.terms, expected_text=instead_of, summary_vector=new.summary_vector
    )


def make_new_document(prepared: Prepared, vectors: Mapping[str, Vector], recipe: Recipe) -> NewDocument:
    """A prepared document with its summary, and the vectors and terms of its chunks."""
    chunks, summary = prepared.chunks, prepared.summary
    empty: Matrix = np.empty((0, recipe.embedder.dim), np.float32)
    return NewDocument(
        replace(prepared.document, summary=summary.text, summary_by=summary.by),
        chunks,
        np.array([vectors[chunk.id] for chunk in chunks], np.float32) if chunks else empty,
        count_document_terms(prepared.document, chunks, language=recipe.language),
        vectors[summary.text] if summary.text and chunks else None,
    )
