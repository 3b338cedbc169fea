"""Upkeep as a job: compaction, old versions, vacuum and indexes of the store, whenever a worker has time for it."""

from typing import TYPE_CHECKING, Any

from clew.core.jobs import MAINTAIN, Job
from clew.core.report import OnProgress, Progress
from clew.engine.lease import make_job_id

if TYPE_CHECKING:
    from clew.engine import Engine


def enqueue_maintenance(engine: "Engine") -> Job:
    """Queues the upkeep of the collection, for a worker of any machine, and returns the job.

    In Lance fragments are joined, indexes are kept up and old versions removed; on PostgreSQL the tables are vacuumed
    and graphs built that are due or mostly deleted rows; in a folder the index is kept up. One that waits already is
    returned as it is. The result names what was `done`.
    """
    engine.opened.check_unbounded()
    queue = engine.opened.store.jobs
    waiting = (job for job in queue.all() if job.kind == MAINTAIN and job.state == "queued")
    return next(waiting, None) or queue.put(Job(make_job_id(), MAINTAIN, {}))


def run_maintenance(engine: "Engine", job: Job, on_progress: OnProgress) -> dict[str, Any]:  # noqa: ARG001
    """What was done, in words."""
    on_progress(Progress("maintaining", 0, 1, "collections"))
    done = engine.opened.store.maintain()
    on_progress(Progress("maintaining", 1, 1, "collections"))
    return {"done": done}
