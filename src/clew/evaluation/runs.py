"""Runs as they are kept: JSON lines, a header and then a line for every result as it comes.

A run that broke off is continued: what is in it is not asked again.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from clew.core.errors import DriverFailed, NotFound, SettingsError
from clew.core.protocols import RecordStore
from clew.core.suggest import format_names
from clew.drivers.store.records import FolderRecords
from clew.engine import Engine
from clew.evaluation.types import EvaluatedSystem, EvaluationRun, QuestionResult

FORMAT = 1
KIND: Final = "evaluations"
_NAME = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-f]{4}")  # time and key


def find_runs(engine: Engine, folder: str | Path | None = None) -> RecordStore | None:
    """Where the runs are kept: in the folder given, else with the collection; None for one in memory."""
    if folder is not None:
        return FolderRecords(Path(folder), files={KIND: "*.jsonl"})
    return engine.opened.records


def list_runs(engine: Engine, *, folder: str | Path | None = None) -> list[EvaluationRun]:
    """The runs that are kept, the oldest first."""
    place = find_runs(engine, folder)
    return [_parse_run(place, name) for name in _list_names(place)] if place else []


def read_run(engine: Engine, run: str, *, folder: str | Path | None = None) -> EvaluationRun:
    """The run of this id, or the last one for "last"; NotFound with those that there are."""
    place = find_runs(engine, folder)
    if place is None:
        raise SettingsError("this collection keeps no runs, since it is in memory; name the folder that has them")
    ids = _list_names(place)
    wanted = ids[-1] if run == "last" and ids else run
    if wanted not in ids:
        there = f"there are {format_names(ids[::-1])}" if ids else "there are none; `clew evaluate QUESTIONS` makes one"
        raise NotFound(f"there is no run {run!r}; {there}")
    return _parse_run(place, wanted)


def _list_names(place: RecordStore) -> list[str]:
    """The ids of the runs, by time; other files may lie beside them."""
    return [name for name in place.names(KIND) if _NAME.fullmatch(name)]


def _parse_run(place: RecordStore, name: str) -> EvaluationRun:
    """The run of this id; a last line that was cut off is left out."""
    lines = list(_parse_lines(place.read(KIND, name)))
    if not lines or lines[0].get("format") != FORMAT:
        raise DriverFailed(f"{place.describe(KIND, name)} is not a run of this version of Clew; move it away")
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
        file=place.locate(KIND, name),
        is_kept=True,
    )


def start_run(run: EvaluationRun, place: RecordStore) -> EvaluationRun:
    """The run as it is kept now, with its header."""
    header = {"format": FORMAT, **asdict(replace(run, results=(), file=None))}
    del header["results"], header["file"], header["is_kept"]
    place.write(KIND, _dump({**header, "created": run.created.isoformat()}), name=run.id)
    return replace(run, file=place.locate(KIND, run.id), is_kept=True)


def continue_run(run: EvaluationRun, place: RecordStore) -> EvaluationRun:
    """The run, without a last line that was cut off, so that the next result begins on a line of its own."""
    text = place.read(KIND, run.id)
    if not text.endswith("\n"):
        place.write(KIND, text[: text.rfind("\n") + 1], name=run.id)
    return run


def append_result(run: EvaluationRun, result: QuestionResult, place: RecordStore) -> None:
    """Adds a result to what is kept of its run."""
    place.append(KIND, _dump(asdict(result)), name=run.id)


def _parse_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
