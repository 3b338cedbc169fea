"""How far long work is: a bar for each stage on a terminal, a plain line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from clew.core.report import OnProgress, Progress

EVERY = 5.0  # seconds between two lines of one stage


@contextmanager
def shown() -> Iterator[OnProgress]:
    """A watcher that shows what it is told on stderr, for as long as the block lasts."""
    if sys.stderr.isatty():
        with _bars() as watch:
            yield watch
    else:
        yield lines(lambda line: print(line, file=sys.stderr, flush=True))


def lines(write: Callable[[str], None], *, every: float = EVERY, clock: Callable[[], float] = monotonic) -> OnProgress:
    """A watcher that writes a line when a stage begins, when it ends, and at most each so many seconds between."""
    last: dict[str, float] = {}
    ended: set[str] = set()

    def watch(progress: Progress) -> None:
        now = clock()
        at_end = progress.total is not None and progress.done >= progress.total
        due = now - last.get(progress.stage, float("-inf")) >= every
        if (due and not at_end) or (at_end and progress.stage not in ended):
            last[progress.stage] = now
            (ended.add if at_end else ended.discard)(progress.stage)
            write(line(progress))

    return watch


def line(progress: Progress) -> str:
    """The progress in a line: "embedding: 120 of 400 chunks, 55.2/s, 5 s left"."""
    of = "" if progress.total is None else f" of {progress.total}"
    said = [f"{progress.stage}: {progress.done}{of} {progress.unit}".rstrip()]
    if progress.rate:
        said.append(rate(progress.rate))
    if progress.left:
        said.append(f"{duration(progress.left)} left")
    if progress.failed:
        said.append(f"{progress.failed} failed")
    return ", ".join(said)


def rate(of: float) -> str:
    """How many in a second."""
    return f"{of:.0f}/s" if of >= 100 else f"{of:.3g}/s"


def duration(seconds: float) -> str:
    """A stretch of time as a person says it: "5 s", "3 min", "2 h 10 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _bars() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}", markup=False),
        TextColumn("{task.fields[speed]}", style="progress.data.speed", markup=False),
        TextColumn("{task.fields[left]}", style="progress.remaining", markup=False),
    )
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:

        def watch(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=None, count="", speed="", left="")
            of = "" if progress.total is None else f"/{progress.total}"
            failed = f", {progress.failed} failed" if progress.failed else ""
            bars.update(
                tasks[progress.stage],
                completed=progress.done,
                total=progress.total,
                count=f"{progress.done}{of} {progress.unit}{failed}",
                speed=rate(progress.rate) if progress.rate else "",
                left=f"{duration(progress.left)} left" if progress.left else "",
            )

        yield watch
