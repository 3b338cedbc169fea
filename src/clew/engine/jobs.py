"""The verbs on jobs: queue an `add`, list, cancel, and the loop of the workers that run what is queued.

A job is a row in the store, written before the work begins. A worker claims a row, keeps its lease from a thread that
also hears what is wanted, and writes the outcome into it. The row of a worker that dies stays; the next one begins the
same work again, and `add` skips what the first has stored.
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


MAX_ATTEMPTS = 3  # workers that may end without finishing a job before it is given up: it may be what ends them
POLL_SECONDS = 1.0  # between two looks for a new job
MAX_KEPT_PASSED_OVER = 1000  # files passed over that are named in the result of a job; all are counted
OnJob = Callable[[Job], None]
Runner = Callable[["Engine", Job, OnProgress], Mapping[str, Any]]  # does the work of a job; its result as JSON


def enqueue_add(
    engine: "Engine",
    *sources: str | Path,
    sync: bool = False,
    allow_mass_drop: bool = False,
    max_cost: float | None = None,
    settings: Settings | None = None,
) -> Job:
    """Queue what `add` would do, for a worker (`run_jobs`, `clew jobs work`), and return the job.

    Kept with it are the settings of ingestion and threads, the folder that addresses are relative to and the name of
    the language model; keys, and parts given to `Engine.open` as objects, are those of the worker.
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
    """Queue the upkeep of the collection, for a worker of any machine, and return the job.

    In Lance fragments are joined, indexes are kept up and old versions removed; on PostgreSQL the tables are vacuumed
    and graphs built that are due or mostly deleted rows; in a folder the index is kept up. One that waits already is
    returned as it is. The result names what was `done`.
    """
    engine.opened.check_unbounded()
    queue = engine.opened.store.jobs
    waiting = (job for job in queue.all() if job.kind == MAINTAIN and job.state == "queued")
    return next(waiting, None) or queue.put(Job(make_job_id(), MAINTAIN, {}))


def list_jobs(engine: "Engine") -> list[Job]:
    """List the jobs of the collection, the oldest first; of those that are finished, the last hundred."""
    return engine.opened.store.jobs.all()


def get_job(engine: "Engine", job_id: str) -> Job:
    """Return the job as it is now, or NotFound."""
    return engine.opened.store.jobs.get(job_id)


def cancel_job(engine: "Engine", job_id: str) -> Job:
    """Cancel a job and return it; one that runs is stopped between two documents, and what it has added stays.

    Its state is `cancelling` until its worker has stopped. A job that is finished stays as it is.
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
    """Run the jobs that are queued or whose workers are gone, one after the other; return those it ended.

    `wait` stays for further ones, until `stop` is set. `alone` leaves at once if another worker is at work, which will
    take the others. A job that reads files is only taken on the machine that queued it, unless `jobs.any_host` was set
    there; `host` names another to stand in for. `on_job` gets every job when it begins, when it gets further, and when
    it ends.
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
    """Return whether a worker has the job, and is not known to be dead."""
    return job.state in ACTIVE and not find_dead_workers([job])


def _run_job(engine: "Engine", job: Job, stop: threading.Event, on_job: OnJob | None) -> list[Job]:
    """Run a job and return it as it ended; nothing if it was given back or taken over by another worker."""
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
        except (StoreMismatch, KeyboardInterrupt, SystemExit):  # it is the worker that ends, not the job
            with suppress(StoreMismatch):  # where the store refuses it, the lease runs out
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
        if now.store is not opened.store:  # it was switched to another model
            engine.opened = engine.opened.with_store(now.store, now.embedder, now.embedder_config)
    count = len(report.added) + len(report.changed) + report.skipped
    on_progress(Progress("added", count, count, "documents"))
    kept = report.passed_over[:MAX_KEPT_PASSED_OVER]  # a repository may have very many
    return {**asdict(replace(report, passed_over=kept)), "passed_over_counts": report.passed_over_counts}


def _pick_fields(table: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the settings that this version has too: the job may have been queued by another."""
    return {item.name: given[item.name] for item in fields(table) if item.name in given}


def _run_maintenance(engine: "Engine", job: Job, on_progress: OnProgress) -> dict[str, Any]:  # noqa: ARG001
    """Run the upkeep and return what was done, in words."""
    on_progress(Progress("maintaining", 0, 1, "collections"))
    done = engine.opened.store.maintain()
    on_progress(Progress("maintaining", 1, 1, "collections"))
    return {"done": done}


_RUNNERS: Final[dict[str, Runner]] = {"add": _run_add, MAINTAIN: _run_maintenance}


def register_runner(kind: str, runner: Runner) -> None:
    """Register who does the work of jobs of a kind, for what lies above the engine."""
    _RUNNERS[kind] = runner


def _get_runner(kind: str) -> Runner:
    if kind not in _RUNNERS:
        raise NotFound(
            f"this Clew has no jobs of the kind {kind!r}; update it, or queue the work with the one you have"
        )
    return _RUNNERS[kind]


def _get_language_model(engine: "Engine", name: str) -> LLM | None:
    """Return the language model that a job names: the worker's of that name, else one made with the worker's keys."""
    own = engine.opened.llm
    if own is not None and own.name == name:
        return own
    return drivers.make_language_model(replace(engine.settings.llm, name=name))


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
        """Keep how far the job is, for the next sign of life; StopJob if it was cancelled or taken by another."""
        self._progress = (stage, done, total)
        if self._wanted == "cancelling":
            raise StopJob("cancelled")
        if self._wanted is None:
            raise StopJob("queued")  # whatever: the store no longer listens to this worker

    def finish(self, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = "") -> bool:
        """Write the last progress and the outcome; return False if the job belongs to another worker by now."""
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
            except ClewError as error:  # the next one may succeed; the lease outlasts a few
                log.warning("job %s: no sign of life could be written: %s", self._job.id, error)
            if self._wanted is None:
                return


def make_job_id() -> str:
    """Make an id for a new job."""
    return uuid.uuid4().hex[:12]


def find_dead_workers(jobs: list[Job]) -> set[str]:
    """Find the workers on this machine whose processes are gone; of others only the lease can tell."""
    return {job.worker for job in jobs if job.state in ACTIVE and is_dead_worker(job.worker)}
