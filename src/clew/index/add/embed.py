"""Vectors in the write path: those that are known already are kept, the others are made after all is stored."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

from clew.core.errors import CostLimit, CountMismatch, DriverFailed
from clew.core.filter import Filter
from clew.core.flush import flush_after
from clew.core.protocols import Embedder, Store
from clew.core.report import OnProgress, Report, SourceFailure, measure_progress
from clew.core.thread import is_thread
from clew.core.types import Chunk, Vector
from clew.index.add.prepare import Prepared


def embed_pending(
    store: Store,
    embedder: Embedder,
    on_progress: OnProgress | None = None,
    documents: Collection[str] | None = None,
) -> Report:
    """Makes the pending vectors of a store, of all documents or of some; the report says how many, and what failed.

    Whatever ends it, what was made is stored, and what is left is found by words.
    """
    started, before = monotonic(), store.stats().pending

    def report(count: int, of: int, share: float) -> None:
        if on_progress:
            on_progress(measure_progress("embedding", count, of, "texts", monotonic() - started, share=share))

    try:
        made, reasons = store.embed_pending(embedder, report, documents)
    except CountMismatch:
        raise
    except CostLimit as limit:
        return Report(embedded=before - store.stats().pending, stopped=str(limit))
    except DriverFailed as error:
        failure = SourceFailure(embedder.name, f"{error}; {_tell_pending(store)}")
        return Report(embedded=before - store.stats().pending, failed=(failure,))
    found = store.documents(Filter(documents=frozenset(reasons))) if reasons else ()
    failures = [SourceFailure(each.uri or each.id, f"{reasons[each.id]}; {_tell_pending(store)}") for each in found]
    return Report(embedded=made, failed=tuple(failures))


def _tell_pending(store: Store) -> str:
    return replace(store.stats(), is_embedding=False).explain_pending()


@contextmanager
def finish_write(store: Store, on_progress: OnProgress | None) -> Iterator[None]:
    """Flushes a store after the block; an interrupt tells what is still to be made."""
    try:
        with flush_after(store.flush, on_progress):
            yield
    except KeyboardInterrupt:
        told = f"; {store.stats().explain_pending()}" if store.describe_pending() else ""
        raise KeyboardInterrupt(f"interrupted; everything finished until now is saved{told}") from None


def find_known_vectors(batch: Sequence[Prepared], stored: Mapping[str, Chunk], store: Store) -> dict[str, Vector]:
    """The vectors that prepared documents need and that are known: of chunks by id, of summaries by text.

    `stored` are the chunks of messages, by id.
    """
    return {**store.vectors(_find_unchanged_chunks(batch, stored)), **_find_moved_vectors(batch)}


def _find_unchanged_chunks(batch: Sequence[Prepared], stored: Mapping[str, Chunk]) -> list[str]:
    """The ids of chunks whose stored vector is still right.

    The id of a page's chunk is made from what is embedded; that of a message is not, so its text is compared.
    """
    unchanged: list[str] = []
    for prepared in batch:
        if not is_thread(prepared.document):
            unchanged += [chunk.id for chunk in prepared.chunks if prepared.record]
            continue
        for chunk in prepared.chunks:
            old = stored.get(chunk.id)
            if old and old.embed_text == chunk.embed_text:
                unchanged.append(chunk.id)
    return unchanged


def _find_moved_vectors(batch: Sequence[Prepared]) -> dict[str, Vector]:
    """The vectors of documents whose files were moved: of their chunks by id, of their summaries by text."""
    vectors: dict[str, Vector] = {}
    for prepared in batch:
        known = prepared.moved_vectors
        if not known:
            continue
        vectors |= {chunk.id: known[chunk.embed_text] for chunk in prepared.chunks if chunk.embed_text in known}
        if prepared.summary.text in known:
            vectors[prepared.summary.text] = known[prepared.summary.text]
    return vectors
