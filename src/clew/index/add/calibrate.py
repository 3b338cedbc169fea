"""Measures the background of an embedder's cosines on a sample of a collection, without any judged question.

A sentence of each sampled chunk is embedded as a query. Its cosines with the chunks of other documents are the
background, and its cosine with its own chunk shows how far above that a match can be.
"""

import logging
from itertools import islice

import numpy as np

from clew.core.calibration import Calibration
from clew.core.errors import DriverFailed, SettingsError
from clew.core.ids import digest
from clew.core.protocols import Embedder, Store
from clew.core.sentences import split_sentences
from clew.core.types import Chunk

MIN_CHUNKS = 100  # of a collection that is measured
SAMPLE = 128  # chunks that are measured …
SCANNED = 4096  # … of so many
MAX_SENTENCE = 300  # characters
MIN_REACH = 0.02

log = logging.getLogger("clew")


def calibrate_once(store: Store, embedder: Embedder) -> None:
    """Measures a collection that is large enough and not measured yet; a failure is logged, since all is stored."""
    stats = store.stats()
    if Calibration.from_json(store.calibration(), embedder.name) or stats.chunks - stats.pending < MIN_CHUNKS:
        return
    try:
        store.set_calibration(measure_calibration(store, embedder).to_json())
    except Exception as error:  # an embedder of the user's may raise anything
        log.warning("the relevance could not be calibrated: %s; `clew calibrate` tries again", error)


def measure_calibration(store: Store, embedder: Embedder) -> Calibration:
    """The background of the embedder's cosines in a collection, from a sample that depends only on its texts."""
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
    """A sentence from the middle of a chunk, to stand for a question about it."""
    spans = [(start, end) for start, end in split_sentences(chunk.text) if end - start <= MAX_SENTENCE]
    start, end = spans[len(spans) // 2] if spans else (0, MAX_SENTENCE)
    return chunk.text[start:end]
