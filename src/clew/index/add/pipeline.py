"""The second half of the write path: store prepared documents in batches, each document whole or not at all.

Preparing runs ahead in a thread. One transaction stores the pages of a batch; then they are reported as added. Known
vectors are reused. A few missing ones are made first and stored with their text; many are made after all documents are
stored, and until then lexical search finds the chunks. After an interruption stored documents stay, and the next run
continues.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Protocol

import numpy as np

from clew.core.errors import ClewError, ConcurrentChange, CostLimit, DriverFailed, SourceError
from clew.core.metered import MeteredEmbedder, MeteredLLM
from clew.core.parallel import prefetch
from clew.core.protocols import WritableStore
from clew.core.report import OnProgress, OnWarning, Report, SourceFailure, measure_progress
from clew.core.stored import NewDocument
from clew.core.thread import ThreadEdit, is_thread
from clew.core.types import Chunk, Matrix, Vector
from clew.core.usage import CostBudget
from clew.index.add.context import IngestContext
from clew.index.add.embed import embed_few, embed_pending, find_known_vectors
from clew.index.add.prepare import (
    Given,
    Prepared,
    PrepareResult,
    Recipe,
    Unchanged,
    prepare_source_again,
    prepare_sources,
)
from clew.index.chunk.build import count_document_terms
from clew.index.thread.threads import explain_id_clash, find_deleted_messages, remove_messages_from_thread
from clew.index.walk.sources import Source
from clew.index.walk.sync import MovedFiles

MAX_PREFETCH = 8  # documents prepared ahead: few, since one may be large
BATCH_CHUNKS = 64  # chunks stored together: enough for a transaction, few enough to show progress
MAX_ATTEMPTS = 20  # to write a thread that others write to at the same time
MAX_CONSECUTIVE_FAILURES = 3  # consecutive documents that the store may refuse before the run fails


@dataclass(slots=True)
class Run:
    """The counts of a run, and the documents waiting for the next batch."""

    total: int | None
    on_progress: OnProgress | None
    total_bytes: int = 0
    stored: set[str] = field(default_factory=set)  # the ids of documents
    started: float = field(default_factory=monotonic)
    done_bytes: int = 0
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: list[SourceFailure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    made: Mapping[str, Vector] = field(default_factory=dict)  # vectors of the last batch, by text
    consecutive_failures: int = 0
    incomplete: list[str] = field(default_factory=list)
    waiting: deque[Prepared] = field(default_factory=deque)
    waiting_chunks: int = 0
    is_storing: bool = False  # if True, an error comes from the models or the store, not from a source

    def wait_for_batch(self, prepared: Prepared) -> None:
        """Add a document to the waiting ones."""
        self.waiting.append(prepared)
        self.waiting_chunks += len(prepared.chunks)

    def take_result(self, result: PrepareResult, store: WritableStore) -> None:
        """Add a prepared document to the waiting ones, and count any other result."""
        if isinstance(result, Prepared):
            self.wait_for_batch(result)
        elif isinstance(result, Unchanged):
            self.skipped += 1
            self.done_bytes += result.size
            if result.stamp:
                store.set_stamp(result.id, result.stamp)
        else:
            self.failed.append(result)

    def take_first(self) -> None:
        """Remove the first waiting document."""
        self.waiting_chunks -= len(self.waiting.popleft().chunks)

    def report_progress(self) -> None:
        """Call `on_progress` with the counts so far."""
        if self.on_progress is None:
            return
        done = len(self.added) + len(self.changed) + self.skipped + len(self.failed)
        share = min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else None  # files differ in length
        spent, counts = monotonic() - self.started, {"failed": len(self.failed), "chunks": self.chunks}
        self.on_progress(measure_progress("adding", done, self.total, "documents", spent, share=share, **counts))

    def count_stored(self, put: Prepared, known: Mapping[str, Vector]) -> None:
        """Count and report the first waiting document, which was stored as `put`."""
        self.take_first()
        self.consecutive_failures = 0
        self.stored.add(put.document.id)
        (self.changed if put.record else self.added).append(put.uri_or_id)
        self.incomplete += [put.uri_or_id] if put.incomplete else []
        self.chunks += len(put.chunks)
        texts = [chunk.embed_text for chunk in put.chunks] if known else []
        made = sum(map(self.made.__contains__, texts))
        self.embedded, self.reused = self.embedded + made, self.reused + sum(map(known.__contains__, texts)) - made
        self.done_bytes += put.source.size if put.source else 0
        self.report_progress()

    def make_report(self, stopped: str) -> Report:
        """Make the report: added, changed, skipped and failed documents, and why the run stopped early."""
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
    sources: Iterable[Given],
    *,
    store: WritableStore,
    recipe: Recipe,
    total: int | None = None,
    total_bytes: int = 0,
    on_progress: OnProgress | None = None,
    stored: set[str] | None = None,
) -> Report:
    """Prepare and store the sources in batches; report a failed source and add the rest.

    If the cost limit stops the run, stored documents stay and the report says so. Documents already read are stored
    while a later source takes long, and before an interrupt or a later error is raised. Progress is reported every
    second. The ids of changed documents are added to `stored`.
    """
    run, stopped = Run(total, on_progress, total_bytes, set() if stored is None else stored), ""
    store_waiting = partial(_store_batch, store, recipe, run)
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
            if run.waiting_chunks >= BATCH_CHUNKS:
                store_waiting()
            run.take_result(result, store)
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
        store_waiting(is_all=not run.stored)
    except CostLimit as limit:
        stopped = str(limit)
    run.report_progress()
    return run.make_report(stopped)


def _store_batch(store: WritableStore, recipe: Recipe, run: Run, *, is_all: bool = False) -> None:
    """Store the waiting documents with known vectors; if that `is_all`, make the missing ones first if they are few.

    An error of the model is raised after the documents are stored.
    """
    batch = list(run.waiting)
    run.is_storing = True
    message_chunks = [chunk.id for prepared in batch if is_thread(prepared.document) for chunk in prepared.chunks]
    stored = dict(store.chunks_by_id(message_chunks)) if message_chunks else {}
    known = find_known_vectors(batch, stored, store)
    try:
        run.made = embed_few(batch, known, recipe.embedder, run.on_progress) if is_all else {}
    finally:
        known |= run.made
        for is_page, group in groupby(batch, lambda each: not is_thread(each.document)):
            members = list(group)
            is_stored = is_page and _store_pages(members, known, store, recipe)
            for prepared in members:
                if is_stored:
                    run.count_stored(prepared, known)
                else:
                    _store_one(prepared, stored, known, store, recipe, run)
    run.is_storing = False


def _store_pages(
    pages: Sequence[Prepared], vectors: Mapping[str, Vector], store: WritableStore, recipe: Recipe
) -> bool:
    """Store pages in one transaction; return False if it failed and they must be stored one by one."""
    try:
        store.put_many([make_new_document(each, vectors, recipe) for each in pages])
    except DriverFailed:
        return False
    return True


def _store_one(
    prepared: Prepared,
    stored: dict[str, Chunk],
    known: Mapping[str, Vector],
    store: WritableStore,
    recipe: Recipe,
    run: Run,
) -> None:
    """Store the first waiting document, or count its failure; `stored` are the stored chunks of messages by id."""
    if clashes := _find_id_clashes(prepared, stored):
        run.failed += [SourceFailure(prepared.uri_or_id, reason) for reason in clashes.values()]
        rest = remove_messages_from_thread(prepared.document, clashes.keys())
        if rest is None:
            run.take_first()
            return
        prepared = replace(prepared, document=rest, chunks=recipe.chunker(rest))
        known = {**known, **find_known_vectors([prepared], stored, store)}  # the contexts of other messages changed
    try:
        for doc_id, ids in _find_moved_messages(prepared, stored).items():
            deleted = _find_messages_deleted_from(doc_id, prepared.source, store)
            remove_thread_messages(doc_id, ids | deleted, store=store, recipe=recipe)
            run.stored.add(doc_id)
        put = _store_document_with_retry(prepared, known, store, recipe)
    except DriverFailed as error:
        run.take_first()
        run.failed.append(SourceFailure(prepared.uri_or_id, error.message))
        run.consecutive_failures += 1
        if run.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            raise
        return
    stored |= {chunk.id: chunk for chunk in put.chunks} if is_thread(put.document) else {}
    run.count_stored(put, known)


def _store_document_with_retry(
    prepared: Prepared, vectors: Mapping[str, Vector], store: WritableStore, recipe: Recipe
) -> Prepared:
    """Store and return a document; if another process changed the thread meanwhile, prepare it again and retry."""
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
            vectors = {**vectors, **look_up_vectors(prepared, store)}
    raise conflict


def look_up_vectors(prepared: Prepared, store: WritableStore) -> dict[str, Vector]:
    """Look up the known vectors of a document."""
    return find_known_vectors([prepared], store.chunks_by_id([chunk.id for chunk in prepared.chunks]), store)


def remove_thread_messages(doc_id: str, messages: Set[str], *, store: WritableStore, recipe: Recipe) -> int:
    """Remove messages from a thread; return how many. Messages embedded together with them are embedded again."""
    for _ in range(MAX_ATTEMPTS):
        document = store.document(doc_id)
        if messages.isdisjoint(section.id for section in document.sections):  # removed by another process
            return 0
        remaining = remove_messages_from_thread(document, messages)
        if remaining is None:
            part = store.thread_part(doc_id, sorted(messages), reach=0)
            empty = replace(part.document, text="", sections=())
            if len(part.numbers) > len(document.sections):  # another process has added messages
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
        try:
            store_document(prepared, look_up_vectors(prepared, store), store, recipe, instead_of=document.text)
        except ConcurrentChange as error:
            conflict = error
            continue
        return len(document.sections) - len(remaining.sections)
    raise conflict


def store_document(
    prepared: Prepared, vectors: Mapping[str, Vector], store: WritableStore, recipe: Recipe, *, instead_of: str | None
) -> None:
    """Store a document with its chunks and its summary in one transaction."""
    new = make_new_document(prepared, vectors, recipe)
    store.put(
        new.document, new.chunks, new.vectors, new.terms, expected_text=instead_of, summary_vector=new.summary_vector
    )


def make_new_document(prepared: Prepared, vectors: Mapping[str, Vector], recipe: Recipe) -> NewDocument:
    """Make the NewDocument of a prepared document, with its terms and known vectors."""
    chunks, summary = prepared.chunks, prepared.summary
    rows: Matrix = np.full((len(chunks), recipe.embedder.dim), np.nan, np.float32)
    for at, chunk in enumerate(chunks if vectors else ()):
        if (known := vectors.get(chunk.embed_text)) is not None:
            rows[at] = known
    return NewDocument(
        replace(prepared.document, summary=summary.text, summary_by=summary.by),
        chunks,
        rows,
        count_document_terms(prepared.document, chunks, language=recipe.language),
        vectors.get(summary.text) if chunks else None,
    )


def _find_moved_messages(prepared: Prepared, stored: Mapping[str, Chunk]) -> dict[str, set[str]]:
    """Find the messages of a thread that are stored in other threads of its channel, by thread."""
    moved: dict[str, set[str]] = {}
    for chunk in prepared.chunks if is_thread(prepared.document) else ():
        old = stored.get(chunk.id)
        if old and old.doc_id != chunk.doc_id and old.meta.get("channel") == chunk.meta.get("channel"):
            moved.setdefault(old.doc_id, set()).add(str(chunk.meta["message"]))
    return moved


def _find_messages_deleted_from(doc_id: str, source: Source | None, store: WritableStore) -> set[str]:
    """Find the messages of a stored thread that were deleted before the export."""
    if source is None or source.exported_until is None:
        return set()
    return find_deleted_messages(store.document(doc_id), exported_ids=source.exported_ids, until=source.exported_until)


def _find_id_clashes(prepared: Prepared, stored: Mapping[str, Chunk]) -> dict[str, str]:
    """Find the messages of a thread with the id of a message of another channel, and the reason for refusing each."""
    clashes: dict[str, str] = {}
    for chunk in prepared.chunks if is_thread(prepared.document) else ():
        old = stored.get(chunk.id)
        home, channel = old and old.meta.get("channel"), chunk.meta.get("channel")
        if home is not None and home != channel:
            message = str(chunk.meta["message"])
            clashes[message] = explain_id_clash(message, home=str(home), channel=str(channel))
    return clashes


class RunPipeline(Protocol):
    """A pipeline that reads, stores and embeds sources on a budget; the report includes failures of models."""

    def __call__(
        self,
        context: IngestContext,
        sources: Iterable[Source | SourceError],
        *,
        budget: CostBudget,
        total: int | None = None,
        total_bytes: int = 0,
        on_progress: OnProgress | None = None,
        moved: MovedFiles | None = None,
    ) -> Report:
        """Run the pipeline, charging its cost to the budget, and return the report."""


def make_metered_recipe(
    context: IngestContext, budget: CostBudget, *, on_warning: OnWarning, moved: MovedFiles | None = None
) -> Recipe:
    """Make the recipe with models that charge every call to the budget."""
    return context.make_recipe(
        embedder=MeteredEmbedder(context.embedder, budget),
        llm=MeteredLLM(context.llm, budget) if context.llm else None,
        on_warning=on_warning,
        moved=moved,
    )


def run_pipeline_on_budget(
    context: IngestContext,
    sources: Iterable[Given],
    *,
    budget: CostBudget,
    total: int | None = None,
    total_bytes: int = 0,
    on_progress: OnProgress | None = None,
    moved: MovedFiles | None = None,
    documents: Collection[str] | None = None,
) -> Report:
    """Run the pipeline in this process, then make the pending vectors of all documents, or of `documents`.

    While other runs are active, it makes the vectors of its own documents; the last run makes the rest. Sources that
    are already prepared are only stored and embedded.
    """
    notes: list[SourceFailure] = []
    own: set[str] = set()
    recipe = make_metered_recipe(context, budget, on_warning=notes.append, moved=moved)
    embed = partial(embed_pending, context.store, recipe.embedder, on_progress)
    with context.store.at_work() as work:
        report = run_pipeline(
            sources,
            store=context.store,
            recipe=recipe,
            total=total,
            total_bytes=total_bytes,
            on_progress=on_progress,
            stored=own,
        )
        if documents is not None:
            parts = [embed(documents)]
        elif work.has_others():
            parts = [embed(own)]
            parts += [] if work.leave() else [embed()]
        else:
            parts = [embed()]
    return replace(
        report,
        noted=tuple(notes),
        embedded=report.embedded + sum(part.embedded for part in parts),
        failed=(*report.failed, *(failure for part in parts for failure in part.failed)),
        stopped=report.stopped or parts[-1].stopped,
    )
