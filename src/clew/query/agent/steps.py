"""A trace step whose inner steps can be read, whether or not a caller records."""

from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.trace import Trace, record, step


@contextmanager
def record_step(name: str) -> Iterator[Trace]:
    """A step of the current trace that also records its inner steps, for `on_step` and the reflection report."""
    with step(name) as outer, record(name, keep=outer.keeps_output) as trace:
        try:
            yield trace
        finally:
            outer.notes, outer.steps, outer.out, outer.output = trace.notes, trace.steps, trace.out, trace.output
