"""What a store takes: checked at the door, so that nothing half right is kept or searched for."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed
from clew.core.protocols import Embedder
from clew.core.stored import Packed, StoredDocument
from clew.core.text import Terms
from clew.core.types import Chunk, Matrix, Section, Vector

UNIT = 1e-3  # how far from 1 the length of a vector may be


def rows(vectors: Matrix, chunks: Sequence[Chunk], terms: Sequence[Terms | Packed], dim: int) -> Matrix:
    """The vectors as one contiguous matrix, if there is a sound one and a set of terms for each chunk."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    if matrix.size == 0 and not chunks:
        matrix = matrix.reshape(0, dim)
    if not len(chunks) == len(matrix) == len(terms):
        raise DriverFailed(
            f"count mismatch: {len(chunks)} chunks, {len(matrix)} vectors and {len(terms)} sets of terms; "
            "the embedder must give one vector a text; nothing was stored"
        )
    return _sound(matrix, dim, "nothing was stored")


def at_end(doc_id: str, sections: Sequence[Section], chars: int, text: str) -> None:
    """Refuses sections that do not stand in the text that follows a document of so many characters."""
    if sections and not chars <= sections[0].start <= sections[-1].end <= chars + len(text):
        raise ConcurrentChange(
            f"the document {doc_id!r} ends at {chars} and not at {sections[0].start}: it changed since it was read; "
            "read it again and add to that; nothing was stored"
        )


def same(doc_id: str, read: str, kept: str) -> None:
    """Refuses to replace a text that is not the one that was read."""
    if read != kept:
        raise ConcurrentChange(
            f"the document {doc_id!r} changed since it was read; read it again and change that; nothing was stored"
        )


def row(vector: Vector, dim: int) -> Vector:
    """The vector, if it is a sound one."""
    flat: Vector = np.ascontiguousarray(vector, np.float32)
    if flat.shape == (dim,) and abs(float(flat @ flat) - 1.0) <= UNIT:  # most are; the rest is told what is wrong
        return flat
    sound: Vector = _sound(flat[None], dim, "nothing was searched")[0]
    return sound


def whole(of: StoredDocument, dim: int) -> StoredDocument:
    """The same document, if all its vectors are sound."""
    summary = None if of.summary_vector is None else row(of.summary_vector, dim)
    return replace(of, vectors=rows(of.vectors, of.chunks, of.terms, dim), summary_vector=summary)


def made(vectors: Matrix, many: int, embedder: Embedder) -> Matrix:
    """What an embedder gave, if it is a sound vector for each of so many texts."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    if len(matrix) != many:
        raise DriverFailed(
            f"count mismatch: {embedder.name} gave {len(matrix)} vectors for {many} texts; nothing was stored"
        )
    return _sound(matrix, embedder.dim, "nothing was stored")


def _sound(matrix: Matrix, dim: int, so: str) -> Matrix:
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        raise DriverFailed(f"a vector has {matrix.shape[-1]} dimensions where the collection has {dim}; {so}")
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise DriverFailed(f"a vector holds a value that is not a number; the embedder failed, try again; {so}")
    if len(lengths) and np.abs(lengths - 1.0).max() > UNIT:
        raise DriverFailed(
            f"a vector has the length {lengths[np.abs(lengths - 1.0).argmax()]:.4f} where an embedder must give unit "
            f"vectors; {so}"
        )
    return matrix
