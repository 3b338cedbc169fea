"""Reads a citation from its JSON, as a past answer has it, validated strictly."""

from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from clew.core.cite import Citation
from clew.core.errors import SettingsError

_FIELDS = {field.name: field for field in fields(Citation)}
_TEXTS = frozenset({"document", "version", "hash", "quote", "title", "uri", "message", "author"})
_NUMBERS = frozenset({"start", "end", "page", "line", "second"})


def parse_citation(raw: Any) -> Citation:
    """The citation of a JSON object; SettingsError, which says what is wrong with it, if it is not one."""

    def fail(problem: str) -> SettingsError:
        return SettingsError(f"a citation {problem}")

    if not isinstance(raw, dict):
        raise fail("is not an object")
    missing = [name for name, field in _FIELDS.items() if field.default is MISSING and raw.get(name) is None]
    if missing:
        raise fail(f"has no {', '.join(missing)}")
    values = {name: raw[name] for name in _FIELDS if raw.get(name) is not None}
    for name, value in values.items():
        if name in _TEXTS and not isinstance(value, str):
            raise fail(f"has a {name} that is not text")
        if name in _NUMBERS and (not isinstance(value, int) or isinstance(value, bool)):
            raise fail(f"has a {name} that is not a whole number")
    if "section" in values:
        if not isinstance(values["section"], list) or not all(isinstance(each, str) for each in values["section"]):
            raise fail("has a section that is not a list of headings")
        values["section"] = tuple(values["section"])
    if "at" in values:
        try:
            values["at"] = datetime.fromisoformat(values["at"])
        except (TypeError, ValueError):
            raise fail("has an `at` that is not a time") from None
    return Citation(**values)
