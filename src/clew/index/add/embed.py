"""Embedding for the pipeline: the vectors of a batch of prepared documents, none of them made twice."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clew.core.errors import CountMismatch
from clew.core.protocols import Embedder, Store
from clew.core.thread import is_thread
from clew.core.types import Chunk, Vector
from clew.index.add.prepare import Prepared

SLICE_TEXTS = 256  # embedded in one call, so that a large document shows progress

OnEmbedded = Callable[[int], None]  # gets the number of texts of each call that is done


def find_unchanged_chunks(batch: Sequence[Prepared], stored: Mapping[str, Chunk]) -> list[str]:
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


def find_moved_vectors(batch: Sequence[Prepared]) -> dict[str, Vector]:
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


def embed_changed_chunks(prepared: Prepared, store: Store, embedder: Embedder) -> Mapping[str, Vector]:
    """The vectors of one document; stored ones that are still right are reused."""
    stored = store.chunks_by_id([chunk.id for chunk in prepared.chunks])
    known = {**store.vectors(find_unchanged_chunks([prepared], stored)), **find_moved_vectors([prepared])}
    return embed_chunks_and_summaries([prepared], known, embedder)


def embed_chunks_and_summaries(
    batch: Sequence[Prepared],
    known: Mapping[str, Vector],
    embedder: Embedder,
    on_embedded: OnEmbedded | None = None,
) -> Mapping[str, Vector]:
    """The vectors of all chunks by id and of all summaries by text; those in `known` are not embedded again."""
    texts = {chunk.id: chunk.embed_text for prepared in batch for chunk in prepared.chunks if chunk.id not in known}
    chunks = len(texts)
    summaries = (prepared.summary.text for prepared in batch if prepared.summary.text and prepared.chunks)
    texts |= {summary: summary for summary in summaries if summary not in known}
    if not texts:
        return known
    waiting = list(texts.values())
    parts: list[Vector] = []
    for start in range(0, len(waiting), SLICE_TEXTS):
        part = waiting[start : start + SLICE_TEXTS]
        vectors = embedder.embed(part, role="passage")
        if len(vectors) != len(part):
            raise CountMismatch(
                f"count mismatch: {embedder.name} gave {len(vectors)} vectors for {len(part)} texts; none was stored"
            )
        parts.extend(np.asarray(vectors))
        if on_embedded:
            on_embedded(max(0, min(chunks - start, len(part))))
    return {**known, **dict(zip(texts, parts, strict=True))}
