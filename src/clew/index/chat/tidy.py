"""What the readers of chat share: times made aware, texts made plain, and messages put into the order of time."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from clew.core.types import Message

EMPTY = "messages without text"
DELETED = "deleted messages"
NOTICES = "notices: joins, leaves, topics, calls and the like"
MEDIA = "media that the export left out"
REPEATED = "messages that came twice"
UNREADABLE = "entries that are no message"
EDITED = "edited messages, with their last text"
UTC_ASSUMED = "times without a zone, taken as UTC"
UNDATED = "messages without a time that can be read"


class Notes(Counter[str]):
    """What was left out or assumed, and how often."""

    def note(self, what: str, when: object = True) -> None:
        """Counts it where it is so."""
        if when:
            self[what] += 1


_NEWLINE = re.compile(r"\r\n?|[\u2028\u2029]")
_CONTROLS = dict.fromkeys([*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0xFFFE, 0xFFFF, 0xFEFF])
_BLANKS = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
_DIGITS = re.compile(r"\d+")
_MS = 100_000_000_000  # a larger number counts milliseconds: as seconds it is after the year 5100


def tidy(text: str) -> str:
    """The text without control characters and halves of characters, its lines ended alike, the ends trimmed."""
    if text.isprintable():  # as most are: one line without anything odd
        return text.strip()
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _NEWLINE.sub("\n", text).translate(_CONTROLS)
    return _BLANKS.sub("\n\n", text).strip()


def name_of(*values: object) -> str:
    """The first of the values that is a name, on one line; empty where none is."""
    for value in values:
        if isinstance(value, str) and (name := " ".join(tidy(value).split())):
            return name
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def words(value: object) -> str:
    """The value where it is a text, else nothing: what an export holds need not be what its format says."""
    return value if isinstance(value, str) else ""


def table(value: object) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Mapping[str, Any]]:
    """The objects of the value where it is a list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def from_epoch(value: object) -> datetime | None:
    """The moment that a count of seconds or milliseconds names; None where it names none."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        if math.isnan(seconds):
            return None
        return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= _MS else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def from_iso(value: object, notes: Notes) -> datetime | None:
    """The moment that an ISO text names; one without a zone is taken as UTC and noted."""
    try:
        moment = datetime.fromisoformat(words(value).strip())
        return aware(moment, notes).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def aware(moment: datetime, notes: Notes) -> datetime:
    """The moment with a zone: UTC where it has none, which is noted."""
    if moment.tzinfo is not None:
        return moment
    notes.note(UTC_ASSUMED)
    return moment.replace(tzinfo=UTC)


def natural(name: str) -> str:
    """A key that puts 9 before 10."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(20), name)


def in_order(messages: Iterable[Message]) -> list[Message]:
    """The messages by time, then by id; one without a time stays behind the one it was written after."""
    keyed: list[tuple[tuple[float, str, int], Message]] = []
    moment, name, behind = -math.inf, "", 0
    for message in messages:
        if message.at is None:
            behind += 1
        else:
            moment, name, behind = message.at.timestamp(), natural(message.id), 0
        keyed.append(((moment, name, behind), message))
    keyed.sort(key=lambda pair: pair[0])
    return [message for _, message in keyed]


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """A name for each id; where several ids share one, each is followed by its id."""
    shared = Counter(names.values())
    return {key: f"{name} ({key})" if shared[name] > 1 else name for key, name in names.items()}


def bracketed(kind: str, name: str) -> str:
    """An attachment as it stands in a text."""
    return f"[{kind}: {name}]" if name else f"[{kind}]"


def lines(*texts: str) -> str:
    """The texts that say something, one below the other."""
    return "\n".join(text for text in map(str.strip, texts) if text)
