"""The verbs on jobs: queue, list and cancel jobs, and run them in a worker.

A job is a row in the store, written before the work begins. A worker claims the row, renews its lease from a thread
(which also notices a cancel), and writes the outcome into the row. If the worker dies, another one claims the row and
starts the work again; `add` skips documents already stored.
"""

import logging
import platform
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from clew import drivers
from clew.core.errors import ClewError, NotFound, SettingsError, StoreMismatch
from clew.core.jobs import ACTIVE, MAINTAIN, Job, JobState, is_dead_worker, make_worker_name
from clew.core.protocols import LLM
from clew.core.report import OnProgress, Progress
from clew.core.settings import IngestionConfig, Settings, ThreadConfig
from clew.drivers.store.named import JobQueue
from clew.index.walk.sources import is_url

if TYPE_CHECKING:
    from clew.engine import Engine


MAX_ATTEMPTS = 3  # workers that may die during a job before it fails: the job itself may kill them
POLL_SECONDS = 1.0
MAX_KEPT_PASSED_OVER = 1000  # skipped files named in the result of a job; all are counted
OnJob = Callable[[Job], None]
Runner = Callable[["Engine", Job, OnProgress], Mapping[str, Any]]  # does the work of a job; returns its result as JSON


def enqueue_add(
    engine: "Engine",
    *sources: str | Path,
    sync: bool = False,
    allow_mass_drop: bool = False,
    max_cost: float | None = None,
    settings: Settings | None = None,
) -> Job:
    """Queue an `add` of the same options for a worker (`run_jobs`, `clew jobs work`) and return the job.

    The job keeps the ingestion and thread settings, the folder that addresses are relative to and the name of the
    language model. API keys, and objects given to `Engine.open`, are the worker's own.
    """
    given: tuple[object, ...] = sources  # callers without a type checker pass anything
    if not given or not all(isinstance(source, str | Path) for source in given):
        raise SettingsError("give each source as an argument of its own, a path or an address: enqueue_add(*paths)")
    opened, own = engine.opened, engine.opened.resolve_settings(settings)
    request = {
        "sources": [str(source) if is_url(source) else str(Path(source).absolute()) for source in sources],
        "sync": sync,
        "allow_mass_drop": allow_mass_drop,
        "max_cost": max_cost,
        "root": str(opened.root),
        "is_upload": opened.is_upload,
        "llm": opened.llm.name if opened.llm else "",
        "settings": {"ingestion": asdict(own.ingestion), "threads": asdict(own.threads)},
    }
    host = "" if own.jobs.any_host or all(is_url(source) for source in sources) else platform.node()
    return opened.store.jobs.put(Job(make_job_id(), "add", request, host=host))


def enqueue_maintenance(engine: "Engine") -> Job:
    """Queue maintenance of the collection, for a worker on any machine, and return the job.

    Lance: compact fragments, update indexes, remove old versions. PostgreSQL: vacuum tables, build graphs that are
    due, rebuild those with mostly deleted rows. Folder: update the index. If a maintenance job is already queued, it
    is returned. The result of the job lists the work under `done`.
    """
    engine.opened.check_unbounded()
    queue = engine.opened.store.jobs
    waiting = (job for job in queue.all() if job.kind == MAINTAIN and job.state == "queued")
    return next(waiting, None) or queue.put(Job(make_job_id(), MAINTAIN, {}))


def list_jobs(engine: "Engine") -> list[Job]:
    """List the jobs of the collection, oldest first: all unfinished ones and the last hundred finished ones."""
    return engine.opened.store.jobs.all()


def get_job(engine: "Engine", job_id: str) -> Job:
    """Return the current state of a job; raise NotFound if there is none."""
    return engine.opened.store.jobs.get(job_id)


def cancel_job(engine: "Engine", job_id: str) -> Job:
    """Cancel a job and return it. A running job stops between two documents; documents it has added stay.

    Its state is `cancelling` until its worker has stopped. A finished job does not change.
    """
    queue = engine.opened.store.jobs
    return queue.cancel(job_id, lease=engine.settings.jobs.lease, dead=find_dead_workers(queue.all()))


