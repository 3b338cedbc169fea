"""Jobs: long work that is recorded in the store before it starts, so that it survives the process that runs it."""

import os
import platform
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

JobState = Literal["queued", "running", "cancelling", "done", "failed", "cancelled"]
ACTIVE: Final[frozenset[JobState]] = frozenset({"running", "cancelling"})  # a worker has it
MAINTAIN: Final = "maintain"  # the kind of job that maintains the store
FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of long work: its request, progress and result.

    `request` and `result` are JSON; the result of an `add` has the fields of its Report. `done` and `total` count
    the items of the `stage`, such as files found or texts embedded, and after an `add` its documents; `total` is None
    while unknown. `worker` is the current or last worker, `attempts` the number of workers that started the job, and
    `heartbeat` the worker's last sign of life, in seconds of the store's clock. `host` is the machine whose files the
    job reads; empty if any machine can run it.
    """

    id: str
    kind: str
    request: Mapping[str, Any]
    state: JobState = "queued"
    stage: str = ""
    done: int = 0
    total: int | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    worker: str = ""
    heartbeat: float | None = None
    attempts: int = 0
    host: str = ""
    created: datetime | None = None
    updated: datetime | None = None

    @property
    def failed(self) -> int:
        """How many sources could not be added; some or all may have failed even if the job is `done`."""
        return len(self.result.get("failed", ()))

    @property
    def message(self) -> str:
        """The result in a sentence, with the first failure; empty before the job is finished."""
        if self.state == "done" and self.kind == MAINTAIN:
            return "; ".join(self.result.get("done", ()))
        if self.state != "done" or "added" not in self.result:
            return self.error
        return describe_outcome(self.result)

    @property
    def is_finished(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state in FINISHED


def describe_outcome(report: Mapping[str, Any]) -> str:
    """Describe the nonzero counts of a report (as JSON), and why the first source failed."""
    counts = {name: len(report.get(name, ())) for name in ("added", "changed", "failed")}
    counts["unchanged"] = report.get("skipped", 0)
    over = ", ".join(f"{count:,} {reason}" for reason, count in report.get("passed_over_counts", {}).items())
    told = [f"{counts[name]:,} {name}" for name in ("added", "changed", "unchanged", "failed") if counts[name]]
    told += [f"passed over: {over}"] if over else []
    if not counts["added"] and not counts["changed"]:
        told.insert(0, "nothing was added")
    first = next(iter(report.get("failed", ())), None)
    reason = f"; {first['source']}: {first['reason']}" if first else ""
    return f"{', '.join(told)}{reason}"


def make_worker_name() -> str:
    """Make a unique name for one claim: the machine, its process namespace, the process id and a random number."""
    return f"{_get_machine()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def _get_machine() -> str:
    try:
        space = str(Path("/proc/self/ns/pid").readlink())  # containers on one machine may share its name
    except OSError:
        space = sys.platform
    return f"{platform.node()}/{space}"


def is_dead_worker(worker: str) -> bool:
    """Return whether a worker of this machine is dead; False for other machines, whose claims only expire."""
    machine, _, rest = worker.rpartition("/")[0].rpartition("/")
    if sys.platform == "win32" or machine != _get_machine() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
