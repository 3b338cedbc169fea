"""Times: a time without a zone is UTC, everywhere; ISO 8601 in both directions, and timestamps.

Readers of foreign formats (chat exports, front matter, tables) parse dates by themselves and end here.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
EARLIEST = datetime.min.replace(tzinfo=UTC)


def assume_utc(at: datetime) -> datetime:
    """Return the time itself if it has a zone, else the same time in UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@overload
def to_timestamp(at: datetime) -> float: ...
@overload
def to_timestamp(at: datetime | None) -> float | None: ...
def to_timestamp(at: datetime | None) -> float | None:
    """Return the seconds since 1970; a time without a zone is UTC."""
    return None if at is None else assume_utc(at).timestamp()


def to_iso(at: datetime | None) -> str | None:
    """Write the time as ISO 8601, with its zone if it has one."""
    return at.isoformat() if at else None


def from_iso(text: str | None) -> datetime | None:
    """Read the time that `to_iso` wrote, without a zone if it had none; ValueError if the text is not ISO 8601."""
    return datetime.fromisoformat(text) if text else None


def parse_iso_or_none(text: str) -> datetime | None:
    """Parse a time from an ISO 8601 text, UTC if it names no zone; None if it is not one."""
    try:
        return assume_utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        return None


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Parse a time that people type: ISO 8601, "today", "yesterday", or how long ago, as in 7d, 12h, 30m, 2w.

    ValueError if it is none of these.
    """
    now, said = now or datetime.now(UTC), text.strip().lower()
    if said in ("now", "today", "yesterday"):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}[said]
    if ago := re.fullmatch(r"(\d{1,5})\s*([mhdw])(?:\s*ago)?", said):
        return now - int(ago[1]) * _UNITS[ago[2]]
    return datetime.fromisoformat(text)


TIMES = "times"  # in the meta of a document or chunk: pairs of a position in its text and a second, in order

Times = Sequence[Sequence[float]]


def get_times(meta: Mapping[str, Any]) -> Times:
    """Return the times in the meta of a document or a chunk; none if it is not a transcript."""
    times = meta.get(TIMES)
    return times if isinstance(times, list | tuple) else ()


def select_times(times: Times, start: int, end: int) -> list[list[float]]:
    """Select the times of a span, by the positions in it; it begins with what was being said at its start."""
    first = max(0, bisect_right(times, start, key=_get_position) - 1)
    return [[max(0, int(at) - start), second] for at, second in times[first:] if at < end]


def find_second(times: Times, position: int) -> int | None:
    """Find the second at which what stands at a position begins to be said; None if there are no times."""
    place = bisect_right(times, position, key=_get_position)
    return int(times[max(0, place - 1)][1]) if times else None


def format_seconds(seconds: float) -> str:
    """Format a second of a recording as hours, minutes and seconds: 00:01:23."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"


def _get_position(pair: Sequence[float]) -> int:
    return int(pair[0])
