"""The JSON that a user gives to a command: conversations, and citations of saved answers."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

from clew.core.cite import Citation
from clew.core.errors import SettingsError, SourceError
from clew.core.settings.types import InvalidValue, check_value_type, describe_type
from clew.core.types import Message
from clew.index.read.load import describe_os_error
from clew.query.messages.table import read_messages_from_table

STDIN = Path("-")
_SPACE = re.compile(r"\s*")


def read_json_values(file: Path) -> Iterator[Any]:
    """Yield the JSON values of a file, or of standard input for `-`; an array yields its items."""
    text = _read_text(file)
    decoder = json.JSONDecoder()
    at = _skip_space(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            reason = f"is not JSON in line {error.lineno}, column {error.colno}: {error.msg}"
            raise SourceError(describe_file(file), reason) from error
        yield from value if isinstance(value, list) else [value]
        at = _skip_space(text, end)


def describe_file(file: Path) -> str:
    """Name a file in a message."""
    return "standard input" if file == STDIN else str(file)


def _read_text(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SourceError(describe_file(file), describe_os_error(error)) from error
    except UnicodeDecodeError as error:
        raise SourceError(describe_file(file), "is not UTF-8 text") from error


def _skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def load_conversation(file: Path) -> tuple[Message, ...]:
    """Load the messages of a file, or of standard input for `-`, ordered by time; SourceError if there are none."""
    values = (row for value in read_json_values(file) for row in _iterate_messages(value))
    rows = [_read_message(row, file, number) for number, row in enumerate(values, 1)]
    messages = read_messages_from_table(rows)
    if not any(message.text.strip() for message in messages):
        raise SourceError(describe_file(file), "has no messages; a conversation has at least one with a text")
    return messages


def _iterate_messages(value: Any) -> Iterable[Any]:
    """Yield the messages of a request body, {"messages": […]}; any other value is a message itself."""
    messages = value.get("messages") if isinstance(value, dict) else None
    return messages if isinstance(messages, list) else [value]


def _read_message(row: Any, file: Path, number: int) -> Message:
    try:
        [message] = read_messages_from_table([row])
    except (TypeError, ValueError) as error:
        raise SourceError(describe_file(file), f"message {number} cannot be read: {error}") from error
    return message


def parse_citation(raw: Any) -> Citation:
    """Parse a citation from a JSON object; SettingsError names the problem."""
    if not isinstance(raw, dict):
        raise SettingsError("a citation is not an object")
    missing = [each.name for each in fields(Citation) if each.default is MISSING and raw.get(each.name) is None]
    if missing:
        raise SettingsError(f"a citation has no {', '.join(missing)}")
    types = get_type_hints(Citation)
    values = {name: raw[name] for name in types if raw.get(name) is not None}
    for name, value in values.items():
        try:
            values[name] = datetime.fromisoformat(value) if name == "at" else check_value_type(value, types[name])
        except (InvalidValue, TypeError, ValueError):
            wanted = "a time" if name == "at" else describe_type(types[name])
            raise SettingsError(f"a citation has a field {name} that is not {wanted}") from None
    return Citation(**values)


def load_citations(file: Path) -> list[tuple[str, list[Citation]]]:
    """Load the question and the citations of each answer in a file, which holds one JSON object or several."""
    answers = []
    for number, answer in enumerate(read_json_values(file), 1):
        citations = answer.get("citations") if isinstance(answer, dict) else None
        if not isinstance(citations, list):
            raise SourceError(str(file), f"object {number} has no list of citations; give the output of `--json`")
        question = answer.get("question") or answer.get("query") or f"answer {number}"
        answers.append((str(question), [_parse_citation(citation, file, number) for citation in citations]))
    return answers


def _parse_citation(raw: Any, file: Path, number: int) -> Citation:
    try:
        return parse_citation(raw)
    except SettingsError as error:
        problem = str(error).removeprefix("a citation ")
        raise SourceError(str(file), f"a citation of object {number} {problem}") from None
