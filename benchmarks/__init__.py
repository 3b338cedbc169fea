"""Benchmarks of speed and memory as ratios to a raw floor: hand-written code that does only the unavoidable work.

Absolute times say more about the machine than about Clew, so most measurements are ratios of one run, with a goal.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement: what was divided by what, and the goal it should meet."""

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
    """Where a benchmark finds its data and may write files."""

    data: Path | None
    work: Path
    include_slow: bool = False  # also run what takes many minutes
    chunks: int | None = None  # where a benchmark has a choice; None: its own


class Skipped(Exception):
    """The benchmark cannot run here, and why."""


Benchmark = Callable[[Setup], Iterable[Measurement | str]]  # a string is printed as it is: a line of a table


def time_call(call: Callable[[], object]) -> float:
    """The seconds that one call takes."""
    started = perf_counter()
    call()
    return perf_counter() - started


def time_interleaved(*calls: Callable[[int], object], rounds: int) -> list[list[float]]:
    """The times of each call over the rounds, interleaved so that a busy moment affects all of them alike."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(rounds):
        for own_times, call in zip(times, calls, strict=True):
            started = perf_counter()
            call(round_)
            own_times.append(perf_counter() - started)
    return times


def p50(times: Sequence[float]) -> float:
    """The median time."""
    return median(times)
