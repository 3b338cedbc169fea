"""The write path in one function: read → chunk → enrich → embed → put; what has not changed is skipped.

Reading runs ahead of the embedder in a thread, and chunks of several documents are embedded together, so that the
model never waits and memory does not grow with the corpus. Each document is put by itself: whatever ends the work,
what was put stays, and the next run goes on from there.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from clew.core.cost import CostLimit
from clew.core.errors import ConcurrentChange, DriverFailed, SourceError
from clew.core.parallel import prefetch
from clew.core.protocols import Embedder, Store
from clew.core.report import Failure, OnProgress, Progress, Report
from clew.core.text import terms
from clew.core.thread import is_thread
from clew.core.types import Chunk, Matrix, Vector
from clew.index.add.prepare import Recipe, Source, Taken, Unchanged, retaken, taken
from clew.index.thread.threads import deleted, same_id, without

AHEAD = 8  # documents that are read before the embedder asks for them: few, since one may be large
BATCH = 64  # chunks that are embedded together: enough to sort by length, few enough to show progress
TRIES = 20  # how often a thread is read again that others write to at the same time
PATIENCE = 3  # documents in a row that may fail in a driver before the work is given up


class CountMismatch(DriverFailed):
    """An embedder that gave another number of vectors than of texts: which vector is whose cannot be told."""


@dataclass(slots=True)
class _Work:
    """The tally of one `add`, and the documents that wait for their chunks to be embedded."""

    total: int | None
    watch: OnProgress | None
    started: float = field(default_factory=monotonic)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    failures_in_a_row: int = 0
    waiting: list[Taken] = field(default_factory=list)

    def tell(self) -> None:
        """Says how far the work is."""
        if self.watch is None:
            return
        done = len(self.added) + len(self.changed) + self.skipped + len(self.failed)
        spent = monotonic() - self.started
        left = spent / done * (self.total - done) if self.total is not None and done else None
        rate = done / spent if spent else 0.0
        self.watch(Progress("adding", done, self.total, "documents", rate, left, len(self.failed)))

    def report(self, stopped: str) -> Report:
        """What was done."""
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
        )


def add(
    sources: Iterable[Source | SourceError],
    *,
    store: Store,
    recipe: Recipe,
    total: int | None = None,
    watch: OnProgress | None = None,
) -> Report:
    """What was added, changed, skipped and failed. A bad source is reported and the rest is added.

    Where a limit of cost stops it, what was done so far is kept and the report says so.
    """
    work = _Work(total, watch)
    stopped = ""
    try:
        for outcome in prefetch(taken(sources, store=store, recipe=recipe), most=AHEAD):
            if isinstance(outcome, Taken):
                work.waiting.append(outcome)
            elif isinstance(outcome, Unchanged):
                work.skipped += 1
                if outcome.stamp:
                    store.set_stamp(outcome.id, outcome.stamp)
            else:
                work.failed.append(outcome)
            if sum(len(each.chunks) for each in work.waiting) >= BATCH:
                _store_waiting(store, recipe, work)
            work.tell()
    except CostLimit as limit:
        stopped = str(limit)
    try:
        _store_waiting(store, recipe, work)
    except CostLimit as limit:
        stopped = str(limit)
    work.tell()
    return work.report(stopped)


def _store_waiting(store: Store, recipe: Recipe, work: _Work) -> None:
    """Embeds what waits in one call and puts each document; where the call fails, each document tries alone."""
    waiting, work.waiting = work.waiting, []
    talk = [chunk.id for each in waiting if is_thread(each.document) for chunk in each.chunks]
    stored = dict(store.chunks_by_id(talk)) if talk else {}
    known = store.vectors(_unchanged(waiting, stored))
    try:
        made = _embedded(waiting, known, recipe.embedder)
    except CountMismatch:
        raise
    except DriverFailed:
        made = None
    for each in waiting:
        if reason := _clash(each, stored):
            work.failed.append(Failure(each.name, reason))
            continue
        try:
            for doc_id, names in _elsewhere(each, stored).items():
                take_out(doc_id, names | _gone(doc_id, each.source, store), store=store, recipe=recipe)
            vectors = _embedded([each], known, recipe.embedder) if made is None else made
            each = _replaced(each, vectors, store, recipe)
        except DriverFailed as error:
            work.failed.append(Failure(each.name, str(error)))
            work.failures_in_a_row += 1
            if work.failures_in_a_row >= PATIENCE:
                raise
            continue
        work.failures_in_a_row = 0
        stored |= {chunk.id: chunk for chunk in each.chunks if is_thread(each.document)}
        (work.changed if each.record else work.added).append(each.name)
        reused = sum(chunk.id in known for chunk in each.chunks)
        work.chunks += len(each.chunks)
        work.reused += reused
        work.embedded += len(each.chunks) - reused
        work.tell()


def _replaced(each: Taken, vectors: Mapping[str, Vector], store: Store, recipe: Recipe) -> Taken:
    """What was put: the document, or, where others have changed the thread since it was taken, what it is with that."""
    for _ in range(TRIES):
        try:
            _put(each, vectors, store, recipe, instead_of=each.before)
            return each
        except ConcurrentChange as error:
            again = retaken(each.source, store=store, recipe=recipe) if each.source else each
            if isinstance(again, Unchanged):  # another has added the same
                return each
            if not isinstance(again, Taken):
                raise
            each, changed = again, error
            stored = store.chunks_by_id([chunk.id for chunk in each.chunks])
            vectors = _embedded([each], store.vectors(_unchanged([each], stored)), recipe.embedder)
    raise changed


def take_out(doc_id: str, messages: Set[str], *, store: Store, recipe: Recipe) -> int:
    """How many messages were taken out of a thread; what is left of it stays, and is embedded where it said them."""
    for _ in range(TRIES):
        document = store.document(doc_id)
        if messages.isdisjoint(section.id for section in document.sections):  # it was put without them meanwhile
            return 0
        left = without(document, messages)
        if left is None:
            store.drop([doc_id])
            return len(document.sections)
        rest = Taken(left, recipe.chunker(left), left.summary)
        stored = store.chunks_by_id([chunk.id for chunk in rest.chunks])
        made = _embedded([rest], store.vectors(_unchanged([rest], stored)), recipe.embedder)
        try:
            _put(rest, made, store, recipe, instead_of=document.text)
        except ConcurrentChange as error:
            changed = error
            continue
        return len(document.sections) - len(left.sections)
    raise changed


def _elsewhere(each: Taken, stored: Mapping[str, Chunk]) -> dict[str, set[str]]:
    """The messages of a thread that stand in others of its channel, by the others' ids."""
    homes: dict[str, set[str]] = {}
    for chunk in each.chunks if is_thread(each.document) else ():
        old = stored.get(chunk.id)
        if old and old.doc_id != chunk.doc_id and old.meta.get("channel") == chunk.meta.get("channel"):
            homes.setdefault(old.doc_id, set()).add(str(chunk.meta["message"]))
    return homes


