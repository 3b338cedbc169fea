"""A step that can be looked into, also where nobody records."""

from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.trace import Trace, record, step


@contextmanager
def watched(name: str) -> Iterator[Trace]:
    """A step of the current trace whose own steps are kept until it ends, whoever records."""
    with step(name) as outer, record(name, keep=outer.keeps_output) as trace:
        try:
            yield trace
        finally:
            outer.notes, outer.steps, outer.out, outer.output = trace.notes, trace.steps, trace.out, trace.output
