"""Vectors in the write path: those that are known already are kept, the others are made after all is stored."""

from collections.abc import Collection, Mapping, Sequence
from time import monotonic

from clew.core.errors import CostLimit, CountMismatch, DriverFailed
from clew.core.filter import Filter
from clew.core.protocols import Embedder, Store
from clew.core.report import OnProgress, Progress, Report, SourceFailure
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
        spent = monotonic() - started
        left = spent / share * (1 - share) if share else None
        if on_progress:
            on_progress(Progress("embedding", count, of, "texts", count / spent if count else 0.0, left))

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
    return f"{store.stats().describe_pending()}; `clew backfill` makes their vectors"


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
