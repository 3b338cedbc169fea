"""Vectors in the write path: known ones are kept, the others are made after all is stored; then cosines are calibrated.

Calibration measures the background of an embedder's cosines on a sample of the collection, without any judged question:
a sentence of each sampled chunk is embedded as a query. Its cosines with the chunks of other documents are the
background, and its cosine with its own chunk shows how far above that a match can be.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from time import monotonic

import numpy as np

from clew.core.calibration import Calibration
from clew.core.errors import CostLimit, CountMismatch, DriverFailed, SettingsError
from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.protocols import Embedder, Store
from clew.core.report import OnProgress, Report, SourceFailure, flush_after, measure_progress
from clew.core.sentences import split_sentences
from clew.core.thread import is_thread
from clew.core.types import Chunk, Vector
from clew.index.add.prepare import Prepared

MIN_CHUNKS = 100  # of a collection that is measured
SAMPLE = 128  # chunks that are measured …
SCANNED = 4096  # … of so many
MAX_SENTENCE = 300  # characters
MIN_REACH = 0.02

log = logging.getLogger("clew")


def embed_pending(
    store: Store,
    embedder: Embedder,
    on_progress: OnProgress | None = None,
    documents: Collection[str] | None = None,
) -> Report:
    """Make the pending vectors of a store, of all documents or of some; the report counts them and names failures.

    Finished vectors are stored whatever ends it; the other chunks are found by words.
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
    """Flush a store after the block; an interrupt reports the missing vectors."""
    try:
        with flush_after(store.flush, on_progress):
            yield
    except KeyboardInterrupt:
        told = f"; {store.stats().explain_pending()}" if store.describe_pending() else ""
        raise KeyboardInterrupt(f"interrupted; everything finished until now is saved{told}") from None


def find_known_vectors(batch: Sequence[Prepared], stored: Mapping[str, Chunk], store: Store) -> dict[str, Vector]:
    """Find the vectors that prepared documents need and that are known: of chunks by id, of summaries by text.

    `stored` are the chunks of messages, by id.
    """
    return {**store.vectors(_find_unchanged_chunks(batch, stored)), **_find_moved_vectors(batch)}


def _find_unchanged_chunks(batch: Sequence[Prepared], stored: Mapping[str, Chunk]) -> list[str]:
    """Find the ids of chunks whose stored vector is still right.

    The id of a page's chunk is made of its embedded text; that of a message is not, so its text is compared.
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
    """Find the vectors of documents whose files were moved: of their chunks by id, of their summaries by text."""
    vectors: dict[str, Vector] = {}
    for prepared in batch:
        known = prepared.moved_vectors
        if not known:
            continue
        vectors |= {chunk.id: known[chunk.embed_text] for chunk in prepared.chunks if chunk.embed_text in known}
        if prepared.summary.text in known:
            vectors[prepared.summary.text] = known[prepared.summary.text]
    return vectors


def calibrate_once(store: Store, embedder: Embedder) -> None:
    """Measure a collection that is large enough and not measured yet; a failure is logged, since all is stored."""
    stats = store.stats()
    if Calibration.from_json(store.calibration(), embedder.name) or stats.chunks - stats.pending < MIN_CHUNKS:
        return
    try:
        store.set_calibration(measure_calibration(store, embedder).to_json())
    except Exception as error:  # an embedder of the user's may raise anything
        log.warning("the relevance could not be calibrated: %s; `clew calibrate` tries again", error)


def measure_calibration(store: Store, embedder: Embedder) -> Calibration:
    """Measure the background of the embedder's cosines in a sample that depends only on the texts."""
    scanned = list(islice(store.scan(), SCANNED))
    by_id = store.vectors([chunk.id for chunk in scanned])
    if len(by_id) < 2:
        raise SettingsError("the collection has fewer than two chunks; add documents before it is calibrated")
    known = (chunk for chunk in scanned if chunk.id in by_id)
    sample = sorted(known, key=lambda chunk: (digest(chunk.embed_text), chunk.id))[:SAMPLE]
    vectors = np.array([by_id[chunk.id] for chunk in sample], np.float32)
    queries = embedder.embed([pick_sentence(chunk) for chunk in sample], role="query")
    centre = vectors.mean(axis=0)
    above = queries @ vectors.T - (queries @ centre)[:, None]
    documents = np.array([chunk.doc_id for chunk in sample])
    unrelated = documents[:, None] != documents[None, :]
    if not unrelated.any():  # all of it is one document
        unrelated = ~np.eye(len(sample), dtype=bool)
    if not np.isfinite(above).all() or np.abs(above).max() > 2:  # a difference of two cosines
        raise DriverFailed(f"{embedder.name} returned vectors of questions that are not of unit length")
    spread = float(above[unrelated].std())
    reach = max(float(np.diag(above).mean()), spread, MIN_REACH)
    return Calibration(embedder.name, reach=reach, spread=spread, centre=centre, chunks=len(sample))


def pick_sentence(chunk: Chunk) -> str:
    """Pick a sentence from the middle of a chunk, to stand for a question about it."""
    spans = [(start, end) for start, end in split_sentences(chunk.text) if end - start <= MAX_SENTENCE]
    start, end = spans[len(spans) // 2] if spans else (0, MAX_SENTENCE)
    return chunk.text[start:end]
