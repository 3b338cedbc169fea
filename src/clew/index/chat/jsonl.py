"""The generic import of messages: JSON Lines, one object per line, with the fields of a Message.

All lines are validated before the first message is yielded. A line that is not a message is reported, and the others
are read again, one channel at a time.
"""

import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import IO, Any

from clew.core.errors import SourceError
from clew.core.thread import fill_in_message
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile

TIME_FIELDS = ("at", "timestamp", "ts", "time", "created_at", "date")  # accepted names of the time field
FIELDS = ("text", "author", "at", "id", "channel", "reply_to", "role", "access")
NO_CHANNEL = "All messages must have channelId"
MAX_LINE_BYTES = 10_000_000
MAX_FIRST_LINES = 10  # searched for a valid object: some may be damaged


def is_jsonl_export(file: ExportFile) -> bool:
    """Return whether the first valid object of a file has a text and an author, a time or a channel."""
    with file.open() as stream:
        for line in islice(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), MAX_FIRST_LINES):
            if line.strip():
                try:
                    first = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
                except (ValueError, RecursionError):
                    continue
                known = {"author", "channel", *TIME_FIELDS}
                return isinstance(first, dict) and "text" in first and not known.isdisjoint(first)
    return False


def read_jsonl_export(file: ExportFile, notes: n.ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """Yield each channel with its messages, in order of first appearance.

    If several messages have the same id, the last one counts; fields that it lacks come from the earlier ones.
    """
    places: dict[str, array[int]] = {}
    earlier: dict[
        int, list[tuple[int, int]]
    ] = {}  # by the start of the last version: the places of the earlier versions, latest first
    seen: dict[int, tuple[str, int]] = {}  # by the hash of an id: its channel, and its index in the channel's places
    with file.open() as stream:
        start = 0
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1):
            line_start, start = start, start + len(line)
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                start += _skip_line(stream)
            if not line.strip():
                continue
            try:
                message = _parse_message(line, number, file, n.ExportNotes())
                channel, at = seen.get(hash(message.id), ("", -1))
                is_repeated = at >= 0 and _has_own_id(line)
                if is_repeated and channel != message.channel:
                    hint = f"give each an id of its own, such as {message.channel}/{message.id}"
                    raise _make_line_error(
                        file, number, f"has the id {message.id}, which a message of #{channel} has too; {hint}"
                    )
            except SourceError as error:
                notes.add_failure(error)
                continue
            notes.count_event(n.REPLACED, is_repeated)
            notes.count_event(n.EMPTY, not message.text and not is_repeated)
            if message.text and is_repeated:
                before = (places[channel][at], places[channel][at + 1])
                earlier[line_start] = [before, *earlier.pop(before[0], [])]
                places[channel][at : at + 2] = array("q", (line_start, number))
            elif message.text:
                own = places.setdefault(message.channel, array("q"))
                seen[hash(message.id)] = (message.channel, len(own))
                own.extend((line_start, number))
        for channel, starts in places.items():
            yield channel, n.sort_messages_by_time(_read_channel_messages(file, starts, earlier, notes))


def _skip_line(stream: IO[bytes]) -> int:
    """Skip the rest of a line that is too long; return the number of bytes skipped."""
    skipped = 0
    while part := stream.readline(MAX_LINE_BYTES):
        skipped += len(part)
        if part.endswith(b"\n"):
            break
    return skipped


def _read_channel_messages(
    file: ExportFile, places: "array[int]", earlier: Mapping[int, list[tuple[int, int]]], notes: n.ExportNotes
) -> Iterator[Message]:
    """Yield the messages at the places; append a number to the derived id of equal messages."""
    made: dict[str, int] = {}
    with file.open() as stream:
        for start, number in zip(places[::2], places[1::2], strict=True):
            message = _read_message(stream, start, number, file, notes)
            for old_start, old_number in earlier.get(start, ()):
                old = _read_message(stream, old_start, old_number, file, n.ExportNotes())
                message = fill_in_message(message, old)
            nth = made[message.id] = made.get(message.id, 0) + 1
            yield message if nth == 1 else replace(message, id=f"{message.id}.{nth}")


