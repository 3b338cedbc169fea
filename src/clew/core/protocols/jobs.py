"""Protocol of the queue of jobs that every store keeps beside its documents."""

from collections.abc import Callable, Mapping, Set
from typing import Any, Protocol

from clew.core.jobs import Job, JobState


class JobQueue(Protocol):
    """The jobs of one collection. Every method is one transaction; several processes may call them at once.

    A worker holds a job by a lease: it says again and again that it lives (`beat`). A job whose worker has not done so
    for the length of the lease belongs to nobody, and the next worker takes it.
    """

    def put(self, job: Job) -> Job:
        """Queues a new job and returns it with its times; the oldest finished ones beyond a hundred are removed.

        One whose state is "running" is held by its worker from the start.
        """

    def get(self, job_id: str) -> Job:
        """The job, or NotFound."""

    def all(self) -> list[Job]:
        """All jobs, the oldest first."""

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
        """The oldest job that is queued or whose worker is gone, now held by `worker`; None if there is none.

        A worker is gone if it has been silent for `lease` seconds or is among the `dead`. A job that has been begun
        `max_attempts` times fails instead, and one that was to be cancelled is cancelled. Jobs of other hosts are left
        to these. With `alone`, None also if a worker that lives has a job: it will take the others when it is done.
        """

    def beat(self, job_id: str, worker: str, *, stage: str, done: int, total: int | None) -> JobState | None:
        """Keeps the lease and the progress; the state of the job, or None if it is no longer this worker's."""

    def finish(
        self, job_id: str, worker: str, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = ""
    ) -> bool:
        """Ends a job, or gives it back with the state "queued"; False, and no change, if it is not this worker's."""

    def cancel(self, job_id: str, *, lease: float, dead: Set[str] = frozenset()) -> Job:
        """The job, cancelled, or to be cancelled by the worker that has it; one that is finished stays as it is."""

    def drop(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Deletes the jobs that match and have ended; how many, and the ids of those that match and have not.

        A job is matched by its id, and by its request, result and error: lines of JSON or of text.
        """
