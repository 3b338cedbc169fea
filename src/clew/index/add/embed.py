"""Vectors in the write path: known ones are reused, a few new ones are made before the text is stored, many after it.

Calibration measures the background of the embedder's cosines on a sample of the collection, without judged questions.
A sentence of each sampled chunk is embedded as a query. Its cosines with chunks of other documents are the background;
its cosine with its own chunk shows how far above it a match can be.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from time import monotonic

import numpy as np

from clew.core.calibration import Calibration
from clew.core.errors import CostLimit, CountMismatch, DriverFailed, SettingsError
from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.protocols import Embedder, WritableStore
from clew.core.report import OnProgress, Report, SourceFailure, flush_after, measure_progress
from clew.core.sentences import split_sentences
from clew.core.stored import SLICE
from clew.core.thread import is_thread
from clew.core.types import Chunk, Vector
from clew.index.add.prepare import Prepared

MIN_CHUNKS = 100  # embedded chunks needed for calibration
SAMPLE = 128  # chunks measured …
SCANNED = 4096  # … out of so many
MAX_SENTENCE = 300  # characters
MIN_REACH = 0.02
TOLERANCE = 1e-3  # deviation from 1 that the length of a vector may have

log = logging.getLogger("clew")


def embed_pending(
    store: WritableStore,
    embedder: Embedder,
    on_progress: OnProgress | None = None,
    documents: Collection[str] | None = None,
) -> Report:
    """Make the pending vectors of a store, for all or some documents.

    Finished vectors are stored even if it is interrupted; lexical search finds the other chunks.
    """
    started, before = monotonic(), store.counts().pending

    def report(count: int, of: int, share: float) -> None:
        if on_progress:
            on_progress(measure_progress("embedding", count, of, "texts", monotonic() - started, share=share))

    try:
        made, reasons = store.embed_pending(embedder, report, documents)
    except CountMismatch:
        raise
    except CostLimit as limit:
        return Report(embedded=before - store.counts().pending, stopped=str(limit))
    except DriverFailed as error:
        counts = store.counts()
        failure = SourceFailure(embedder.name, f"{error}; {counts.explain_pending()}")
        return Report(embedded=before - counts.pending, failed=(failure,))
    found = list(store.documents(Filter(documents=frozenset(reasons)))) if reasons else ()
    why = store.counts().explain_pending() if found else ""
    return Report(
        embedded=made, failed=tuple(SourceFailure(each.uri or each.id, f"{reasons[each.id]}; {why}") for each in found)
    )


@contextmanager
def finish_write(store: WritableStore, on_progress: OnProgress | None) -> Iterator[None]:
    """Flush a store after the block; add the number of pending vectors to the message of an interrupt."""
    try:
        with flush_after(store.flush, on_progress):
            yield
    except KeyboardInterrupt:
        told = f"; {store.stats().explain_pending()}" if store.describe_pending() else ""
        raise KeyboardInterrupt(f"interrupted; everything finished until now is saved{told}") from None


def find_known_vectors(
    batch: Sequence[Prepared], stored: Mapping[str, Chunk], store: WritableStore
) -> dict[str, Vector]:
    """Find the known vectors of prepared documents, by text: of stored chunks, and of moved files.

    The chunk id of a page is a hash of the embedded text. The chunk id of a message is not, so its text is compared
    with `stored`, the stored chunks of messages by id.
    """
    same = {chunk.id: chunk for each in batch if each.record and not is_thread(each.document) for chunk in each.chunks}
    for chunk in (chunk for each in batch if is_thread(each.document) for chunk in each.chunks):
        if (old := stored.get(chunk.id)) and old.embed_text == chunk.embed_text:
            same[chunk.id] = chunk
    known = {same[chunk_id].embed_text: vector for chunk_id, vector in store.vectors([*same]).items()}
    for each in batch:
        known |= each.moved_vectors
    return known


def embed_few(
    batch: Sequence[Prepared], known: Mapping[str, Vector], embedder: Embedder, on_progress: OnProgress | None
) -> dict[str, Vector]:
    """Embed the texts without a known vector, if they fit in one call; return the vectors by text.

    One commit then stores the documents with them. If the model fails, return none, and the vectors stay pending.
    """
    texts = {chunk.embed_text: None for each in batch for chunk in each.chunks}
    for each in batch:
        if each.chunks and each.summary.text and not (each.record and each.record.summary == each.summary.text):
            texts[each.summary.text] = None
    wanted = sorted((text for text in texts if text not in known), key=len)
    if not 0 < len(wanted) <= SLICE:
        return {}
    started = monotonic()

    def report(done: int) -> None:
        if on_progress:
            on_progress(measure_progress("embedding", done, len(wanted), "texts", monotonic() - started))

    report(0)
    try:
        made = embed_texts(wanted, embedder)
    except (DriverFailed, CostLimit):  # retried, and reported, when all documents are stored
        return {}
    report(len(wanted))
    return made


def embed_texts(texts: Sequence[str], embedder: Embedder) -> dict[str, Vector]:
    """Embed texts in one call; raise DriverFailed unless the model returns a unit vector for each."""
    made = np.asarray(embedder.embed(texts, role="passage"), np.float32)
    if made.shape != (len(texts), embedder.dim) or not np.abs(np.linalg.norm(made, axis=1) - 1).max() < TOLERANCE:
        raise DriverFailed(f"{embedder.name} did not return a unit vector for each text; try again")
    return dict(zip(texts, made, strict=True))


def calibrate_once(store: WritableStore, embedder: Embedder) -> None:
    """Calibrate a collection once it is large enough; only log a failure, since the documents are stored."""
    counts = store.counts()
    if Calibration.from_json(store.calibration(), embedder.name) or counts.chunks - counts.pending < MIN_CHUNKS:
        return
    try:
        store.set_calibration(measure_calibration(store, embedder).to_json())
    except Exception as error:  # a user's embedder may raise anything
        log.warning("the relevance could not be calibrated: %s; `clew calibrate` tries again", error)


def measure_calibration(store: WritableStore, embedder: Embedder) -> Calibration:
    """Measure the background of the embedder's cosines on a sample that depends only on the texts."""
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
    if not unrelated.any():  # all chunks are of one document
        unrelated = ~np.eye(len(sample), dtype=bool)
    if not np.isfinite(above).all() or np.abs(above).max() > 2:  # a difference of two cosines
        raise DriverFailed(f"{embedder.name} returned vectors of questions that are not of unit length")
    spread = float(above[unrelated].std())
    reach = max(float(np.diag(above).mean()), spread, MIN_REACH)
    return Calibration(embedder.name, reach=reach, spread=spread, centre=centre, chunks=len(sample))


def pick_sentence(chunk: Chunk) -> str:
    """Pick a sentence from the middle of a chunk, as a substitute for a question about it."""
    spans = [(start, end) for start, end in split_sentences(chunk.text) if end - start <= MAX_SENTENCE]
    start, end = spans[len(spans) // 2] if spans else (0, MAX_SENTENCE)
    return chunk.text[start:end]
