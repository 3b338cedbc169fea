"""Storage of runs as JSON Lines: a header, then a line for each result, appended when it is ready.

An interrupted run continues without asking its questions again. A run can be exported in the TREC format, which
trec_eval, ir-measures and ranx read.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from clew.core.errors import DriverFailed, NotFound, SettingsError, SourceError
from clew.core.protocols import RecordKind, RecordStore
from clew.core.suggest import format_names
from clew.engine import Engine
from clew.evaluation.types import EvaluatedSystem, EvaluationRun, QuestionResult

FORMAT = 1
MAX_FACTOR = 100  # by which grades are multiplied to make them whole numbers for TREC
_LOG = logging.getLogger(__name__)
KIND: Final = "evaluations"
_PLAIN = "/:#?&=+,;@!()[]{}'~"  # unescaped in a name for TREC, unlike white space, which would end a column
_NAME = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-f]{4}")  # time and key


def find_runs(engine: Engine, folder: str | Path | None = None) -> RecordStore | None:
    """Return the store of runs: the given folder, else the collection's; None if only a part of that is visible."""
    return engine.opened.records if folder is None else RunFolder(Path(folder))


class RunFolder:
    """A RecordStore of runs as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_all(self, kind: RecordKind) -> dict[str, str]:
        """Return the texts of the runs by id, sorted, ignoring other files."""
        files = sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else []
        return {file.stem: self.read(kind, file.stem) for file in files if _NAME.fullmatch(file.stem)}

    def read(self, kind: RecordKind, name: str = "") -> str:
        """Return the text of a run."""
        with _name_failures(self.locate(kind, name), "read"):
            return self.locate(kind, name).read_text("utf-8")

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replace the text of a run."""
        file = self.locate(kind, name)
        with _name_failures(file, "written"):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(text, "utf-8")

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Append to the text of a run."""
        file = self.locate(kind, name)
        with _name_failures(file, "written"), file.open("a", encoding="utf-8") as stream:
            stream.write(text)

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Return the path of a run as text."""
        return str(self.locate(kind, name))

    def locate(self, kind: RecordKind, name: str = "") -> Path:  # noqa: ARG002
        """Return the file of a run."""
        return self._folder / f"{name}.jsonl"


@contextmanager
def _name_failures(file: Path, done: str) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DriverFailed(f"{file} cannot be {done}: {reason}; check its permissions, or delete it") from error


def list_runs(engine: Engine, *, folder: str | Path | None = None) -> list[EvaluationRun]:
    """List the kept runs, oldest first; a run that cannot be read is left out, with a warning in the log."""
    place = find_runs(engine, folder)
    if place is None:
        return []
    found = []
    for name, text in _read_texts(place).items():
        try:
            found.append(_parse_run(place, name, text))
        except DriverFailed as error:
            _LOG.warning("%s", error)
    return found


def read_run(engine: Engine, run: str, *, folder: str | Path | None = None) -> EvaluationRun:
    """Return the run of this id, or the newest for "last"; raise NotFound, which lists the runs."""
    place = find_runs(engine, folder)
    if place is None:
        raise SettingsError("this engine sees a part of the collection, and no runs; name the folder that has them")
    texts = _read_texts(place)
    ids = list(texts)
    wanted = ids[-1] if run == "last" and ids else run
    if wanted not in ids:
        there = f"there are {format_names(ids[::-1])}" if ids else "there are none; `clew evaluate QUESTIONS` makes one"
        raise NotFound(f"there is no run {run!r}; {there}")
    return _parse_run(place, wanted, texts[wanted])


def _read_texts(place: RecordStore) -> dict[str, str]:
    """Return the texts of the runs by id, which sorts by time."""
    return {name: text for name, text in place.read_all(KIND).items() if _NAME.fullmatch(name)}


