"""Checks of a store's input: bad vectors and conflicting changes raise before anything is stored or searched."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed, NotFound, StoreMismatch
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.text import Terms
from clew.core.types import Chunk, Matrix, Vector

UNIT_TOLERANCE = 1e-3  # maximum deviation of a vector's length from 1


def check_vectors(vectors: Matrix, chunks: Sequence[Chunk], terms: Sequence[Terms | PackedTerms], dim: int) -> Matrix:
    """Return the vectors as one contiguous matrix; DriverFailed unless each chunk has a unit vector and a set of terms.

    A row of nan is a pending vector.
    """
    matrix = np.ascontiguousarray(vectors, np.float32)
    if matrix.size == 0 and not chunks:
        matrix = matrix.reshape(0, dim)
    if not len(chunks) == len(matrix) == len(terms):
        raise DriverFailed(
            f"count mismatch: {len(chunks)} chunks, {len(matrix)} vectors and {len(terms)} sets of terms; "
            "the embedder must return one vector per text; nothing was stored"
        )
    is_pending = matrix.shape == (len(chunks), dim) and np.isnan(matrix).all()  # the usual case of a put
    if not is_pending and not _are_unit(matrix, dim):
        check_unit(matrix[~np.isnan(matrix).all(axis=1)] if matrix.ndim == 2 else matrix, dim, "nothing was stored")
    return matrix


def check_vector(vector: Vector, dim: int) -> Vector:
    """Return the vector, contiguous; DriverFailed unless it is a unit vector of this dimension."""
    flat: Vector = np.ascontiguousarray(vector, np.float32)
    if flat.shape == (dim,) and abs(float(flat @ flat) - 1.0) <= UNIT_TOLERANCE:  # the fast path, without a reason
        return flat
    checked: Vector = check_unit(flat[None], dim, "nothing was searched")[0]
    return checked


def check_stored_document(stored: StoredDocument, dim: int) -> StoredDocument:
    """Return the stored document with checked vectors; DriverFailed unless they are unit vectors of this dimension."""
    summary = None if stored.summary_vector is None else check_vector(stored.summary_vector, dim)
    vectors = check_vectors(stored.vectors, stored.chunks, stored.terms, dim)
    return replace(stored, vectors=vectors, summary_vector=summary)


def check_text_unchanged(doc_id: str, expected_text: str, stored_text: str) -> None:
    """Raise ConcurrentChange unless the stored text is the one that the caller expects to replace."""
    if expected_text != stored_text:
        raise ConcurrentChange(
            f"the document {doc_id!r} changed since it was read; read it again and change that; nothing was stored"
        )


def not_found_error(doc_id: str) -> NotFound:
    """Make the error for a document that does not exist."""
    return NotFound(f"there is no document {doc_id!r} in this collection; `list` shows those there are")


def _are_unit(matrix: Matrix, dim: int) -> bool:
    """Return whether each row is a unit vector of this dimension; False for nan."""
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        return False
    low, high = (1.0 - UNIT_TOLERANCE) ** 2, (1.0 + UNIT_TOLERANCE) ** 2
    return all(low <= each <= high for each in np.vecdot(matrix, matrix).tolist())


def check_unit(matrix: Matrix, dim: int, outcome: str) -> Matrix:
    """Return the matrix; DriverFailed unless each row is a unit vector of this dimension."""
    if matrix.ndim != 2 or matrix.shape[1] != dim:
        raise DriverFailed(f"a vector has {matrix.shape[-1]} dimensions where the collection has {dim}; {outcome}")
    if _are_unit(matrix, dim):
        return matrix
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not np.isfinite(lengths).all():
        raise DriverFailed(f"a vector holds a value that is not a number; the embedder failed, try again; {outcome}")
    raise DriverFailed(
        f"a vector has the length {lengths[np.abs(lengths - 1.0).argmax()]:.4f} where an embedder must return unit "
        f"vectors; {outcome}"
    )


def other_format_error(place: str, found: int, known: int, *, target: str = "collection") -> StoreMismatch:
    """Make the error for a collection with the format of an earlier or a newer Clew.

    target: The noun for what an export is restored into: collection or database.
    """
    if found > known:
        return StoreMismatch(
            f"{place} was written by a newer Clew (format {found}, this one reads {known}); update this Clew "
            "(`pip install --upgrade clew`), or read the collection with the Clew that wrote it"
        )
    return StoreMismatch(
        f"{place} was written by an earlier Clew (format {found}, this one reads {known}); nothing was changed; "
        f"`clew export` it with the Clew that wrote it and `clew restore` the file into a new {target} (another --path "
        "or --collection), or add the sources to a new one"
    )
