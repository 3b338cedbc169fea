"""Times: a time without a zone is UTC, everywhere; ISO 8601 in both directions, and timestamps.

Readers of foreign formats (chat exports, front matter, tables) parse dates by themselves and end here.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
EARLIEST = datetime.min.replace(tzinfo=UTC)


def assume_utc(at: datetime) -> datetime:
    """The time itself if it has a zone, else the same time in UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@overload
def to_timestamp(at: datetime) -> float: ...
@overload
def to_timestamp(at: datetime | None) -> float | None: ...
def to_timestamp(at: datetime | None) -> float | None:
    """Seconds since 1970; a time without a zone is UTC."""
    return None if at is None else assume_utc(at).timestamp()


def to_iso(at: datetime | None) -> str | None:
    """The time as ISO 8601, with its zone if it has one."""
    return at.isoformat() if at else None


def from_iso(text: str | None) -> datetime | None:
    """The time that `to_iso` wrote, without a zone if it had none; ValueError if the text is not ISO 8601."""
    return datetime.fromisoformat(text) if text else None


def parse_iso_or_none(text: str) -> datetime | None:
    """The time of an ISO 8601 text, UTC if it names no zone; None if it is not one."""
    try:
        return assume_utc(datetime.fromisoformat(text.strip()))
    except ValueError:
        return None


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """The time that people type: ISO 8601, "today", "yesterday", or how long ago, as in 7d, 12h, 30m, 2w.

    ValueError if it is none of these.
    """
    now, said = now or datetime.now(UTC), text.strip().lower()
    if said in ("now", "today", "yesterday"):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}[said]
    if ago := re.fullmatch(r"(\d{1,5})\s*([mhdw])(?:\s*ago)?", said):
        return now - int(ago[1]) * _UNITS[ago[2]]
    return datetime.fromisoformat(text)
