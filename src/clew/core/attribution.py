"""Who said it and when: how a message is named wherever it is shown to a person or a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clew.core.time import assume_utc

REPLY = "↪"
GUESSED_REPLY = "↪?"  # where nobody marked it as a reply
UNDATED = "undated"
TIME_PATTERN = rf"(?:\d{{4}}-\d\d-\d\d \d\d:\d\d|{UNDATED})"


@dataclass(frozen=True, slots=True)
class PassageMessage:
    """A message in a passage: who wrote it, when, and as much of its text as the passage has.

    `reply_to` is the id of the message that it answers; `guessed`: that was inferred, not marked by the author. `gap`
    is the mark of messages left out before it.
    """

    id: str
    text: str
    author: str = ""
    at: datetime | None = None
    channel: str = ""
    reply_to: str | None = None
    guessed: bool = False
    gap: str = ""


def make_passage_message(
    meta: Mapping[str, Any], at: datetime | None, text: str, *, gap: str = ""
) -> PassageMessage | None:
    """The message of a chunk by its metadata and time; None where the chunk is not one of a message."""
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
    """Who and when on one line: `ana, 2026-03-10 09:30`, the time in UTC; empty where neither is known."""
    name = " ".join(author.split())
    when = f"{assume_utc(at).astimezone(UTC):%Y-%m-%d %H:%M}" if at else UNDATED if name else ""
    return ", ".join(filter(None, (name, when)))


def format_reply_mark(*, is_reply: bool, guessed: bool) -> str:
    """The arrow before a reply with the space after it, with a question mark if it was guessed; empty for no reply."""
    return f"{GUESSED_REPLY if guessed else REPLY} " if is_reply else ""


def format_said(author: str, at: datetime | None, text: str) -> str:
    """The text of a message after who wrote it and when."""
    named = format_attribution(author, at)
    return f"{named}: {text}" if named else text
