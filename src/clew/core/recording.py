"""Times in a recording: when each part of a transcript was said, and how a second is written."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

TIMES = "times"  # in the meta of a document or chunk: pairs of a position in its text and a second, in order

Times = Sequence[Sequence[float]]


def get_times(meta: Mapping[str, Any]) -> Times:
    """The times in the meta of a document or a chunk; none if it is not a transcript."""
    times = meta.get(TIMES)
    return times if isinstance(times, list | tuple) else ()


def select_times(times: Times, start: int, end: int) -> list[list[float]]:
    """The times of a span, by the positions in it; it begins with what was being said at its start."""
    first = max(0, bisect_right(times, start, key=_get_position) - 1)
    return [[max(0, int(at) - start), second] for at, second in times[first:] if at < end]


def find_second(times: Times, position: int) -> int | None:
    """The second at which what stands at a position begins to be said; None if there are no times."""
    place = bisect_right(times, position, key=_get_position)
    return int(times[max(0, place - 1)][1]) if times else None


def format_seconds(seconds: float) -> str:
    """A second of a recording as hours, minutes and seconds: 00:01:23."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"


def _get_position(pair: Sequence[float]) -> int:
    return int(pair[0])
