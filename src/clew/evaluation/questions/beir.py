"""A folder in the format of BEIR: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.errors import SettingsError, SourceError
from clew.core.types import Document
from clew.evaluation.questions.judged import MAX_GRADE, JudgedQuestion, read_json_lines

_SPLITS = ("test", "dev", "train")  # the first of them that is there


def read_beir_questions(folder: Path) -> list[JudgedQuestion]:
    """The questions of a BEIR folder that have a relevant document, in the order of the file."""
    grades = _read_grades(_find_qrels(folder))
    found = []
    for id_, line in _read_entries(folder / "queries.jsonl"):
        if any(grade > 0 for grade in grades.get(id_, {}).values()):
            try:
                found.append(JudgedQuestion(str(line.get("text", "")), grades[id_], id=id_))
            except SettingsError as error:
                raise SourceError(str(folder / "queries.jsonl"), f"{id_}: {error}") from None
    if not found:
        raise SourceError(
            str(folder), "no question has a relevant document; do the ids of the two files belong together?"
        )
    return found


def read_beir_documents(folder: str | Path) -> Iterator[Document]:
    """The documents of a BEIR folder, under the ids by which its questions name them, for `engine.add_documents`."""
    for id_, line in _read_entries(Path(folder) / "corpus.jsonl"):
        title, text = str(line.get("title", "")).strip(), str(line.get("text", "")).strip()
        yield Document(id_, f"{title}\n\n{text}" if title else text, title=title, uri=id_)


def _read_entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.is_file():
        raise SourceError(str(path), "is not there; a BEIR folder has corpus.jsonl, queries.jsonl and qrels/test.tsv")
    for number, line in read_json_lines(path):
        if not isinstance(line, dict) or "_id" not in line:
            raise SourceError(str(path), f'line {number}: has no "_id"')
        yield str(line["_id"]), line


def _find_qrels(folder: Path) -> Path:
    for path in (*(folder / "qrels" / f"{split}.tsv" for split in _SPLITS), folder / "qrels.tsv"):
        if path.is_file():
            return path
    raise SourceError(str(folder), f"has no qrels/{_SPLITS[0]}.tsv; it must be a folder in the format of BEIR")


def _read_grades(path: Path) -> dict[str, dict[str, float]]:
    """The grades by question; rows are question, document, grade, or those of TREC with a second column that is 0."""
    found: dict[str, dict[str, float]] = {}
    for number, row in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
        cells = row.split("\t") if "\t" in row else row.split()
        if not row.strip() or (number == 1 and cells[-1].strip().lower() in ("score", "relevance", "rel")):
            continue
        try:
            question, document, grade = cells[0], cells[-2], float(cells[-1])
        except (ValueError, IndexError):
            reason = f"line {number}: {row.strip()!r} must be a question, a document and a grade, with tabs between"
            raise SourceError(str(path), reason) from None
        if not abs(grade) <= MAX_GRADE:  # nor is it a number that is none
            raise SourceError(
                str(path), f"line {number}: the grade {cells[-1].strip()} must be a number up to {MAX_GRADE}"
            )
        found.setdefault(question, {})[document] = grade
    return found
