"""The queue of jobs in SQL, the same for every store that has the table `jobs`."""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from clew.core.errors import NotFound
from clew.core.jobs import ACTIVE, FINISHED, Job, JobState
from clew.core.suggest import format_suggestion
from clew.core.time import from_iso, to_iso

MAX_FINISHED = 100  # finished jobs that are kept
COLUMNS = (
    "id, kind, request, state, stage, done, total, result, error, worker, heartbeat, attempts, host, created, updated"
)
Execute = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]  # a statement with `?` for its values, and its rows
T = TypeVar("T")
_IS_FINISHED, _IS_ACTIVE = (f"state IN ({', '.join(map(repr, sorted(states)))})" for states in (FINISHED, ACTIVE))


class JobDatabase(Protocol):
    """Where the table is: transactions, one at a time across all processes, and the clock that leases are read by."""

    own_rows: str  # the condition that admits the rows of the collection
    own_columns: Mapping[str, Any]  # columns that every row of it has besides

    def run_exclusively(self, work: Callable[[Execute], T]) -> T:
        """The result of work in one transaction; no two of a collection run at once, in any process."""

    def run_read(self, work: Callable[[Execute], T]) -> T:
        """The result of work that only reads."""

    def run_apart(self, work: Callable[[Execute], T]) -> T:
        """The result of work whose statements need not go together: a process that halts between two locks nothing."""

    def read_clock(self, execute: Execute) -> float:
        """The seconds of a clock that all processes share."""


