"""The history of the ratios: one line of JSON a run, the table in the docs, and what got worse by more than its noise.

A run is compared with the runs before it on the same kind of machine. The noise of a ratio is how far those differ:
a ratio is worse where it is beyond their median by more than three times their median deviation, and by a tenth.
"""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks import Measurement

FILE = Path(__file__).with_name("history.jsonl")
TABLE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- last run: written by make bench -->", "<!-- end of the last run -->"
COMPARED = 10  # runs before
MIN_NOISE = 0.1  # of the median: what two runs on a quiet machine may differ by
DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
class Run:
    """The ratios of one run, and the kind of machine that they are of."""

    at: str
    machine: str
    ratios: dict[str, float]
    goals: dict[str, str]


def make_run(measurements: Iterable[Measurement]) -> Run:
    """The run of these measurements, here and now."""
    given = list(measurements)
    return Run(
        datetime.now(UTC).isoformat(timespec="seconds"),
        f"{platform.machine()}, {os.cpu_count()} cores",
        {each.name: round(each.value, 4) for each in given},
        {each.name: each.goal for each in given if each.goal},
    )


def read_history(file: Path = FILE) -> list[Run]:
    """The runs of a file, the oldest first."""
    if not file.is_file():
        return []
    return [Run(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def append_run(run: Run, file: Path = FILE) -> None:
    """Adds a run at the end of a file."""
    line = {"at": run.at, "machine": run.machine, "ratios": run.ratios, "goals": run.goals}
    with file.open("a", encoding="utf-8") as history:
        history.write(json.dumps(line, ensure_ascii=False) + "\n")


def find_worse(run: Run, history: Sequence[Run]) -> list[str]:
    """A warning for each ratio that is worse than in the runs before by more than their noise."""
    warnings = []
    for name, value in run.ratios.items():
        before = [each.ratios[name] for each in history if each.machine == run.machine and name in each.ratios]
        if not before:
            continue
        middle = median(before[-COMPARED:])
        noise = max(DEVIATIONS * median(abs(each - middle) for each in before[-COMPARED:]), MIN_NOISE * abs(middle))
        loss = middle - value if is_more_better(run.goals.get(name, "")) else value - middle
        if loss > noise:
            warnings.append(f"worse: {name}: {value:.3f}, before {middle:.3f} ± {noise:.3f}")
    return warnings


def is_more_better(goal: str) -> bool:
    """Whether a ratio with this goal should be great, as recall, and not small, as time."""
    return goal.startswith(("≥", ">"))


def format_table(run: Run) -> str:
    """The ratios of a run as a table."""
    rows = [f"| {name} | {value:.3g} | {run.goals.get(name, '')} |" for name, value in run.ratios.items()]
    return "\n".join([f"{run.at[:10]}, {run.machine}:", "", "| what | ratio | goal |", "|---|---|---|", *rows])


def write_table(run: Run, file: Path = TABLE) -> None:
    """Writes the table of a run between the markers of a page; one without markers stays as it is."""
    text = file.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if found and ends:
        file.write_text(f"{before}{BEGIN}\n{format_table(run)}\n{END}{after}", encoding="utf-8")
