"""The write path in one function: read → chunk → embed → put; what has not changed is skipped.

Sources are taken a few at a time and their chunks are embedded together, so that memory does not grow with the corpus
and the model always has a full batch. Each document is put by itself: whatever ends the work, what was put stays, and
the next run goes on from there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic

import numpy as np

from clew.core.errors import DriverFailed, SourceError
from clew.core.ids import digest
from clew.core.protocols import Chunker, Embedder, Store
from clew.core.report import Failure, Progress, Report, Watcher
from clew.core.text import Terms, terms
from clew.core.types import Chunk, Document, DocumentRecord, Filter, Matrix, Vector

LOOK_UP = 64  # sources whose records are fetched together
BATCH = 256  # chunks that are embedded together
PATIENCE = 3  # documents in a row that the embedder may fail on before the work is given up


@dataclass(frozen=True, slots=True)
class Source:
    """Something that can be added: where it stands, the state it is in, and how to read it."""

    id: str
    uri: str
    read: Callable[[], Document]
    stamp: str = ""  # of a file: its time and size; equal stamps are not read again


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a document becomes chunks with vectors; `key` changes when any of it does."""

    chunker: Chunker
    embedder: Embedder
    language: str
    key: str


@dataclass(slots=True)
class _Work:
    """The tally of one `add`, and the documents that wait for their chunks to be embedded."""

    started: float = field(default_factory=monotonic)
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    skipped: int = 0
    failed: list[Failure] = field(default_factory=list)
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    failures_in_a_row: int = 0
    waiting: list[tuple[Document, list[Chunk], DocumentRecord | None]] = field(default_factory=list)

    @property
    def done(self) -> int:
        return len(self.added) + len(self.changed) + self.skipped + len(self.failed)

    def report(self) -> Report:
        return Report(
            tuple(self.added),
            tuple(self.changed),
            self.skipped,
            tuple(self.failed),
            self.chunks,
            self.embedded,
            self.reused,
            monotonic() - self.started,
        )


def add(
    sources: Iterable[Source | SourceError],
    *,
    store: Store,
    recipe: Recipe,
    total: int | None = None,
    watch: Watcher | None = None,
) -> Report:
    """What was added, changed, skipped and failed. A bad source is reported and the rest is added."""
    work = _Work()
    say = watch or (lambda _: None)
    for few in _batches(sources, LOOK_UP):
        ids = frozenset(source.id for source in few if isinstance(source, Source))
        records = {record.id: record for record in store.documents(Filter(documents=ids))} if ids else {}
        for source in few:
            if isinstance(source, SourceError):
                work.failed.append(Failure(source.source, source.reason))
            else:
                _take(source, records.get(source.id), recipe, work)
            if sum(len(chunks) for _, chunks, _ in work.waiting) >= BATCH:
                _store_waiting(store, recipe, work)
            say(_progress(work, total))
    _store_waiting(store, recipe, work)
    say(_progress(work, total))
    return work.report()


def _take(source: Source, record: DocumentRecord | None, recipe: Recipe, work: _Work) -> None:
    """Skips a source that has not changed, or reads it, cuts it, and lets it wait for its vectors."""
    stamp = f"{source.stamp} {recipe.key}" if source.stamp else ""
    if record is not None and stamp and record.stamp == stamp:
        work.skipped += 1
        return
    try:
        document = source.read()
        hash_ = digest(recipe.key, fingerprint(document))
        if record is not None and record.hash == hash_:
            work.skipped += 1
            return
        chunks = recipe.chunker(document)
    except SourceError as error:
        work.failed.append(Failure(source.uri, error.reason))
        return
    work.waiting.append((replace(document, hash=hash_, stamp=stamp), chunks, record))


def _store_waiting(store: Store, recipe: Recipe, work: _Work) -> None:
    """Embeds what waits in one call and puts each document; where the call fails, each document tries alone."""
    waiting, work.waiting = work.waiting, []
    try:
        _store(waiting, store, recipe, work)
    except DriverFailed:
        for one in waiting:
            try:
                _store([one], store, recipe, work)
                work.failures_in_a_row = 0
            except DriverFailed as error:
                work.failed.append(Failure(one[0].uri or one[0].id, str(error)))
                work.failures_in_a_row += 1
                if work.failures_in_a_row >= PATIENCE:
                    raise


def _store(
    waiting: Sequence[tuple[Document, list[Chunk], DocumentRecord | None]], store: Store, recipe: Recipe, work: _Work
) -> None:
    known = store.vectors([chunk.id for _, chunks, record in waiting if record for chunk in chunks])
    fresh = {chunk.id: chunk.embed_text for _, chunks, _ in waiting for chunk in chunks if chunk.id not in known}
    vectors: Sequence[Vector] = list(recipe.embedder.embed(list(fresh.values()), role="passage")) if fresh else []
    if len(vectors) != len(fresh):
        raise DriverFailed(
            f"count mismatch: {recipe.embedder.name} gave {len(vectors)} vectors for {len(fresh)} texts; "
            "nothing of them was stored"
        )
    made = {**known, **dict(zip(fresh, vectors, strict=True))}
    for document, chunks, record in waiting:
        matrix: Matrix = (
            np.stack([made[chunk.id] for chunk in chunks]) if chunks else np.empty((0, recipe.embedder.dim), np.float32)
        )
        words: list[Terms] = [terms(chunk.embed_text, language=recipe.language) for chunk in chunks]
        store.put(document, chunks, matrix, words)
        (work.changed if record else work.added).append(document.uri or document.id)
        work.chunks += len(chunks)
        work.reused += sum(chunk.id in known for chunk in chunks)
        work.embedded += sum(chunk.id in fresh for chunk in chunks)


def fingerprint(document: Document) -> str:
    """A digest of all that a document says, its place and its summary left out."""
    sections = [
        f"{s.start} {s.end} {s.parent} {s.page} {s.at} {s.label}\x1f{s.id}\x1f{s.author}" for s in document.sections
    ]
    meta = [f"{key}\x1f{document.meta[key]!r}" for key in sorted(document.meta)]
    return digest(document.kind, document.title, document.text, *sections, "\x1e", *meta)


def _progress(work: _Work, total: int | None) -> Progress:
    spent = monotonic() - work.started
    done = work.done
    left = spent / done * (total - done) if total is not None and done else None
    rate = work.embedded / spent if spent else 0.0
    return Progress("adding", done, total, "documents", rate, left, len(work.failed))


def _batches(items: Iterable[Source | SourceError], size: int) -> Iterator[list[Source | SourceError]]:
    iterator = iter(items)
    while few := list(islice(iterator, size)):
        yield few
