"""Messages of any source as lines of JSON, the plain door: one object a line, with the fields of a Message.

Every line is checked before the first message is given, so that a file with a mistake adds nothing. The lines are then
read again, one channel at a time.
"""

import json
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat.tidy import EMPTY, REPEATED, Notes, from_epoch, from_iso, in_order, name_of, tidy, words
from clew.index.chat.tree import Part

FIELDS = ("text", "author", "at", "id", "channel", "reply_to", "role")
NO_CHANNEL = "All messages must have channelId"
MAX_LINE = 10_000_000  # bytes


def is_jsonl(part: Part) -> bool:
    """Whether the first object of a file has a text, and says who, when or where."""
    with part.open() as file:
        for line in iter(lambda: file.readline(MAX_LINE), b""):
            if line.strip():
                try:
                    first = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
                except (ValueError, RecursionError):
                    return False
                return isinstance(first, dict) and "text" in first and bool({"author", "at", "channel"} & first.keys())
    return False


def jsonl(part: Part, notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """Each channel with its messages, in the order in which they are first named; of two with one id the last."""
    places: dict[str, array[int]] = {}
    seen: dict[int, tuple[str, int]] = {}  # of an id: its channel, and where it stands in the places of that
    with part.open() as file:
        start = 0
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if line.strip():
                message = _message(line, number, part, Notes())
                channel, at = seen.get(hash(message.id), ("", -1))
                is_repeated = at >= 0 and _is_given(line)
                if is_repeated and channel != message.channel:
                    hint = f"give each an id of its own, such as {message.channel}/{message.id}"
                    raise _wrong(part, number, f"has the id {message.id}, as a message of #{channel} has; {hint}")
                notes.note(REPEATED, is_repeated)
                notes.note(EMPTY, not message.text and not is_repeated)
                if message.text and is_repeated:
                    places[channel][at : at + 2] = array("q", (start, number))
                elif message.text:
                    own = places.setdefault(message.channel, array("q"))
                    seen[hash(message.id)] = (message.channel, len(own))
                    own.extend((start, number))
            start += len(line)
        for channel, starts in places.items():
            yield channel, in_order(_channel(part, starts, notes))


def _channel(part: Part, places: "array[int]", notes: Notes) -> Iterator[Message]:
    """The messages at the places; those with neither an id nor a difference are told apart by their order."""
    made: dict[str, int] = {}
    with part.open() as file:
        for start, number in zip(places[::2], places[1::2], strict=True):
            file.seek(start)
            line = file.readline(MAX_LINE + 1)
            message = _message(line, number, part, notes)
            nth = made[message.id] = made.get(message.id, 0) + 1
            yield message if nth == 1 else replace(message, id=f"{message.id}.{nth}")


def _is_given(line: bytes) -> bool:
    """Whether the line names its own id."""
    return bool(name_of(json.loads(line.removeprefix(b"\xef\xbb\xbf")).get("id")))


def _message(line: bytes, number: int, part: Part, notes: Notes) -> Message:
    """The message of a line, or a SourceError that names the line and what is wrong with it."""
    row = _row(line, number, part)
    unknown = sorted(row.keys() - set(FIELDS))
    if unknown:
        raise _wrong(part, number, f"has {', '.join(unknown[:5])}; a message has {', '.join(FIELDS)}")
    if not isinstance(row.get("text"), str):
        raise _wrong(part, number, "has no text")
    for key in ("author", "channel", "role"):
        if not isinstance(row.get(key), str | None):
            raise _wrong(part, number, f"has a {key} that is not a text")
    for key in ("id", "reply_to"):
        if not isinstance(row.get(key), str | int | None) or isinstance(row.get(key), bool):
            raise _wrong(part, number, f"gives {key} as neither a text nor a number")
    if not name_of(row.get("channel")):
        raise SourceError(part.uri, f"{NO_CHANNEL}: line {number:,} has no channel")
    given = row.get("at")
    at = from_iso(given, notes) or from_epoch(given) if given not in (None, "") else None
    if at is None and given not in (None, ""):
        raise _wrong(part, number, f"has a time that cannot be read ({str(given)[:40]}); give ISO 8601 or seconds")
    return Message(
        tidy(row["text"]),
        author=name_of(row.get("author")),
        at=at,
        id=name_of(row.get("id")),
        channel=name_of(row["channel"]),
        reply_to=name_of(row.get("reply_to")) or None,
        role=words(row.get("role")) or "user",
    )


def _row(line: bytes, number: int, part: Part) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise _wrong(part, number, f"is longer than {MAX_LINE:,} bytes")
    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise _wrong(part, number, "is not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        ended = "" if line.endswith(b"\n") else " and the file ends there: it may be cut short"
        raise _wrong(part, number, f"is not JSON that can be read{ended}") from error
    if not isinstance(row, dict):
        raise _wrong(part, number, "is not an object")
    return row


def _wrong(part: Part, number: int, what: str) -> SourceError:
    return SourceError(part.uri, f"line {number:,} {what}")
