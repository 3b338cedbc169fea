"""Jobs: long work that is written down in the store before it is done, so that it survives the process that does it."""

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
MAINTAIN: Final = "maintain"  # the kind of the job that keeps up the store
FINISHED: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of long work: what was asked for, how far it is, and what came of it.

    `request` and `result` are JSON; the result of an `add` has the fields of its Report. `done` and `total` count
    what the `stage` works on, such as files found or texts embedded, and after an `add` its documents; `total` is None
    while it is unknown. `worker` is who has it or had it last, `attempts` how many workers have begun it, `heartbeat`
    the time of the store's clock, in seconds, at which the worker was last known to live. `host` is the machine whose
    files it reads; empty if any machine can do it.
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
        """How many sources could not be added; a job that is done may have failed at some of them, or all."""
        return len(self.result.get("failed", ()))

    @property
    def message(self) -> str:
        """What came of it in a sentence, with the first failure; empty before it is finished."""
        if self.state == "done" and self.kind == MAINTAIN:
            return "; ".join(self.result.get("done", ()))
        if self.state != "done" or "added" not in self.result:
            return self.error
        return describe_outcome(self.result)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in FINISHED


def describe_outcome(report: Mapping[str, Any]) -> str:
    """Describe the counts of a report (as JSON) that are not zero, and why the first source failed."""
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
    """Make a name for one claim: the machine, its space of process ids, the process, and a number of its own."""
    return f"{_get_machine()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def _get_machine() -> str:
    try:
        space = str(Path("/proc/self/ns/pid").readlink())  # containers on one machine may share its name
    except OSError:
        space = sys.platform
    return f"{platform.node()}/{space}"


def is_dead_worker(worker: str) -> bool:
    """Return whether a process of this machine is gone; of others only the time of their claim can tell."""
    machine, _, rest = worker.rpartition("/")[0].rpartition("/")
    if sys.platform == "win32" or machine != _get_machine() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