def run_jobs(
    engine: "Engine",
    *,
    wait: bool = False,
    alone: bool = False,
    host: str = "",
    stop: threading.Event | None = None,
    on_job: OnJob | None = None,
) -> list[Job]:
    """Run queued jobs, and jobs whose worker died, one after another. Return the jobs that ended.

    wait: Keep waiting for new jobs until `stop` is set.
    alone: Return at once if another worker is running, which will run the jobs.
    host: Act as this machine. A job that reads files only runs on the machine that queued it, unless `jobs.any_host`
        was set there.
    on_job: Called with a job when it starts, on progress and when it ends.
    """
    opened, jobs = engine.opened, engine.settings.jobs
    queue, stop = opened.store.jobs, stop or threading.Event()  # the queue outlives a switch to another model
    ended: list[Job] = []
    while not stop.is_set():
        job = queue.claim(
            make_worker_name(),
            lease=jobs.lease,
            max_attempts=MAX_ATTEMPTS,
            host=host or platform.node(),
            alone=alone,
            dead=find_dead_workers(queue.all()),
        )
        if job is not None:
            ended += _run_job(engine, job, stop, on_job)
        elif not wait:
            break
        else:
            stop.wait(POLL_SECONDS)
    return ended


def has_worker(job: Job) -> bool:
    """Return whether a worker that is not known to be dead holds the job."""
    return job.state in ACTIVE and not find_dead_workers([job])


def _run_job(engine: "Engine", job: Job, stop: threading.Event, on_job: OnJob | None) -> list[Job]:
    """Run a job and return it when ended; return nothing if it was requeued or another worker took it over."""
    queue = engine.opened.store.jobs
    tell = on_job or (lambda _: None)
    tell(job)
    with Lease(queue, job, engine.settings.jobs.lease) as lease:

        def on_progress(progress: Progress) -> None:
            lease.report(progress.stage, progress.done, progress.total)
            tell(replace(job, stage=progress.stage, done=progress.done, total=progress.total))
            if stop.is_set():
                raise StopJob("queued")

        state: JobState = "done"
        result: Mapping[str, Any] = {}
        error = ""
        try:
            result = _get_runner(job.kind)(engine, job, on_progress)
        except StopJob as stopped:
            state = stopped.state
        except (StoreMismatch, KeyboardInterrupt, SystemExit):  # the worker ends, not the job
            with suppress(StoreMismatch):  # if the store refuses the write, the lease expires
                lease.finish(state="queued")
            raise
        except ClewError as failure:
            state, error = "failed", str(failure)
        except Exception as failure:
            state, error = "failed", f"unexpected {type(failure).__name__}: {failure}"
        if not lease.finish(state=state, result=result, error=error) or state == "queued":
            return []
    ended = queue.get(job.id)
    tell(ended)
    return [ended]


def _run_add(engine: "Engine", job: Job, on_progress: OnProgress) -> Mapping[str, Any]:
    """Run an `add` and return its report as JSON."""
    request, own = job.request, engine.settings
    tables = request["settings"]
    settings = replace(
        own,
        ingestion=replace(own.ingestion, **_pick_fields(IngestionConfig, tables["ingestion"])),
        threads=replace(own.threads, **_pick_fields(ThreadConfig, tables["threads"])),
    )
    opened = replace(
        engine.opened,
        root=Path(request["root"]),
        is_upload=request.get("is_upload", False),
        llm=_get_language_model(engine, request["llm"]),
    )
    worker = type(engine)(opened)
    try:
        report = worker.add(
            *request["sources"],
            sync=request["sync"],
            allow_mass_drop=request.get("allow_mass_drop", False),
            max_cost=request["max_cost"],
            settings=settings,
            on_progress=on_progress,
        )
    finally:
        now = worker.opened
        if now.store is not opened.store:  # the collection was switched to another embedder
            engine.opened = engine.opened.with_store(now.store, now.embedder, now.embedder_config)
    count = len(report.added) + len(report.changed) + report.skipped
    on_progress(Progress("added", count, count, "documents"))
    kept = report.passed_over[:MAX_KEPT_PASSED_OVER]  # a repository may have a great many
    return {**asdict(replace(report, passed_over=kept)), "passed_over_counts": report.passed_over_counts}


