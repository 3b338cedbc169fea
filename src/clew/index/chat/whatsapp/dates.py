"""Dates in a WhatsApp text, which depend on the settings of the phone: their order is detected from the whole file.

A year of four digits, or a number over 31, can only be first or last. Between day and month, a number over 12 decides.
If there is none, the order with fewer steps back in time is taken, since a chat runs from old to new. If both have as
many, the format decides: a 12-hour clock with slashes means month first (as in the United States), else day first.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

_MORNING = frozenset({"am", "오전", "上午", "午前"})
_AFTERNOON = frozenset({"pm", "오후", "下午", "午後"})
_HALF_OF_DAY = r"[AaPp]\.?\s?[Mm]\.?|오전|오후|上午|下午|午前|午後"
_DATE = r"(\d{1,4})\s?[./-]\s?(\d{1,2})\s?[./-]\s?(\d{1,4})\.?"
_TIME = rf"(?:({_HALF_OF_DAY})\s?)?(\d{{1,2}})[:.](\d{{2}})(?:[:.](\d{{2}}))?(?:\s?({_HALF_OF_DAY}))?"
_SEPARATOR = r"(?:[,،]\s?|\s)(?:(?:klo|à|um|at|kl\.)\s)?"
HEADER = re.compile(rf"(\[)?({_DATE})({_SEPARATOR}){_TIME}(?(1)\]\s?|\s[-–—]\s)")
_ORDERS = {"day first": (2, 1, 0), "month first": (2, 0, 1), "year first": (0, 1, 2)}


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A date and a time as written, before the order of day, month and year is known."""

    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half_of_day: str = ""
    has_slashes: bool = False
    is_chat_style: bool = False  # with a comma or in brackets, not as in a log file

    def to_datetime(self, order: str) -> datetime | None:
        """The time in UTC when the date is read in this order; None if there is no such day or time."""
        year, month, day = (self.date[place] for place in _ORDERS[order])
        hour, minute, second = self.clock
        if self.half_of_day:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if self.half_of_day in _AFTERNOON else 0)
        try:
            return datetime(year + 2000 if year < 100 else year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None


def parse_date_header(match: re.Match[str]) -> WrittenDate:
    """The date and time of a match of HEADER."""
    bracket, date, first, second, third, between, before, hour, minute, seconds, after = match.groups()
    half = re.sub(r"[.\s]", "", before or after or "").lower()
    is_iso = len(first) == 4 and "-" in date
    # A log file has another format: a year first and dashes without a comma, or seconds before a dash.
    is_list = "," in between or "،" in between or (not is_iso and bool(bracket or not seconds))
    return WrittenDate(
        (int(first), int(second), int(third)),
        (int(hour), int(minute), int(seconds or 0)),
        half,
        "/" in date,
        is_list,
    )


def detect_date_order(dates: Sequence[WrittenDate]) -> tuple[str, bool]:
    """The order of day, month and year in a file, and whether it was detected rather than assumed."""
    votes: Counter[str] = Counter()
    for each in dates:
        first, second, _ = each.date
        if first > 31:
            votes["year first"] += 1
        elif first > 12:
            votes["day first"] += 1
        elif second > 12:
            votes["month first"] += 1
    if votes:
        return max(_ORDERS, key=lambda order: votes[order]), True
    steps = {order: _count_backward_steps(dates, order) for order in ("day first", "month first")}
    if steps["day first"] != steps["month first"]:
        return min(steps, key=lambda order: steps[order]), True
    american = bool(dates) and all(each.half_of_day and each.has_slashes for each in dates)
    return ("month first" if american else "day first"), False


def _count_backward_steps(dates: Sequence[WrittenDate], order: str) -> int:
    """How often time runs backward in the file when its dates are read in this order."""
    moments = [each.to_datetime(order) for each in dates]
    return sum(later is None or earlier is None or later < earlier for earlier, later in pairwise(moments))
