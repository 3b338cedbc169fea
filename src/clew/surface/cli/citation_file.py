"""Reads the citations of saved answers: the output of `--json`, validated strictly."""

from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from clew.core.cite import Citation
from clew.core.errors import SourceError
from clew.surface.cli.json_file import read_json_values

_FIELDS = {field.name: field for field in fields(Citation)}
_TEXTS = frozenset({"document", "version", "hash", "quote", "title", "uri", "message", "author"})
_NUMBERS = frozenset({"start", "end", "page", "line"})


def load_citations(file: Path) -> list[tuple[str, list[Citation]]]:
    """The question and the citations of each answer in a file, which holds one JSON object or several."""
    answers = []
    for number, answer in enumerate(read_json_values(file), 1):
        citations = answer.get("citations") if isinstance(answer, dict) else None
        if not isinstance(citations, list):
            raise SourceError(str(file), f"object {number} has no list of citations; give the output of `--json`")
        question = answer.get("question") or answer.get("query") or f"answer {number}"
        answers.append((str(question), [_parse_citation(citation, file, number) for citation in citations]))
    return answers


def _parse_citation(raw: Any, file: Path, number: int) -> Citation:
    def fail(problem: str) -> SourceError:
        return SourceError(str(file), f"a citation of object {number} {problem}")

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
