"""Runs as they are kept: one file of JSON lines each, a header and then a line for every result as it comes.

A run that broke off is continued from its file: what is in it is not asked again.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from clew.core.errors import DriverFailed, NotFound, SettingsError
from clew.core.suggest import format_names
from clew.engine import Engine
from clew.evaluation.types import EvaluatedSystem, EvaluationRun, QuestionResult

FORMAT = 1
FOLDER = "evaluations"  # in the folder of a collection
SUFFIX = ".jsonl"
_NAME = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-f]{4}")  # time and key


def find_runs_folder(engine: Engine, folder: str | Path | None = None) -> Path | None:
    """The folder of the runs: the one given, else that of the collection; None in memory and on a server."""
    if folder is not None:
        return Path(folder)
    home = engine.opened.folder
    return home / FOLDER if home else None


def list_runs(engine: Engine, *, folder: str | Path | None = None) -> list[EvaluationRun]:
    """The runs that are kept, the oldest first."""
    place = find_runs_folder(engine, folder)
    return [read_run_file(file) for file in _list_files(place)]


def read_run(engine: Engine, run: str, *, folder: str | Path | None = None) -> EvaluationRun:
    """The run of this id, or the last one for "last"; NotFound with those that there are."""
    place = find_runs_folder(engine, folder)
    if place is None:
        raise SettingsError("this collection keeps no runs, since it has no folder; name the folder that has them")
    ids = [file.stem for file in _list_files(place)]
    wanted = ids[-1] if run == "last" and ids else run
    if wanted not in ids:
        there = f"there are {format_names(ids[::-1])}" if ids else "there are none; `clew evaluate QUESTIONS` makes one"
        raise NotFound(f"there is no run {run!r}; {there}")
    return read_run_file(place / f"{wanted}{SUFFIX}")


def _list_files(folder: Path | None) -> list[Path]:
    """The files of runs in a folder, by time; others may lie beside them."""
    files = folder.glob(f"*{SUFFIX}") if folder and folder.is_dir() else ()
    return sorted(file for file in files if _NAME.fullmatch(file.stem))


def read_run_file(file: Path) -> EvaluationRun:
    """The run in a file; a last line that was cut off is left out."""
    lines = list(_read_lines(file))
    if not lines or lines[0].get("format") != FORMAT:
        raise DriverFailed(f"{file} is not a run of this version of Clew; move it away")
    header, results = lines[0], {}
    for line in lines[1:]:
        results[line["system"], line["question"]] = QuestionResult(
            **{**line, "ranking": tuple(line["ranking"]), "relevances": tuple(line["relevances"])}
        )
    header.pop("format")
    systems = tuple(EvaluatedSystem(**each) for each in header.pop("systems"))
    return EvaluationRun(
        **{
            **header,
            "created": datetime.fromisoformat(header["created"]),
            "questions": tuple(header["questions"]),
            "notes": tuple(header["notes"]),
        },
        systems=systems,
        results=tuple(results.values()),
        file=file,
    )


def start_run_file(run: EvaluationRun, folder: Path) -> EvaluationRun:
    """The run with its file, which has its header now."""
    file = folder / f"{run.id}{SUFFIX}"
    header = {"format": FORMAT, **asdict(replace(run, results=(), file=None))}
    del header["results"], header["file"]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(file, "x", encoding="utf-8", opener=_open_private) as stream:
            stream.write(_dump({**header, "created": run.created.isoformat()}))
    except OSError as error:
        raise DriverFailed(f"{file} cannot be written: {error.strerror}; name another folder for the runs") from error
    return replace(run, file=file)


def append_result(file: Path, result: QuestionResult) -> None:
    """Adds a result to the file of its run."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(_dump(asdict(result)))


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def repair_last_line(file: Path) -> None:
    """Removes a last line that was cut off, so that the next result begins on a line of its own."""
    data = file.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.truncate(file, end)


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
