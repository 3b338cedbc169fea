"""Reads the JSON that a user gives to a command: one value, an array, or JSON Lines."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.errors import SourceError
from clew.index.read.load import describe_os_error

STDIN = Path("-")
_SPACE = re.compile(r"\s*")


def read_json_values(file: Path) -> Iterator[Any]:
    """The JSON values of a file, or of standard input for `-`; those of an array one by one."""
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
    """The name of a file in a message."""
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
    """The position of the next character that is not white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at