def _parse_run(place: RecordStore, name: str, text: str) -> EvaluationRun:
    """Parse a run, ignoring a truncated last line; raise DriverFailed if the text is not a run."""
    try:
        header, *lines = _parse_lines(text)
        return replace(_build_run(header, lines), id=name, file=place.locate(KIND, name), is_kept=True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        where = place.describe(KIND, name)
        raise DriverFailed(f"{where} is not a run of this version of Clew; move it away") from error


def _build_run(header: dict[str, Any], lines: Sequence[dict[str, Any]]) -> EvaluationRun:
    """Build a run from its header and result lines; raise ValueError, KeyError or TypeError if they are invalid."""
    if header.pop("format", None) != FORMAT:
        raise ValueError("another format")
    results = {}
    for line in lines:
        results[line["system"], line["question"]] = QuestionResult(
            **{**line, "ranking": tuple(line["ranking"]), "relevances": tuple(line["relevances"])}
        )
    systems = tuple(EvaluatedSystem(**each) for each in header.pop("systems"))
    run = EvaluationRun(
        **{
            **header,
            "created": datetime.fromisoformat(header["created"]),
            "questions": tuple(header["questions"]),
            "notes": tuple(header["notes"]),
        },
        systems=systems,
        results=tuple(results.values()),
    )
    _check_types(run)
    return run


def _check_types(run: EvaluationRun) -> None:
    """Raise TypeError if a value of a run read from a file has the wrong type."""
    results = run.results
    texts: list[Any] = [run.key, run.embedder, run.source, *run.questions, *run.notes]
    texts += [text for each in run.systems for text in (each.name, each.strategy)]
    texts += [text for each in results for text in (each.system, each.question, *each.ranking, *each.values)]
    tables: list[Any] = [run.grades, *run.grades.values(), *(each.settings for each in run.systems)]
    numbers: list[Any] = [run.k, run.tokens, *(grade for each in run.grades.values() for grade in each.values())]
    for each in results:
        optional = [value for value in (each.tokens, each.confidence) if value is not None]
        numbers += [each.ms, *each.relevances, *each.values.values(), *optional]
    if not (
        all(isinstance(each, str) for each in texts)
        and all(isinstance(each, dict) for each in tables)
        and all(isinstance(each, (int, float)) and isfinite(each) for each in numbers)
    ):
        raise TypeError("a value of the wrong type")


def start_run(run: EvaluationRun, place: RecordStore) -> EvaluationRun:
    """Write the header of a new run; return the run as kept."""
    header = {"format": FORMAT, **asdict(replace(run, results=(), file=None))}
    del header["results"], header["file"], header["is_kept"]
    place.write(KIND, _dump({**header, "created": run.created.isoformat()}), name=run.id)
    return replace(run, file=place.locate(KIND, run.id), is_kept=True)


def continue_run(run: EvaluationRun, place: RecordStore) -> EvaluationRun:
    """Remove a truncated last line from a kept run, so that the next result begins a new line; return the run."""
    text = place.read(KIND, run.id)
    if not text.endswith("\n"):
        place.write(KIND, text[: text.rfind("\n") + 1], name=run.id)
    return run


def append_result(run: EvaluationRun, result: QuestionResult, place: RecordStore) -> None:
    """Append a result to its kept run."""
    place.append(KIND, _dump(asdict(result)), name=run.id)


def _parse_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):  # an id may have other line separators
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def export_trec(run: EvaluationRun, folder: str | Path) -> tuple[Path, ...]:
    """Write `qrels.txt` and a run file for each system into a folder; return the files.

    The score of a result is one over its rank, since trec_eval sorts by it. TREC grades are whole numbers, so all
    grades are multiplied by `find_grade_factor(run)`; measures with linear gains, like Clew's, do not change. White
    space, % and non-ASCII letters in a name are percent-encoded; a space in the name of a system becomes a hyphen.
    """
    folder, factor = Path(folder), find_grade_factor(run)
    qrels = [
        f"{_escape(question)} 0 {_escape(name)} {round(grade * factor)}"
        for question in run.questions
        for name, grade in run.grades.get(question, {}).items()
    ]
    files = {folder / "qrels.txt": qrels}
    for number, system in enumerate(run.systems, 1):
        tag = _escape(system.name.replace(" ", "-"))
        files[folder / f"{number}-{tag.replace('/', '-')}.run"] = [
            f"{_escape(result.question)} Q0 {_escape(name)} {rank} {1 / rank:.6f} {tag}"
            for result in run.results
            if result.system == system.name
            for rank, name in enumerate(result.ranking, 1)
        ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, lines in files.items():
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise SourceError(str(folder), f"cannot be written: {error.strerror}") from error
    return tuple(files)


def find_grade_factor(run: EvaluationRun) -> int:
    """Find the smallest factor that makes all grades whole (2 for halves); 100, with rounding, if none below does."""
    grades = {grade for each in run.grades.values() for grade in each.values()}
    whole = (at for at in range(1, MAX_FACTOR) if all(abs(at * each - round(at * each)) < 1e-6 for each in grades))
    return next(whole, MAX_FACTOR)


def _escape(name: str) -> str:
    return quote(name, safe=_PLAIN)
