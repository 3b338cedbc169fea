"""Progress of long work on stderr: one bar per stage on a terminal, a plain line now and then elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from clew.core.report import OnProgress, Progress
from clew.core.suggest import format_count

LINE_INTERVAL = 5.0  # seconds between two lines of one stage


@contextmanager
def report_progress() -> Iterator[OnProgress]:
    """Yield a callback that shows progress on stderr until the block ends."""
    if sys.stderr.isatty():
        with _show_progress_bars() as on_progress:
            yield on_progress
    else:
        yield make_line_reporter(lambda line: print(line, file=sys.stderr, flush=True))


def make_line_reporter(
    write: Callable[[str], None], *, interval: float = LINE_INTERVAL, clock: Callable[[], float] = monotonic
) -> OnProgress:
    """Make a callback that writes a line when a stage begins and ends, and at most one per interval in between."""
    last: dict[str, float] = {}
    ended: set[str] = set()

    def on_progress(progress: Progress) -> None:
        now = clock()
        at_end = progress.total is not None and progress.done >= progress.total
        is_known = progress.done > 0 or progress.total is not None
        due = is_known and now - last.get(progress.stage, float("-inf")) >= interval
        if (due and not at_end) or (at_end and progress.stage not in ended):
            last[progress.stage] = now
            (ended.add if at_end else ended.discard)(progress.stage)
            write(format_progress(progress))

    return on_progress


def format_progress(progress: Progress) -> str:
    """Format the progress in a line: "embedding: 120 of 400 chunks, 55.2/s, 5 s left"."""
    total = "" if progress.total is None else f" of {progress.total}"
    is_one = (progress.done if progress.total is None else progress.total) == 1
    unit = progress.unit.removesuffix("s") if is_one else progress.unit
    parts = [f"{progress.stage}: {progress.done}{total} {unit}".rstrip()]
    if progress.rate:
        parts.append(format_rate(progress.rate))
    if progress.chunks:
        parts.append(format_count(progress.chunks, "chunk"))
    if progress.seconds_left:
        parts.append(f"{format_duration(progress.seconds_left)} left")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return ", ".join(parts)


def format_rate(rate: float) -> str:
    """Format the rate per second: "55.2/s"."""
    return f"{rate:.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


def format_duration(seconds: float) -> str:
    """Format the duration, rounded: "5 s", "3 min", "2 h 10 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _show_progress_bars() -> Iterator[OnProgress]:
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

        def on_progress(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=None, count="", speed="", left="")
            total = "" if progress.total is None else f"/{progress.total}"
            failed = f", {progress.failed} failed" if progress.failed else ""
            chunks = f", {format_count(progress.chunks, 'chunk')}" if progress.chunks else ""
            bars.update(
                tasks[progress.stage],
                completed=progress.done,
                total=progress.total,
                count=f"{progress.done}{total} {progress.unit}{chunks}{failed}",
                speed=format_rate(progress.rate) if progress.rate else "",
                left=f"{format_duration(progress.seconds_left)} left" if progress.seconds_left else "",
            )

        yield on_progress
