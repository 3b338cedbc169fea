"""Times: ISO 8601 in both directions, and timestamps. A time without a zone is UTC, everywhere.

Readers of foreign formats (chat exports, front matter, tables) parse dates themselves and then use these functions.
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
    """Return the time with its zone, or with UTC if it has none."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@overload
def to_timestamp(at: datetime) -> float: ...
@overload
def to_timestamp(at: datetime | None) -> float | None: ...
def to_timestamp(at: datetime | None) -> float | None:
    """Return seconds since 1970; a time without a zone is UTC."""
    return None if at is None else assume_utc(at).timestamp()


def to_iso(at: datetime | None) -> str | None:
    """Write the time as ISO 8601, with its zone if it has one."""
    return at.isoformat() if at else None


def from_iso(text: str | None) -> datetime | None:
    """Parse a time written by `to_iso`, adding no zone; ValueError if the text is not ISO 8601."""
    return datetime.fromisoformat(text) if text else None


def parse_iso_or_none(text: str) -> datetime | None:
    """Parse an ISO 8601 time, in UTC if it names no zone; None if the text is not ISO 8601."""
    try:
        return assume_utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        return None


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Parse a typed time: ISO 8601, "now", "today", "yesterday", or an age (7d, 12h, 30m, 2w); else ValueError."""
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
    """Return the times in the meta of a document or chunk; empty if it is not a transcript."""
    times = meta.get(TIMES)
    return times if isinstance(times, list | tuple) else ()


def select_times(times: Times, start: int, end: int) -> list[list[float]]:
    """Select the times of a span, relative to its start. The first may come from speech that began before the span."""
    first = max(0, bisect_right(times, start, key=_get_position) - 1)
    return [[max(0, int(at) - start), second] for at, second in times[first:] if at < end]


def find_second(times: Times, position: int) -> int | None:
    """Find the second of a recording at which the text at a position is spoken; None if the text has no times."""
    place = bisect_right(times, position, key=_get_position)
    return int(times[max(0, place - 1)][1]) if times else None


def format_seconds(seconds: float) -> str:
    """Format a second of a recording as hours, minutes and seconds: 00:01:23."""
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"


def _get_position(pair: Sequence[float]) -> int:
    return int(pair[0])
