"""Tracing: a tree of timed steps in a context variable, so that no function has to pass it on.

with record() as trace:
    engine.search("what if a key is known to others?")
print(trace.draw())
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from time import perf_counter

Note = str | int | float | bool


@dataclass(slots=True)
class Trace:
    """A timed step: its number of results, notes, and inner steps. The only mutable value type.

    `with step(…)` adds a step to the trace being recorded. Without a recording it does nothing: every search runs these
    steps, so they must cost next to nothing.
    """

    name: str
    ms: float = 0.0
    out: int | None = None
    notes: dict[str, Note] = field(default_factory=dict)
    steps: list["Trace"] = field(default_factory=list)
    keeps_output: bool = False  # whether results are kept, not only counted
    output: tuple[object, ...] | None = None
    _token: Token["Trace | None"] | None = field(default=None, init=False, repr=False, compare=False)
    _started: float = field(default=0.0, init=False, repr=False, compare=False)

    def __enter__(self) -> "Trace":
        parent = _current.get()
        if parent is not None:
            self.keeps_output = parent.keeps_output
            parent.steps.append(self)
            self._token = _current.set(self)
            self._started = perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            self.ms = (perf_counter() - self._started) * 1000
            _current.reset(self._token)
            self._token = None

    @property
    def is_recorded(self) -> bool:
        """Whether the step is being recorded."""
        return self._token is not None

    def set_output(self, items: Sequence[object]) -> None:
        """Record the results of the step: their number, and with `keeps_output` the results themselves."""
        self.out = len(items)
        if self.keeps_output:
            self.output = tuple(items)

    def draw(self, *, depth: int = 0) -> str:
        """Draw the tree as indented lines."""
        notes = "".join(f"  {key}={_format_note(value)}" for key, value in self.notes.items())
        out = "" if self.out is None else f"  {self.out} out"
        line = f"{'  ' * depth}{self.name}  {self.ms:.1f} ms{out}{notes}"
        return "\n".join([line, *(step.draw(depth=depth + 1) for step in self.steps)])

    def find(self, name: str) -> "Trace | None":
        """Find the first step with a name, in depth-first order from this one on; None if there is none."""
        if self.name == name:
            return self
        return next((found for step in self.steps if (found := step.find(name))), None)

    def find_note(self, key: str) -> Note | None:
        """Find the first note with a key, in depth-first order; None if there is none."""
        if key in self.notes:
            return self.notes[key]
        return next((found for each in self.steps if (found := each.find_note(key)) is not None), None)


step = Trace  # `with step("embed") as trace:` times a block as a step of the current trace

_current: ContextVar[Trace | None] = ContextVar("clew_trace", default=None)


@contextmanager
def record(name: str = "trace", *, keep: bool = False) -> Iterator[Trace]:
    """Record every step inside the block in a new trace, and with `keep` also the results of each step."""
    trace = Trace(name, keeps_output=keep)
    token = _current.set(trace)
    started = perf_counter()
    try:
        yield trace
    finally:
        trace.ms = (perf_counter() - started) * 1000
        _current.reset(token)


def note(key: str, value: Note) -> None:
    """Add a note to the current step; do nothing if no trace is recorded."""
    current = _current.get()
    if current is not None:
        current.notes[key] = value


def _format_note(value: Note) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
