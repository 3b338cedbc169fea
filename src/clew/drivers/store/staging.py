"""Staged vectors: those of another model beside the ones in use, made for every row that has none, in any store.

A chunk that changes gets a new row; where only its text changes in place, a trigger deletes its staged vector. So the
missing ones are always known, and interrupted work continues where it stopped. (The tables call them `shadows`.)
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from clew.core.errors import ModelSwitched, StoreMismatch
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Chunk, Matrix
from clew.drivers.store import checks

BATCH = 256  # texts that are embedded together; at most this many are embedded again after a crash
Kind = Literal["chunks", "summaries"]
KINDS: tuple[Kind, ...] = ("chunks", "summaries")
OnProgress = Callable[[int, int], None]  # how many are done, of how many
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MissingVector:
    """A row without a staged vector: its columns that make up the text, and the text to embed."""

    row: int
    columns: tuple[str, ...]
    text: str


class StagedVectors(Protocol):
    """The staged vectors as an open transaction sees them."""

    def count_missing(self) -> int:
        """How many rows need a vector from the model."""

    def list_missing(self, kind: Kind, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have no staged vector."""

    def write_vectors(self, kind: Kind, missing: Sequence[MissingVector], vectors: Matrix) -> None:
        """Stores the vectors of rows, except of those whose text has changed since."""

    def copy_chunk_vectors_to_summaries(self) -> None:
        """Stages the vector of a document's only chunk for its summary too, where the two share the one in use."""


class RunInTransaction(Protocol):
    """Runs a piece of work in a transaction: each in its own, or all in one."""

    def __call__(self, work: Callable[[StagedVectors], T]) -> T: ...


def stage_missing_vectors(run: RunInTransaction, embedder: Embedder, on_progress: OnProgress | None = None) -> int:
    """Embeds all rows that have no staged vector and stores the vectors; how many were made."""
    total, done = run(lambda staged: staged.count_missing()), 0
    if on_progress and total:
        on_progress(0, total)  # a batch may take long
    for kind in KINDS:
        after: int | None = 0
        while after is not None:
            count, after = _stage_batch(run, embedder, kind, after)
            done += count
            if on_progress and count:
                on_progress(done, max(total, done))
    run(lambda staged: staged.copy_chunk_vectors_to_summaries())
    return done


def _stage_batch(run: RunInTransaction, embedder: Embedder, kind: Kind, after: int) -> tuple[int, int | None]:
    """How many vectors were made for the next rows after one, and the last of these rows, if there were any."""
    missing = run(lambda staged: staged.list_missing(kind, after, BATCH))
    if not missing:
        return 0, None
    embedded = embedder.embed([each.text for each in missing], role="passage")
    vectors = checks.check_embeddings(embedded, len(missing), embedder)
    run(lambda staged: staged.write_vectors(kind, missing, vectors))
    return len(missing), missing[-1].row


def parse_missing_row(columns: Sequence[Any]) -> MissingVector:
    """A row and its text: a chunk's text, headings and context, or a summary."""
    row, *rest = columns
    if len(rest) == 1:
        return MissingVector(row, tuple(rest), rest[0])
    text, headings, context = rest
    chunk = Chunk("", "", 0, 0, text, 0, 0, tuple(json.loads(headings)), context)
    return MissingVector(row, tuple(rest), chunk.embed_text)


def check_staged_model(place: str, staged: StagedModel | None, embedder: Embedder) -> None:
    """StoreMismatch unless the staged vectors are of this model."""
    if staged is None or (staged.embedder, staged.dim) != (embedder.name, embedder.dim):
        other = f"of {staged.embedder} ({staged.dim} dimensions)" if staged else "none"
        raise StoreMismatch(
            f"{place}: the vectors kept beside those in use are {other}, not of {embedder.name} ({embedder.dim}); "
            "delete them first (`clew reembed --discard`)"
        )


def model_switched_error(place: str, embedder: str, before: str) -> ModelSwitched:
    """The error for a collection that was switched to another model while it was open."""
    return ModelSwitched(f"{place} was switched from {before} to {embedder} meanwhile; open it again", embedder)


def check_model_in_use(place: str, embedder: Embedder, name: str, dim: int) -> None:
    """StoreMismatch unless a model is the one that the collection has by now."""
    if (embedder.name, embedder.dim) != (name, dim):
        raise StoreMismatch(
            f"{place} has vectors of {name} ({dim} dimensions) by now, not of {embedder.name} ({embedder.dim})"
        )