def _read_message(stream: IO[bytes], start: int, number: int, file: ExportFile, notes: n.ExportNotes) -> Message:
    stream.seek(start)
    return _parse_message(stream.readline(MAX_LINE_BYTES + 1), number, file, notes)


def _has_own_id(line: bytes) -> bool:
    return bool(n.pick_first_name(json.loads(line.removeprefix(b"\xef\xbb\xbf")).get("id")))


def _parse_message(line: bytes, number: int, file: ExportFile, notes: n.ExportNotes) -> Message:
    """Parse the message of a line; raise SourceError with the line number and the problem."""
    row = _parse_json_line(line, number, file)
    unknown = sorted(row.keys() - {*FIELDS, *TIME_FIELDS})
    if unknown:
        raise _make_line_error(
            file, number, f"has unknown fields ({', '.join(unknown[:5])}); a message has {', '.join(FIELDS)}"
        )
    if not isinstance(row.get("text"), str):
        raise _make_line_error(file, number, "has no text")
    for key in ("author", "channel", "role"):
        if not isinstance(row.get(key), str | None):
            raise _make_line_error(file, number, f"has a {key} that is not a string")
    for key in ("id", "reply_to"):
        if not isinstance(row.get(key), str | int | None) or isinstance(row.get(key), bool):
            raise _make_line_error(file, number, f"has {key} as neither a string nor a number")
    labels = row.get("access")
    if labels is not None and not (isinstance(labels, list) and all(isinstance(each, str) for each in labels)):
        raise _make_line_error(file, number, "has an access that is not a list of labels")
    channel = n.pick_first_name(n.pick_first_name(row.get("channel")).removeprefix("#"))
    if not channel:
        raise SourceError(file.uri, f"{NO_CHANNEL}: line {number:,} has no channel")
    at = _parse_time(row, number, file, notes)
    return Message(
        n.clean_message_text(row["text"]),
        author=n.pick_first_name(row.get("author")),
        at=at,
        id=n.pick_first_name(row.get("id")),
        channel=channel,
        reply_to=n.pick_first_name(row.get("reply_to")) or None,
        role=n.as_text_or_empty(row.get("role")) or "user",
        access=None if labels is None else frozenset(labels),
    )


def _parse_time(row: Mapping[str, Any], number: int, file: ExportFile, notes: n.ExportNotes) -> datetime | None:
    """Parse the time of a message from any of TIME_FIELDS; None if there is none, SourceError if it is invalid."""
    given = {name: row[name] for name in TIME_FIELDS if row.get(name) not in (None, "")}
    if not given:
        return None
    if len(given) > 1:
        raise _make_line_error(file, number, f"has several times ({', '.join(given)}); keep one of them")
    [(name, value)] = given.items()
    at = n.parse_iso_time(value, notes) or n.parse_epoch_time(value)
    if at is None:
        hint = "give ISO 8601, or seconds or milliseconds since 1970"
        raise _make_line_error(file, number, f"has a time that cannot be read ({name}: {str(value)[:40]}); {hint}")
    return at


def _parse_json_line(line: bytes, number: int, file: ExportFile) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise _make_line_error(file, number, f"is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise _make_line_error(file, number, "is not UTF-8; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        ended = "" if line.endswith(b"\n") else " and the file ends there: it may be cut short"
        raise _make_line_error(file, number, f"is not valid JSON{ended}") from error
    if not isinstance(row, dict):
        raise _make_line_error(file, number, "is not a JSON object")
    return row


def _make_line_error(file: ExportFile, number: int, what: str) -> SourceError:
    return SourceError(file.uri, f"line {number:,} {what}")