def _pick_fields(table: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the settings that this version knows: another version may have queued the job."""
    return {item.name: given[item.name] for item in fields(table) if item.name in given}


def _run_maintenance(engine: "Engine", job: Job, on_progress: OnProgress) -> dict[str, Any]:  # noqa: ARG001
    """Run maintenance and return a description of the work done."""
    on_progress(Progress("maintaining", 0, 1, "collections"))
    done = engine.opened.store.maintain()
    on_progress(Progress("maintaining", 1, 1, "collections"))
    return {"done": done}


_RUNNERS: Final[dict[str, Runner]] = {"add": _run_add, MAINTAIN: _run_maintenance}


def register_runner(kind: str, runner: Runner) -> None:
    """Register the function that runs jobs of a kind; for layers above the engine."""
    _RUNNERS[kind] = runner


def _get_runner(kind: str) -> Runner:
    if kind not in _RUNNERS:
        raise NotFound(
            f"this Clew has no jobs of the kind {kind!r}; update it, or queue the work with the one you have"
        )
    return _RUNNERS[kind]


def _get_language_model(engine: "Engine", name: str) -> LLM | None:
    """Return the language model that a job names: the worker's if it has that name, else one with the worker's keys."""
    own = engine.opened.llm
    if own is not None and own.name == name:
        return own
    return drivers.make_language_model(replace(engine.settings.llm, name=name))


MAX_INTERVAL = 2.0  # seconds between heartbeats; progress and a cancel are noticed as late as that

log = logging.getLogger(__name__)


class StopJob(Exception):
    """Signal to stop the running job between two documents; the job then gets this `state`."""

    def __init__(self, state: JobState) -> None:
        super().__init__(state)
        self.state = state


class Lease:
    """A lease on a job, renewed by a thread until the `with` block ends."""

    def __init__(self, queue: JobQueue, job: Job, seconds: float) -> None:
        self._queue, self._job = queue, job
        self._interval = min(MAX_INTERVAL, seconds / 4)
        self._progress = (job.stage, job.done, job.total)
        self._wanted: JobState | None = "running"  # the state in the store at the last heartbeat; None: lost
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"clew-lease-{job.id}", daemon=True)

    def report(self, stage: str, done: int, total: int | None) -> None:
        """Record the progress for the next heartbeat; raise StopJob if the job was cancelled or taken over."""
        self._progress = (stage, done, total)
        if self._wanted == "cancelling":
            raise StopJob("cancelled")
        if self._wanted is None:
            raise StopJob("queued")  # any state: the store ignores this worker from now on

    def finish(self, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = "") -> bool:
        """Write the last progress and the outcome; return False if another worker has taken the job over."""
        self._stop()
        stage, done, total = self._progress
        job, worker = self._job.id, self._job.worker
        self._queue.beat(job, worker, stage=stage, done=done, total=total)
        return self._queue.finish(job, worker, state=state, result=result, error=error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
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
            except ClewError as error:  # the next heartbeat may succeed; the lease outlasts a few failures
                log.warning("job %s: no sign of life could be written: %s", self._job.id, error)
            if self._wanted is None:
                return


def make_job_id() -> str:
    """Make a random id for a new job."""
    return uuid.uuid4().hex[:12]


def find_dead_workers(jobs: list[Job]) -> set[str]:
    """Find the workers on this machine whose process is gone. On other machines only the lease tells."""
    return {job.worker for job in jobs if job.state in ACTIVE and is_dead_worker(job.worker)}