def _gone(doc_id: str, source: Source | None, store: Store) -> set[str]:
    """The messages of a thread that an export puts elsewhere, which it does not hold at all."""
    if source is None or source.until is None:
        return set()
    return deleted(store.document(doc_id), held=source.held, until=source.until)


def _clash(each: Taken, stored: Mapping[str, Chunk]) -> str:
    """Why a thread cannot be stored: one of its messages has the id of one of another channel; empty where it can."""
    for chunk in each.chunks if is_thread(each.document) else ():
        home, channel = (one and one.meta.get("channel") for one in (stored.get(chunk.id), chunk))
        if home is not None and home != channel:
            return same_id(str(chunk.meta["message"]), home=str(home), channel=str(channel))
    return ""


def _unchanged(again: Sequence[Taken], stored: Mapping[str, Chunk]) -> list[str]:
    """The chunks that are embedded as they were; a page's chunk is named by what is embedded, a message by itself."""
    talk = [chunk for each in again if is_thread(each.document) for chunk in each.chunks]
    pages = [chunk.id for each in again if each.record and not is_thread(each.document) for chunk in each.chunks]
    return pages + [c.id for c in talk if c.id in stored and stored[c.id].embed_text == c.embed_text]


def _embedded(waiting: Sequence[Taken], known: Mapping[str, Vector], embedder: Embedder) -> Mapping[str, Vector]:
    """The vectors of all chunks by their ids and of all summaries by their texts; the known are not made again."""
    texts = {chunk.id: chunk.embed_text for each in waiting for chunk in each.chunks if chunk.id not in known}
    texts |= {each.summary: each.summary for each in waiting if each.summary and len(each.chunks) > 1}
    if not texts:
        return known
    vectors = embedder.embed(list(texts.values()), role="passage")
    if len(vectors) != len(texts):
        raise CountMismatch(
            f"count mismatch: {embedder.name} gave {len(vectors)} vectors for {len(texts)} texts; none was stored"
        )
    return {**known, **dict(zip(texts, vectors, strict=True))}


def _put(
    each: Taken, vectors: Mapping[str, Vector], store: Store, recipe: Recipe, *, instead_of: str | None = None
) -> None:
    chunks = each.chunks
    empty: Matrix = np.empty((0, recipe.embedder.dim), np.float32)
    words = [terms(chunk.embed_text, language=recipe.language) for chunk in chunks]
    matrix = np.stack([vectors[chunk.id] for chunk in chunks]) if chunks else empty
    store.put(each.document, chunks, matrix, words, instead_of=instead_of)
    if each.summary and chunks:  # a document of one chunk is what its summary says: one vector serves both
        vector = vectors[each.summary] if len(chunks) > 1 else vectors[chunks[0].id]
        store.summarise(each.document.id, each.summary, vector)
