"""The second half of the write path: prepared documents are embedded in batches and stored, each in one transaction.

Preparing runs ahead of the embedder in a thread, and chunks of several documents are embedded together, so that the
model never waits and memory does not grow with the corpus. Whatever ends the work, what was stored stays, and the next
run continues from there.
"""

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

import numpy as np

from clew.core.errors import ClewError, ConcurrentChange, CostLimit, CountMismatch, DriverFailed, SourceError
from clew.core.parallel import prefetch
from clew.core.protocols import Store
from clew.core.report import OnProgress, Progress, Report, SourceFailure
from clew.core.thread import is_thread
from clew.core.thread_edit import ThreadEdit
from clew.core.types import Matrix, Vector
from clew.index.add.embed import (
    embed_changed_chunks,
    embed_chunks_and_summaries,
    find_moved_vectors,
    find_unchanged_chunks,
)
from clew.index.add.moves import find_id_clashes, find_messages_deleted_from, find_moved_messages
from clew.index.add.prepare import (
    Prepared,
    PrepareResult,
    Recipe,
    Source,
    Unchanged,
    prepare_source_again,
    prepare_sources,
)
from clew.index.chunk.terms import count_chunk_terms
from clew.index.thread.threads import remove_messages_from_thread

MAX_PREFETCH = 8  # documents prepared ahead of the embedder: few, since one may be large
BATCH_CHUNKS = 64  # chunks embedded together: enough to sort by length, few enough to show progress
MAX_ATTEMPTS = 20  # to write a thread that others write to at the same time
MAX_CONSECUTIVE_FAILURES = 3  # documents in a row that may fail in a driver before the work is given up


@dataclass(slots=True)
class _Run:
    """The counts of one run, and the documents that wait for the next batch."""

    total: int | None
    on_progress: OnProgress | None
    total_bytes: int = 0
    started: float = field(default_factory=monotonic)
    done_bytes: int = 0
    embedding: int = 0  # chunks of the waiting documents that are embedded
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: list[SourceFailure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    consecutive_failures: int = 0
    incomplete: list[str] = field(default_factory=list)
    waiting: list[Prepared] = field(default_factory=list)
    is_storing: bool = False  # whether an error comes from the models or the store, not from a source

    def report_progress(self) -> None:
        """Calls `on_progress` with the counts so far."""
        if self.on_progress is None:
            return
        done = len(self.added) + len(self.changed) + self.skipped + len(self.failed)
        spent = monotonic() - self.started
        chunks = self.embedded + self.embedding
        self.on_progress(
            Progress(
                "adding",
                done,
                self.total,
                "documents",
                rate=done / spent if spent else 0.0,
                seconds_left=self._estimate_seconds_left(done, spent),
                failed=len(self.failed),
                chunks=chunks,
                chunk_rate=chunks / spent if spent else 0.0,
            )
        )

    def _estimate_seconds_left(self, done: int, spent: float) -> float | None:
        """By the bytes of the files, since their lengths differ; by documents where there are other sources too."""
        if self.total is None:
            return None
        if done >= self.total:
            return 0.0
        if self.total_bytes:
            share = min(1.0, self.done_bytes / self.total_bytes)
            return spent / share * (1 - share) if share else None
        return spent / done * (self.total - done) if done else None

    def count_embedded(self, chunks: int) -> None:
        """Counts chunks of the current batch, and reports them."""
        self.embedding += chunks
        self.report_progress()

    def make_report(self, stopped: str) -> Report:
        """The report of what was added, changed, skipped and failed, and why the run stopped early."""
        return Report(
            added=tuple(self.added),
            changed=tuple(self.changed),
            skipped=self.skipped,
            failed=tuple(self.failed),
            chunks=self.chunks,
            embedded=self.embedded,
            reused=self.reused,
            seconds=monotonic() - self.started,
            stopped=stopped,
            incomplete=tuple(self.incomplete),
        )


def run_pipeline(
    sources: Iterable[Source | SourceError],
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
    run, stopped = _Run(total, on_progress, total_bytes), ""
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
                run.waiting.append(result)
            elif isinstance(result, Unchanged):
                run.skipped += 1
                run.done_bytes += result.size
                if result.stamp:
                    store.set_stamp(result.id, result.stamp)
            else:
                run.failed.append(result)
            if sum(len(prepared.chunks) for prepared in run.waiting) >= BATCH_CHUNKS:
                store_waiting()
            run.report_progress()
    except CostLimit as limit:
        stopped = str(limit)
    except BaseException as error:
        if not (run.is_storing and isinstance(error, ClewError)):
            results.close()
            run.waiting += [each for each in prepared_ahead if isinstance(each, Prepared)]
            with suppress(ClewError):
                store_waiting()
        raise
    try:
        store_waiting()
    except CostLimit as limit:
        stopped = str(limit)
    run.report_progress()
    return run.make_report(stopped)


def _embed_and_store_batch(store: Store, recipe: Recipe, run: _Run) -> None:
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
    reduced: set[str] = set()  # threads without some of their messages: others are embedded with what is left
    for prepared in batch:
        if clashes := find_id_clashes(prepared, stored):
            run.failed += [SourceFailure(prepared.uri_or_id, reason) for reason in clashes.values()]
            rest = remove_messages_from_thread(prepared.document, clashes.keys())
            if rest is None:
                run.waiting.pop(0)
                continue
            prepared = replace(prepared, document=rest, chunks=recipe.chunker(rest))
            reduced.add(rest.id)
        try:
            for doc_id, ids in find_moved_messages(prepared, stored).items():
                deleted = find_messages_deleted_from(doc_id, prepared.source, store)
                remove_thread_messages(doc_id, ids | deleted, store=store, recipe=recipe)
            vectors = (
                embed_changed_chunks(prepared, store, recipe.embedder)
                if batch_vectors is None or prepared.document.id in reduced
                else batch_vectors
            )
            put = _store_document_with_retry(prepared, vectors, store, recipe)
        except DriverFailed as error:
            run.waiting.pop(0)
            run.failed.append(SourceFailure(prepared.uri_or_id, str(error)))
            run.consecutive_failures += 1
            if run.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                raise
            continue
        run.waiting.pop(0)
        run.consecutive_failures = 0
        stored |= {chunk.id: chunk for chunk in put.chunks} if is_thread(put.document) else {}
        (run.changed if put.record else run.added).append(put.uri_or_id)
        run.incomplete += [put.uri_or_id] if put.incomplete else []
        reused = sum(chunk.id in known for chunk in put.chunks)
        run.chunks += len(put.chunks)
        run.reused += reused
        run.embedded += len(put.chunks) - reused
        run.embedding = max(0, run.embedding - len(put.chunks) + reused)
        run.done_bytes += put.source.size if put.source else 0
        run.report_progress()
    run.is_storing = False


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
    chunks, summary = prepared.chunks, prepared.summary
    empty: Matrix = np.empty((0, recipe.embedder.dim), np.float32)
    terms = [count_chunk_terms(chunk, language=recipe.language) for chunk in chunks]
    matrix = np.stack([vectors[chunk.id] for chunk in chunks]) if chunks else empty
    document = replace(prepared.document, summary=summary.text, summary_by=summary.by)
    of_summary = vectors[summary.text] if summary.text and chunks else None
    store.put(document, chunks, matrix, terms, expected_text=instead_of, summary_vector=of_summary)
