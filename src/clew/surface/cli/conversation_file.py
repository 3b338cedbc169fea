"""Reads the conversation of `--conversation`: rows of JSON, as `Engine.search` takes them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.query.messages.table import read_messages_from_table
from clew.surface.cli.json_file import describe_file, read_json_values


def load_conversation(file: Path) -> tuple[Message, ...]:
    """The messages of a file, or of standard input for `-`, ordered by time; SourceError if there are none."""
    values = (row for value in read_json_values(file) for row in _iterate_messages(value))
    rows = [_read_message(row, file, number) for number, row in enumerate(values, 1)]
    messages = read_messages_from_table(rows)
    if not any(message.text.strip() for message in messages):
        raise SourceError(describe_file(file), "has no messages; a conversation has at least one with a text")
    return messages


def _iterate_messages(value: Any) -> Iterable[Any]:
    """The messages of a request body, {"messages": […]}; any other value is a message itself."""
    messages = value.get("messages") if isinstance(value, dict) else None
    return messages if isinstance(messages, list) else [value]


def _read_message(row: Any, file: Path, number: int) -> Message:
    try:
        [message] = read_messages_from_table([row])
    except (TypeError, ValueError) as error:
        raise SourceError(describe_file(file), f"message {number} cannot be read: {error}") from error
    return message
