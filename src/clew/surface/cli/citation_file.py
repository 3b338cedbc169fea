"""Reads the citations of saved answers: the output of `--json`, validated strictly."""

from pathlib import Path
from typing import Any

from clew.core.cite import Citation
from clew.core.errors import SettingsError, SourceError
from clew.surface.citations import parse_citation
from clew.surface.cli.json_file import read_json_values


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
    try:
        return parse_citation(raw)
    except SettingsError as error:
        problem = str(error).removeprefix("a citation ")
        raise SourceError(str(file), f"a citation of object {number} {problem}") from None