class SqlJobQueue:
    """The jobs of one collection, as `JobQueue` describes them."""

    def __init__(self, database: JobDatabase) -> None:
        self._database = database
        self._where = f"FROM jobs WHERE {database.own_rows}"

    def put(self, job: Job) -> Job:
        """Queues a new job; the oldest finished ones beyond a hundred are removed."""
        now = datetime.now(UTC)
        columns = self._database.own_columns
        names = ", ".join((*columns, *COLUMNS.split(", ")))

        def put(execute: Execute) -> Job:
            beat = self._database.read_clock(execute) if job.state in ACTIVE else None
            queued = replace(job, created=now, updated=now, heartbeat=beat)
            values = (*columns.values(), *_job_to_columns(queued))
            execute(f"INSERT INTO jobs({names}) VALUES({', '.join('?' * len(values))})", values)
            ended = execute(f"SELECT id {self._where} AND {_IS_FINISHED} ORDER BY number", ())
            for each in ended[:-MAX_FINISHED]:
                execute(f"DELETE {self._where} AND id = ?", each)
            return queued

        return self._database.run_exclusively(put)

    def get(self, job_id: str) -> Job:
        """The job, or NotFound."""
        return self._database.run_read(lambda execute: self._read_job(execute, job_id))

    def all(self) -> list[Job]:
        """All jobs, the oldest first."""
        return self._database.run_read(self._read_jobs)

    def claim(
        self,
        worker: str,
        *,
        lease: float,
        max_attempts: int,
        host: str = "",
        alone: bool = False,
        dead: Set[str] = frozenset(),
    ) -> Job | None:
        """The oldest job that is queued or whose worker is gone, now held by `worker`; None if there is none."""

        def claim(execute: Execute) -> Job | None:
            now = self._database.read_clock(execute)
            free: list[Job] = []
            for job in self._read_jobs(execute, f"NOT {_IS_FINISHED}"):
                if job.state in ACTIVE and not _is_abandoned(job, now, lease, dead):
                    if alone:
                        free.clear()
                        break
                elif job.state == "cancelling":
                    self._write(execute, replace(job, state="cancelled"))
                elif job.state == "running" and job.attempts >= max_attempts:
                    reason = f"given up: {job.attempts} workers ended without finishing it, the last was {job.worker}"
                    self._write(execute, replace(job, state="failed", error=reason))
                elif job.host in ("", host):
                    free.append(job)
            if not free:
                return None
            taken = replace(free[0], state="running", worker=worker, heartbeat=now, attempts=free[0].attempts + 1)
            return self._write(execute, taken)

        return self._database.run_exclusively(claim)

    def beat(self, job_id: str, worker: str, *, stage: str, done: int, total: int | None) -> JobState | None:
        """Keeps the lease and the progress; the state of the job, or None if it is no longer this worker's."""

        def beat(execute: Execute) -> JobState | None:
            now = self._database.read_clock(execute), to_iso(datetime.now(UTC))
            execute(
                "UPDATE jobs SET stage = ?, done = ?, total = ?, heartbeat = ?, updated = ?"
                f" WHERE {self._database.own_rows} AND id = ? AND worker = ? AND {_IS_ACTIVE}",
                (stage, done, total, *now, job_id, worker),
            )
            job = self._read_held_job(execute, job_id, worker)
            return job.state if job else None

        return self._database.run_apart(beat)

    def finish(
        self, job_id: str, worker: str, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = ""
    ) -> bool:
        """Ends a job, or gives it back with the state "queued"; False, and no change, if it is not this worker's."""

        def finish(execute: Execute) -> bool:
            job = self._read_held_job(execute, job_id, worker)
            if job is None:
                return False
            ended = replace(job, state=state, result=result or {}, error=error, heartbeat=None)
            if state == "queued":  # the worker did not fail at it, so its attempt does not count
                ended = replace(ended, worker="", attempts=job.attempts - 1)
                ended = replace(ended, state="cancelled") if job.state == "cancelling" else ended
            self._write(execute, ended)
            return True

        return self._database.run_exclusively(finish)

    def cancel(self, job_id: str, *, lease: float, dead: Set[str] = frozenset()) -> Job:
        """The job, cancelled, or to be cancelled by the worker that has it; one that is finished stays as it is."""

        def cancel(execute: Execute) -> Job:
            job = self._read_job(execute, job_id)
            if job.is_finished:
                return job
            now = self._database.read_clock(execute)
            is_held = job.state in ACTIVE and not _is_abandoned(job, now, lease, dead)
            return self._write(execute, replace(job, state="cancelling" if is_held else "cancelled"))

        return self._database.run_exclusively(cancel)

    def _read_jobs(self, execute: Execute, condition: str = "true") -> list[Job]:
        rows = execute(f"SELECT {COLUMNS} {self._where} AND {condition} ORDER BY number", ())
        return [_parse_job(row) for row in rows]

    def _read_job(self, execute: Execute, job_id: str) -> Job:
        found = execute(f"SELECT {COLUMNS} {self._where} AND id = ?", (job_id,))
        if not found:
            names = [job.id for job in self._read_jobs(execute)]
            hint = format_suggestion(job_id, names) or "`clew jobs` lists them"
            raise NotFound(f"there is no job {job_id!r}; {hint}")
        return _parse_job(found[0])

    def _read_held_job(self, execute: Execute, job_id: str, worker: str) -> Job | None:
        """The job if this worker has it."""
        found = execute(f"SELECT {COLUMNS} {self._where} AND id = ? AND worker = ?", (job_id, worker))
        job = _parse_job(found[0]) if found else None
        return job if job and job.state in ACTIVE else None

    def _write(self, execute: Execute, job: Job) -> Job:
        """Writes a job that is there already; the job with the time of the change."""
        changed = replace(job, updated=datetime.now(UTC))
        names = COLUMNS.split(", ")
        assigned = ", ".join(f"{name} = ?" for name in names)
        execute(
            f"UPDATE jobs SET {assigned} WHERE {self._database.own_rows} AND id = ?",
            (*_job_to_columns(changed), job.id),
        )
        return changed


def _is_abandoned(job: Job, now: float, lease: float, dead: Set[str]) -> bool:
    return job.worker in dead or job.heartbeat is None or now - job.heartbeat > lease


def _job_to_columns(job: Job) -> tuple[Any, ...]:
    return (
        job.id,
        job.kind,
        json.dumps(dict(job.request)),
        job.state,
        job.stage,
        job.done,
        job.total,
        json.dumps(dict(job.result)) if job.result else "",
        job.error,
        job.worker,
        job.heartbeat,
        job.attempts,
        job.host,
        to_iso(job.created),
        to_iso(job.updated),
    )


def _parse_job(row: Sequence[Any]) -> Job:
    job_id, kind, request, state, stage, done, total, result, error, worker, heartbeat, attempts, host, *times = row
    created, updated = map(from_iso, times)
    return Job(
        job_id,
        kind,
        json.loads(request),
        state=state,
        stage=stage,
        done=done,
        total=total,
        result=json.loads(result) if result else {},
        error=error,
        worker=worker,
        heartbeat=heartbeat,
        attempts=attempts,
        host=host,
        created=created,
        updated=updated,
    )
