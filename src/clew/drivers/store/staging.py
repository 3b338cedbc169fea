"""Vectors of another model beside those in use, made for whatever lacks one, in any store.

A chunk that changes gets a new row, and one whose row stays while its text changes loses its shadow by a trigger; so
what lacks one is always known, and work that was broken off goes on where it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from clew.core.errors import StoreMismatch
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Matrix
from clew.drivers.store import checks

AT_ONCE = 256  # texts that are embedded together, and what is made again at most after a crash
Kind = Literal["chunks", "summaries"]
KINDS: tuple[Kind, ...] = ("chunks", "summaries")
Told = Callable[[int, int], None]  # how many are done, of how many
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lack:
    """A row without a shadow, what it says in the columns of its table, and the text that is embedded of it."""

    row: int
    said: tuple[str, ...]
    text: str


class Shades(Protocol):
    """The shadows of an open transaction."""

    def count(self) -> int:
        """How many rows lack one that a model must make."""

    def lacking(self, kind: Kind, after: int, many: int) -> list[Lack]:
        """The next rows after one that lack theirs."""

    def write(self, kind: Kind, lacks: Sequence[Lack], vectors: Matrix) -> None:
        """Gives rows their shadows, but for those that say something else by now."""

    def mirror(self) -> None:
        """Gives the summaries that share the vector of their document's only chunk the shadow of that chunk."""


class Run(Protocol):
    """Does a piece of work in a transaction of its own, or all pieces in one."""

    def __call__(self, work: Callable[[Shades], T]) -> T: ...


def fill(run: Run, embedder: Embedder, told: Told | None = None) -> int:
    """How many vectors were made."""
    total, made = run(lambda shades: shades.count()), 0
    for kind in KINDS:
        after: int | None = 0
        while after is not None:
            many, after = _fill_some(run, embedder, kind, after)
            made += many
            if told and many:
                told(made, max(total, made))
    run(lambda shades: shades.mirror())
    return made


def _fill_some(run: Run, embedder: Embedder, kind: Kind, after: int) -> tuple[int, int | None]:
    """How many vectors were made for the next rows after one, and the last of these rows, if there were any."""
    lacks = run(lambda shades: shades.lacking(kind, after, AT_ONCE))
    if not lacks:
        return 0, None
    vectors = checks.made(embedder.embed([each.text for each in lacks], role="passage"), len(lacks), embedder)
    run(lambda shades: shades.write(kind, lacks, vectors))
    return len(lacks), lacks[-1].row


def agreed(place: str, shadow: StagedModel | None, embedder: Embedder) -> StagedModel:
    """The shadow, if it is of this model; StoreMismatch if it is of another."""
    if shadow is None or (shadow.embedder, shadow.dim) != (embedder.name, embedder.dim):
        other = f"of {shadow.embedder} ({shadow.dim} dimensions)" if shadow else "none"
        raise StoreMismatch(
            f"{place}: the vectors beside those in use are {other}, not of {embedder.name} ({embedder.dim}); "
            "discard them first (`clew reembed --discard`)"
        )
    return shadow


def moved(place: str, embedder: str, before: str) -> StoreMismatch:
    """The error for a collection that was given another model while it was open."""
    return StoreMismatch(f"{place} was switched from {before} to {embedder} meanwhile; open it again")


def as_bytes(vectors: Matrix) -> list[bytes]:
    """The rows as they are kept in the truth."""
    return [row.tobytes() for row in np.ascontiguousarray(vectors, np.float32)]
