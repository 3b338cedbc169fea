"""Attributions: the author and time of a message, as shown to people and models."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clew.core.patterns import compile_pattern
from clew.core.time import assume_utc
from clew.core.unicode import fold_look

REPLY = "↪"
GUESSED_REPLY = "↪?"  # an inferred reply, not marked by the author
UNDATED = "undated"
_GAP = r"[^\S\n]*"
TIME_PATTERN = (  # matches text folded by `fold_look`
    rf"(?:\d{{4}}{_GAP}-{_GAP}\d\d{_GAP}-{_GAP}\d\d{_GAP}T?{_GAP}\d\d{_GAP}:{_GAP}\d\d{_GAP}(?:Z|UTC)?"
    rf"{_GAP}(?!{_GAP}:\d\d(?!\d))|{UNDATED}){_GAP}"  # a time with seconds comes from a log
)
_FORGED = compile_pattern(rf"{TIME_PATTERN}|{REPLY}|^\[\s*\d+\s*\]|\(\s*source\s*:|-{{3,}}", re.IGNORECASE)
_SIGNS = f",:;()[]{REPLY}\u201a"


@dataclass(frozen=True, slots=True)
class PassageMessage:
    """A message in a passage: its author, time, and the part of its text in the passage.

    `reply_to` is the id of the message that it answers; `guessed`: inferred, not marked by the author. `gap` is the
    mark for messages omitted before it.
    """

    id: str
    text: str
    author: str = ""
    at: datetime | None = None
    channel: str = ""
    reply_to: str | None = None
    guessed: bool = False
    gap: str = ""

    @property
    def reply_mark(self) -> str:
        """The arrow and space before a reply; empty if the message is no reply."""
        return format_reply_mark(is_reply=self.reply_to is not None, guessed=self.guessed)


def format_name(name: object) -> str:
    """Format a name on one line; replace its punctuation by dots if it imitates the attribution of another message."""
    line = " ".join(str(name).split())
    look = fold_look(line)
    if not _FORGED.search(look):
        return line
    signs = f"{_SIGNS}-" if "---" in look else _SIGNS
    return "".join("·" if any(map(signs.__contains__, fold_look(char))) else char for char in line)


def make_passage_message(
    meta: Mapping[str, Any], at: datetime | None, text: str, *, gap: str = ""
) -> PassageMessage | None:
    """Make the message of a chunk from its metadata and time; None if the chunk is not from a message."""
    if not meta.get("message"):
        return None
    reply_to = meta.get("reply_to")
    return PassageMessage(
        id=str(meta["message"]),
        text=text,
        author=str(meta.get("author") or ""),
        at=at,
        channel=str(meta.get("channel") or ""),
        reply_to=str(reply_to) if reply_to else None,
        guessed=bool(reply_to and meta.get("guessed")),
        gap=gap,
    )


def format_attribution(author: str, at: datetime | None) -> str:
    """Format author and time (UTC) on one line: `ana, 2026-03-10 09:30`; empty if neither is known."""
    name = format_name(author)
    when = f"{assume_utc(at).astimezone(UTC):%Y-%m-%d %H:%M}" if at else UNDATED if name else ""
    return ", ".join(filter(None, (name, when)))


def format_reply_mark(*, is_reply: bool, guessed: bool) -> str:
    """Format the arrow and space before a reply, with a question mark if it was guessed; empty if it is no reply."""
    return f"{GUESSED_REPLY if guessed else REPLY} " if is_reply else ""


def format_said(author: str, at: datetime | None, text: str) -> str:
    """Format a message as `author, time: text`."""
    named = format_attribution(author, at)
    return f"{named}: {text}" if named else text
