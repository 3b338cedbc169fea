"""Fast adding: everything gets static vectors at once, and a job stages those of the better model and switches to them.

The job is written down before the first document is added, and held while the `add` runs: if that is killed, the job is
free, and whoever works next upgrades what is there.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clew import drivers
from clew.core.errors import SettingsError, StoreMismatch
from clew.core.filter import EVERYTHING
from clew.core.flush import flush_after
from clew.core.jobs import ACTIVE, UPGRADE, Job, Upgrade
from clew.core.protocols import Embedder, JobQueue, Store
from clew.core.report import OnProgress, SourceFailure
from clew.core.settings import EmbedderConfig, Settings
from clew.engine.discard import discard_vectors
from clew.engine.lease import Lease, make_job_id, make_worker_name

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.opened import Opened

ADDING: Final = "adding"  # its stage while documents are added
log = logging.getLogger("clew")
Notes = tuple[SourceFailure, ...]


@contextmanager
def hold_upgrade(engine: "Engine", *, max_cost: float | None) -> Iterator[Notes]:
    """Gives an empty collection the fast model and holds the job that upgrades it until the block ends.

    A collection that has vectors of a better model, or whose own model is the fast one, stays as it is; a note says so.
    """
    opened = engine.opened
    opened.check_unbounded()
    config, own = opened.embedder_config, opened.embedder.name
    pending = find_upgrade(opened)
    if pending is None and config is None:
        raise SettingsError(
            "the embedder was given as an object, which a worker cannot make; name it to Engine.open for a fast add"
        )
    fast = drivers.make_embedder(_name_fast(config or opened.settings.embedder))
    if pending is None and (opened.store.stats().chunks or own == fast.name):
        yield (SourceFailure("fast", f"the collection has vectors of {own}, which were made of the new texts too"),)
        return
    if pending is not None and pending.state in ("queued", "running"):
        yield ()  # it upgrades what is added now, too
        return
    to = own if pending is None else pending.to
    with _hold_job(opened, {"from": fast.name, "to": to, "max_cost": max_cost}):
        if pending is None:
            engine.reembed(_name_fast(config or opened.settings.embedder).name)  # of nothing: it only switches
        yield ()


@contextmanager
def _hold_job(opened: "Opened", request: Mapping[str, Any]) -> Iterator[None]:
    """Queues an upgrade that nobody takes before the block ends, or its process."""
    queue = opened.store.jobs
    job = Job(make_job_id(), UPGRADE, request, state="running", stage=ADDING, worker=make_worker_name(), attempts=1)
    with Lease(queue, queue.put(job), opened.settings.jobs.lease) as lease:
        try:
            yield
        finally:
            lease.finish(state="queued")


def run_upgrade(engine: "Engine", job: Job, on_progress: OnProgress) -> dict[str, Any]:
    """Stages the vectors of the better model, switches to them and deletes the fast ones; how many were made."""
    from clew.index.add.calibrate import calibrate_once

    to, made = job.request["to"], 0
    if engine.opened.embedder.name != to:
        report = engine.reembed(to, max_cost=job.request["max_cost"], on_progress=on_progress)
        made = report.embedded
        if report.stopped:
            return {"embedded": made, "stopped": report.stopped}
    else:  # a worker that was killed may have switched, and no more
        calibrate_once(engine.opened.store, engine.opened.embedder)
        with flush_after(engine.opened.store.flush, on_progress):
            pass
    staged = engine.opened.store.staged_model()
    if staged and staged.embedder == job.request["from"]:
        discarded = discard_vectors(engine.opened.store)
        for failure in discarded.failed if discarded is not None else ():
            log.warning("%s", failure.reason)
    return {"embedded": made}


def find_upgrade(opened: "Opened") -> Upgrade | None:
    """How far the upgrade of the collection to a better model is; None if there is none, as after it."""
    own = opened.embedder.name
    if opened.boundary != EVERYTHING or own != opened.settings.embedder.fast:
        return None
    return _find_upgrade_from(opened.store.jobs, own)


def _find_upgrade_from(queue: JobQueue, embedder: str) -> Upgrade | None:
    jobs = [job for job in queue.all() if job.kind == UPGRADE and job.request["from"] == embedder]
    waiting = [job for job in jobs if job.state != "done"]
    if not waiting:
        return None
    job = min(waiting[::-1], key=lambda each: (each.state not in ACTIVE, each.is_finished))
    return Upgrade(job.request["to"], job.id, job.state, job.stage, job.done, job.total, job.error)


def make_target(opened: "Opened") -> Embedder | None:
    """The embedder that the collection is being upgraded to: by its tokens and name texts are cut meanwhile."""
    found = find_upgrade(opened)
    config = opened.embedder_config or opened.settings.embedder
    return drivers.make_embedder(replace(config, name=found.to)) if found else None


def open_during_upgrade(
    path: str | Path, collection: str, embedder: Embedder, settings: Settings
) -> tuple[Store, Embedder]:
    """The store of a collection that is being upgraded to this embedder, and the fast one, which it has until then.

    If the upgrade has just ended, the store is opened with this embedder; StoreMismatch if it is not upgraded to it.
    """
    stored = drivers.read_stored_embedder_name(path, collection)
    fast = drivers.make_embedder(_name_fast(settings.embedder))
    try:
        store = drivers.open_store(path, collection, embedder=fast, config=settings.store) if stored else None
    except StoreMismatch:
        store = None
    if store is not None:
        found = _find_upgrade_from(store.jobs, fast.name)
        if found and found.to == embedder.name:
            return store, fast
        store.close()
    return drivers.open_store(path, collection, embedder=embedder, config=settings.store), embedder


def _name_fast(config: EmbedderConfig) -> EmbedderConfig:
    return replace(config, name=config.fast)
