"""Token vectors beside the chunks, made for every chunk that has none, in any store.

As with staged vectors, a chunk that changes gets a new row, and where only its text changes in place a trigger deletes
its token vectors: what is missing is always known, and interrupted work continues where it stopped.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from clew.core.errors import DriverFailed
from clew.core.protocols import TokenEncoder
from clew.drivers.store.staging import MissingVector, OnProgress

BATCH = 64  # chunks that are encoded together; at most this many are encoded again after a crash
T = TypeVar("T")


class KeptTokens(Protocol):
    """The token vectors as an open transaction sees them."""

    def find_last(self) -> int:
        """The last row that has token vectors, 0 if none has."""

    def count_missing(self, after: int) -> int:
        """How many rows after one have none."""

    def list_missing(self, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have none."""

    def write(self, missing: Sequence[MissingVector], encoded: Sequence[bytes]) -> None:
        """Stores those of rows, except of those whose text has changed since; the change number grows."""


class RunInTransaction(Protocol):
    """Runs a piece of work in a transaction of its own."""

    def __call__(self, work: Callable[[KeptTokens], T]) -> T: ...


def add_missing_tokens(
    run: RunInTransaction, encoder: TokenEncoder, on_progress: OnProgress | None, *, only_last: bool
) -> int:
    """Encodes all rows that have no token vectors and stores these, a batch at a time; how many were encoded."""
    after = run(lambda kept: kept.find_last()) if only_last else 0
    total, done = run(lambda kept: kept.count_missing(after)), 0
    while count := (batch := _add_batch(run, encoder, after))[0]:
        done, after = done + count, batch[1]
        if on_progress:
            on_progress(done, max(total, done))
    return done


def _add_batch(run: RunInTransaction, encoder: TokenEncoder, after: int) -> tuple[int, int]:
    """How many of the next rows after one were encoded, and the last of these rows."""
    missing = run(lambda kept: kept.list_missing(after, BATCH))
    if not missing:
        return 0, after
    encoded = encoder.encode([each.text for each in missing])
    if len(encoded) != len(missing):
        raise DriverFailed(f"{encoder.name} gave token vectors of {len(encoded)} texts for {len(missing)}; try again")
    run(lambda kept: kept.write(missing, encoded))
    return len(missing), missing[-1].row
