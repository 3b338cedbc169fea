"""Normalisation shared by the readers of chat exports: field types, timestamps, texts, names and message order."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from clew.core.errors import SourceError
from clew.core.suggest import format_count
from clew.core.time import assume_utc
from clew.core.types import Message

EMPTY = "messages without text"
DELETED = "deleted messages"
NOTICES = "service notices (joins, leaves, topics, calls)"
MEDIA = "media files not in the export"
REPEATED = "duplicate messages"
REPLACED = "messages with the id of an earlier one (which they replace)"
UNREADABLE = "entries that are not messages"
EDITED = "edited messages (last version kept)"
UTC_ASSUMED = "timestamps without a time zone (assumed UTC)"
UNDATED = "messages without a readable timestamp"
PRIVATE = "private channels"
DIRECT = "direct conversations"
UNLISTED = "channels that no table lists (no members known)"
_RESTRICTED = (PRIVATE, DIRECT, UNLISTED)
_FOR_ONE = {
    EMPTY: "message without text",
    DELETED: "deleted message",
    NOTICES: "service notice (a join, leave, topic or call)",
    MEDIA: "media file not in the export",
    REPEATED: "duplicate message",
    REPLACED: "message with the id of an earlier one (which it replaces)",
    UNREADABLE: "entry that is not a message",
    EDITED: "edited message (last version kept)",
    UTC_ASSUMED: "timestamp without a time zone (assumed UTC)",
    UNDATED: "message without a readable timestamp",
    PRIVATE: "private channel",
    DIRECT: "direct conversation",
    UNLISTED: "channel that no table lists (no members known)",
}
MAX_FAILURES = 20  # failures of an export reported one by one


class ExportNotes(Counter[str]):
    """Counts of skipped and assumed parts of an export, and the failures of unreadable parts."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[SourceError] = []
        self.unlisted_failures = 0

    def clear(self) -> None:
        """Remove all counts and failures."""
        super().clear()
        self.failures.clear()
        self.unlisted_failures = 0

    def add_failure(self, error: SourceError) -> None:
        """Keep a failure; beyond MAX_FAILURES only count it."""
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(error)
        else:
            self.unlisted_failures += 1

    def describe(self) -> str:
        """Describe the skipped and assumed parts, as in `2 deleted messages; 1 message without text`."""
        return "; ".join(self._format_counts(what for what in sorted(self) if what not in _RESTRICTED))

    def describe_restricted(self) -> str:
        """Describe the channels restricted to members, as in `1 private channel, 2 direct conversations`."""
        return ", ".join(self._format_counts(what for what in _RESTRICTED if what in self))

    def _format_counts(self, events: Iterable[str]) -> list[str]:
        return [format_count(self[what], _FOR_ONE.get(what, what), what) for what in events]

    def count_event(self, event: str, condition: object = True) -> None:
        """Count the event if the condition holds."""
        if condition:
            self[event] += 1


_NEWLINE = re.compile(r"\r\n?|[\u2028\u2029]")
_CONTROL_CHARACTERS = dict.fromkeys([*range(0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0xFFFE, 0xFFFF, 0xFEFF])
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
_DIGITS = re.compile(r"\d+")
_MIN_MILLISECONDS = 100_000_000_000  # larger timestamps are milliseconds: in seconds this is after the year 5100


def clean_message_text(text: str) -> str:
    """Strip the text, remove control characters and lone surrogates, and normalise line endings."""
    if text.isprintable():  # the usual case: one line without special characters
        return text.strip()
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _NEWLINE.sub("\n", text).translate(_CONTROL_CHARACTERS)
    return _BLANK_LINES.sub("\n\n", text).strip()


def pick_first_name(*values: object) -> str:
    """Pick the first value that is a non-empty text or a number, on one line; empty if none is."""
    for value in values:
        if isinstance(value, str) and (name := " ".join(clean_message_text(value).split())):
            return name
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def as_text_or_empty(value: object) -> str:
    """Return the value if it is a text, else an empty text: exports may violate their format."""
    return value if isinstance(value, str) else ""


def as_object_or_empty(value: object) -> Mapping[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_object_list(value: object) -> list[Mapping[str, Any]]:
    """Return the JSON objects in the value if it is a list, else none."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def parse_epoch_time(value: object) -> datetime | None:
    """Parse a Unix timestamp in seconds or milliseconds; None if it is not one."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        if math.isnan(seconds):
            return None
        return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= _MIN_MILLISECONDS else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def parse_iso_time(value: object, notes: ExportNotes) -> datetime | None:
    """Parse an ISO 8601 time; None if it is not one. Without a time zone assume UTC and note that."""
    try:
        moment = datetime.fromisoformat(as_text_or_empty(value).strip())
        return ensure_time_zone(moment, notes).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def ensure_time_zone(moment: datetime, notes: ExportNotes) -> datetime:
    """Return the time with a time zone; if it has none, assume UTC and note that."""
    if moment.tzinfo is not None:
        return moment
    notes.count_event(UTC_ASSUMED)
    return assume_utc(moment)


def make_natural_sort_key(name: str) -> str:
    """Make a sort key that puts 9 before 10."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(20), name)


def sort_messages_by_time(messages: Iterable[Message]) -> list[Message]:
    """Sort messages by time, then by id; one without a time stays after its predecessor."""
    keyed: list[tuple[tuple[float, str, int], Message]] = []
    moment, name, behind = -math.inf, "", 0
    for message in messages:
        if message.at is None:
            behind += 1
        else:
            moment, name, behind = message.at.timestamp(), make_natural_sort_key(message.id), 0
        keyed.append(((moment, name, behind), message))
    keyed.sort(key=lambda pair: pair[0])
    return [message for _, message in keyed]


def disambiguate_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names by id, appending the id to a name that several ids share."""
    shared = Counter(names.values())
    return {key: f"{name} ({key})" if shared[name] > 1 else name for key, name in names.items()}


def format_attachment_placeholder(kind: str, name: str) -> str:
    """Format the placeholder of an attachment, such as [file: plan.pdf]."""
    return f"[{kind}: {name}]" if name else f"[{kind}]"


def join_nonempty_lines(*texts: str) -> str:
    """Join the non-empty texts, one per line."""
    return "\n".join(text for text in map(str.strip, texts) if text)
