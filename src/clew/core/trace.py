"""What happened: a tree of steps with their times, kept in a context variable so that no signature carries it.

with record() as trace:
    engine.search("who rotates the keys?")
print(trace.draw())
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from time import perf_counter
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Note = str | int | float | bool


@dataclass(slots=True)
class Trace:
    """A step of the work: its time, what came out, the steps inside. The one noun that changes while it lives."""

    name: str
    ms: float = 0.0
    out: int | None = None
    notes: dict[str, Note] = field(default_factory=dict)
    steps: list["Trace"] = field(default_factory=list)
    keeps_output: bool = False  # whether what came out is kept, not only counted
    output: tuple[object, ...] | None = None

    def set_output(self, items: Sequence[object]) -> None:
        """Notes what came out of the step."""
        self.out = len(items)
        if self.keeps_output:
            self.output = tuple(items)

    def draw(self, *, depth: int = 0) -> str:
        """The tree as indented lines."""
        notes = "".join(f"  {key}={_shown(value)}" for key, value in self.notes.items())
        out = "" if self.out is None else f"  {self.out} out"
        line = f"{'  ' * depth}{self.name}  {self.ms:.1f} ms{out}{notes}"
        return "\n".join([line, *(step.draw(depth=depth + 1) for step in self.steps)])

    def find(self, name: str) -> "Trace | None":
        """The first step of that name, or None, searched depth first from here."""
        if self.name == name:
            return self
        return next((found for step in self.steps if (found := step.find(name))), None)


_current: ContextVar[Trace | None] = ContextVar("clew_trace", default=None)


@contextmanager
def record(name: str = "trace", *, keep: bool = False) -> Iterator[Trace]:
    """A trace that collects every step taken inside the block, and with `keep` what came out of each."""
    trace = Trace(name, keeps_output=keep)
    token = _current.set(trace)
    started = perf_counter()
    try:
        yield trace
    finally:
        trace.ms = (perf_counter() - started) * 1000
        _current.reset(token)


@contextmanager
def step(name: str) -> Iterator[Trace]:
    """A step of the current trace; where nothing is recorded, a step that is thrown away."""
    parent = _current.get()
    if parent is None:
        yield Trace(name)
        return
    with record(name, keep=parent.keeps_output) as trace:
        parent.steps.append(trace)
        yield trace


def trace_step(name: str) -> Callable[[Callable[P, list[T]]], Callable[P, list[T]]]:
    """A decorator: each call of the function is a step, and the length of its list is what came out."""

    def decorate(function: Callable[P, list[T]]) -> Callable[P, list[T]]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> list[T]:
            with step(name) as trace:
                result = function(*args, **kwargs)
                trace.set_output(result)
                return result

        return call

    return decorate


def _shown(value: Note) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
