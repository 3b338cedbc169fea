"""Who runs a job: names of jobs and workers, workers that are dead, and the lease of a running job.

The lease is a thread that says again and again that the worker lives, and hears what is wanted.
"""

import logging
import threading
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from clew.core.errors import ClewError
from clew.core.jobs import ACTIVE, Job, JobState, is_dead_worker
from clew.core.protocols import JobQueue

MAX_INTERVAL = 2.0  # seconds between two signs of life, hence how soon progress is seen and a cancel is heard

log = logging.getLogger(__name__)


class StopJob(Exception):
    """Ends a running job between two documents; `state` is what becomes of it."""

    def __init__(self, state: JobState) -> None:
        super().__init__(state)
        self.state = state


class Lease:
    """`with Lease(queue, job, seconds) as lease`: holds the job until the block ends."""

    def __init__(self, queue: JobQueue, job: Job, seconds: float) -> None:
        self._queue, self._job = queue, job
        self._interval = min(MAX_INTERVAL, seconds / 4)
        self._progress = (job.stage, job.done, job.total)
        self._wanted: JobState | None = "running"  # the state in the store at the last sign of life
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"clew-lease-{job.id}", daemon=True)

    def report(self, stage: str, done: int, total: int | None) -> None:
        """Keeps how far the job is, for the next sign of life; StopJob if it was cancelled or taken by another."""
        self._progress = (stage, done, total)
        if self._wanted == "cancelling":
            raise StopJob("cancelled")
        if self._wanted is None:
            raise StopJob("queued")  # whatever: the store no longer listens to this worker

    def finish(self, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = "") -> bool:
        """Writes the last progress and the outcome; False if the job belongs to another worker by now."""
        self._stop()
        stage, done, total = self._progress
        job, worker = self._job.id, self._job.worker
        self._queue.beat(job, worker, stage=stage, done=done, total=total)
        return self._queue.finish(job, worker, state=state, result=result, error=error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(self._interval):
            stage, done, total = self._progress
            try:
                self._wanted = self._queue.beat(self._job.id, self._job.worker, stage=stage, done=done, total=total)
            except ClewError as error:  # the next one may succeed; the lease outlasts a few
                log.warning("job %s: no sign of life could be written: %s", self._job.id, error)
            if self._wanted is None:
                return


def make_job_id() -> str:
    """An id for a new job."""
    return uuid.uuid4().hex[:12]


def find_dead_workers(jobs: list[Job]) -> set[str]:
    """The workers on this machine whose processes are gone; of others only the lease can tell."""
    return {job.worker for job in jobs if job.state in ACTIVE and is_dead_worker(job.worker)}
