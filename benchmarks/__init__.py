"""Speed and size as ratios from one run: against a raw floor that does only the unavoidable part of the same work.

Absolute times say more about the machine than about Clew, so every line is a quotient, with the goal it is held to.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement: what was divided by what, and the most (or least) it should be."""

    name: str
    value: float
    goal: str = ""
    note: str = ""

    def __str__(self) -> str:
        goal = f"  (goal {self.goal})" if self.goal else ""
        note = f"  {self.note}" if self.note else ""
        return f"{self.name:<66} {self.value:>9.3f}{goal}{note}"


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a benchmark finds its sets and may put its files."""

    data: Path | None
    work: Path
    include_slow: bool = False  # also what takes many minutes


class Skipped(Exception):
    """A benchmark that cannot run here, and why."""


Benchmark = Callable[[Setup], Iterable[Measurement]]


def time_call(call: Callable[[], object]) -> float:
    """How long one call took."""
    started = perf_counter()
    call()
    return perf_counter() - started


def time_interleaved(*calls: Callable[[int], object], rounds: int) -> list[list[float]]:
    """The times of each call over the rounds, taken in turn so that a busy moment hits all of them alike."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(rounds):
        for kept, call in zip(times, calls, strict=True):
            started = perf_counter()
            call(round_)
            kept.append(perf_counter() - started)
    return times


def p50(times: Sequence[float]) -> float:
    """The middle time."""
    return median(times)
