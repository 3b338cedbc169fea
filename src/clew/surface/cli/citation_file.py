"""Citations out of a file of past answers: what `--json` printed, read as strictly as it was written."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from clew.core.cite import Citation
from clew.core.errors import SourceError
from clew.index.read.source import why

_FIELDS = {each.name: each for each in fields(Citation)}
_TEXTS = frozenset({"document", "version", "hash", "quote", "title", "uri", "message", "author"})


def answers(file: Path) -> list[tuple[str, list[Citation]]]:
    """The question and the citations of each answer in a file, which holds one JSON object or several."""
    found = []
    for number, answer in enumerate(_objects(file), 1):
        given = answer.get("citations") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            raise SourceError(str(file), f"object {number} has no list of citations; give what `--json` printed")
        name = answer.get("question") or answer.get("query") or f"answer {number}"
        found.append((str(name), [_citation(each, file, number) for each in given]))
    return found


def _objects(file: Path) -> Iterator[Any]:
    """The JSON values of a file, one after another."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(str(file), why(error)) from error
    except UnicodeDecodeError as error:
        raise SourceError(str(file), "is not text in UTF-8") from error
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise SourceError(str(file), f"is not JSON at character {error.pos}: {error.msg}") from error
        yield from value if isinstance(value, list) else [value]


def _citation(given: Any, file: Path, number: int) -> Citation:
    if not isinstance(given, dict):
        raise SourceError(str(file), f"a citation of object {number} is no object")
    missing = [name for name, each in _FIELDS.items() if each.default is MISSING and given.get(name) is None]
    if missing:
        raise SourceError(str(file), f"a citation of object {number} has no {', '.join(missing)}")
    values = {name: given[name] for name in _FIELDS if given.get(name) is not None}
    for name, value in values.items():
        if name in _TEXTS and not isinstance(value, str):
            raise SourceError(str(file), f"a citation of object {number} has a {name} that is no text")
        if name in ("start", "end", "page") and (not isinstance(value, int) or isinstance(value, bool)):
            raise SourceError(str(file), f"a citation of object {number} has a {name} that is no whole number")
    if "at" in values:
        try:
            values["at"] = datetime.fromisoformat(values["at"])
        except (TypeError, ValueError):
            raise SourceError(str(file), f"a citation of object {number} has an `at` that is no time") from None
    return Citation(**values)
