"""The dates of a WhatsApp text, which are written as the phone was set: the file as a whole says in which order.

A year of four digits, or a number over 31, stands first or last by itself. Between day and month, a number over 12
decides. Where there is none, the order in which the file runs forward in time more often is taken, since a chat is
written from old to new. Where both run alike, the form decides: a 12-hour clock with slashes is taken as month first
(as in the United States), all others as day first.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

_MORNING = frozenset({"am", "오전", "上午", "午前"})
_AFTERNOON = frozenset({"pm", "오후", "下午", "午後"})
_HALF = r"[AaPp]\.?\s?[Mm]\.?|오전|오후|上午|下午|午前|午後"
_DATE = r"(\d{1,4})\s?[./-]\s?(\d{1,2})\s?[./-]\s?(\d{1,4})\.?"
_TIME = rf"(?:({_HALF})\s?)?(\d{{1,2}})[:.](\d{{2}})(?:[:.](\d{{2}}))?(?:\s?({_HALF}))?"
_BETWEEN = r"(?:[,،]\s?|\s)(?:(?:klo|à|um|at|kl\.)\s)?"
HEADER = re.compile(rf"(\[)?({_DATE})({_BETWEEN}){_TIME}(?(1)\]\s?|\s[-–—]\s)")
_ORDERS = {"day first": (2, 1, 0), "month first": (2, 0, 1), "year first": (0, 1, 2)}


@dataclass(frozen=True, slots=True)
class Written:
    """A date and a time as they were written."""

    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half: str = ""
    slashes: bool = False
    is_list: bool = False  # with a comma or in brackets without the form of a log

    def moment(self, order: str) -> datetime | None:
        """The moment in UTC when the date is read in an order; None where there is no such day or time."""
        year, month, day = (self.date[place] for place in _ORDERS[order])
        hour, minute, second = self.clock
        if self.half:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if self.half in _AFTERNOON else 0)
        try:
            return datetime(year + 2000 if year < 100 else year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None


def written(match: re.Match[str]) -> Written:
    """What a match of HEADER says."""
    bracket, date, first, second, third, between, before, hour, minute, seconds, after = match.groups()
    half = re.sub(r"[.\s]", "", before or after or "").lower()
    is_iso = len(first) == 4 and "-" in date
    # A line of a log has its time in another form: a year first and dashes without a comma, or seconds before a dash.
    is_list = "," in between or "،" in between or (not is_iso and bool(bracket or not seconds))
    return Written(
        (int(first), int(second), int(third)),
        (int(hour), int(minute), int(seconds or 0)),
        half,
        "/" in date,
        is_list,
    )


def order_of(dates: Sequence[Written]) -> tuple[str, bool]:
    """The order of day, month and year in a file, and whether it was found in the dates rather than assumed."""
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
    steps = {order: _backward(dates, order) for order in ("day first", "month first")}
    if steps["day first"] != steps["month first"]:
        return min(steps, key=lambda order: steps[order]), True
    american = bool(dates) and all(each.half and each.slashes for each in dates)
    return ("month first" if american else "day first"), False


def _backward(dates: Sequence[Written], order: str) -> int:
    """How often the file steps back in time when it is read in this order."""
    moments = [each.moment(order) for each in dates]
    return sum(later is None or earlier is None or later < earlier for earlier, later in pairwise(moments))
