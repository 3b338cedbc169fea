"""The open collections of a server: one engine each, opened on first use, with a worker for its jobs."""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from clew import drivers
from clew.core.errors import ClewError, NotFound, StoreMismatch
from clew.core.jobs import Job
from clew.core.protocols import Embedder
from clew.core.stored import DroppedCollection
from clew.engine import MEMORY, Engine
from clew.engine.jobs import OnJob
from clew.surface.settings.load import Invocation

log = logging.getLogger(__name__)
RETRY_SECONDS = 5.0  # before a worker whose store failed looks for jobs again


@dataclass(frozen=True, slots=True)
class Worker:
    """The thread that runs the jobs of a collection, and the event that stops it."""

    thread: threading.Thread
    stop: threading.Event

    def end(self) -> None:
        """Stop the thread, and wait until it has handed its job back."""
        self.stop.set()
        self.thread.join()


class Engines:
    """The engines of the collections in one place. Threads may share it."""

    def __init__(self, start: Invocation, *, works: bool = True, on_job: OnJob | None = None) -> None:
        self.start = start
        self._works = works
        self._on_job = on_job
        self._engines: dict[str, Engine] = {}
        self._embedders: dict[str, Embedder] = {}
        self._workers: dict[str, Worker] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def get(self, collection: str, *, create: bool = False) -> Engine:
        """Return the engine of a collection; NotFound if there is none, unless `create`."""
        with self._lock:
            if collection in self._engines:
                return self._engines[collection]
            opening = self._opening[collection]
        with opening:
            with self._lock:
                if collection in self._engines:
                    return self._engines[collection]
            engine = self._open(collection, create=create)
            with self._lock:
                self._engines[collection] = engine
            if self._works:
                self._start_worker(collection, engine)
            return engine

    @contextmanager
    def open_or_empty(self, collection: str) -> Iterator[Engine]:
        """Open the engine of a collection, or an empty one in memory if there is none; nothing is created."""
        try:
            engine = self.get(collection)
        except NotFound:
            with Engine.open(MEMORY, embedder=self._get_embedder(collection), settings=self.start.settings) as empty:
                yield empty
        else:
            yield engine

    def holds(self, collection: str, engine: Engine) -> bool:
        """Return whether an engine is still the open engine of its collection."""
        return self._engines.get(collection) is engine

    def drop(self, collection: str) -> DroppedCollection:
        """Close a collection and remove it for good; return its record. It cannot be opened meanwhile."""
        with self._lock:
            opening = self._opening[collection]
        with opening:
            with self._lock:
                engine, worker = self._engines.pop(collection, None), self._workers.pop(collection, None)
            if worker is not None:
                worker.end()
            if engine is not None:
                engine.close()
            return Engine.drop_collection(self.start.path, collection)

    def count_open(self) -> int:
        """Count the open collections."""
        return len(self._engines)

    def close(self) -> None:
        """Hand running jobs back to the queue, and close every engine."""
        with self._lock:
            self._closed = True
            engines, self._engines = list(self._engines.values()), {}
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.stop.set()
        for worker in workers:
            worker.end()
        for engine in engines:
            engine.close()

    def _open(self, collection: str, *, create: bool) -> Engine:
        path, settings, embedder = self.start.path, self.start.settings, self._get_embedder(collection)
        try:
            engine = Engine.open(path, collection=collection, embedder=embedder, settings=settings, create=create)
        except NotFound:
            advice = "GET /v1/collections lists them, and adding to one makes it"
            raise NotFound(f"there is no collection {collection!r}; {advice}") from None
        except StoreMismatch:  # it may be switching to this embedder
            return Engine.open(path, collection=collection, embedder=embedder.name, settings=settings, create=create)
        config = replace(settings.embedder, name=embedder.name)  # with which the engine can make it again
        engine.opened = replace(engine.opened, embedder_config=config)
        return engine

    def _get_embedder(self, collection: str) -> Embedder:
        """Return the embedder of a collection; collections with the same embedder share it."""
        path, settings = self.start.path, self.start.settings
        stored = drivers.read_stored_embedder_name(path, collection)
        name = drivers.choose_embedder_name(settings.embedder.name, stored)
        with self._lock:
            known = self._embedders.get(name)
        embedder = known or drivers.make_embedder(replace(settings.embedder, name=name))
        with self._lock:
            return self._embedders.setdefault(name, embedder)

    def _start_worker(self, collection: str, engine: Engine) -> None:
        stop = threading.Event()
        name = f"clew-jobs-{collection}"
        worker = Worker(threading.Thread(target=self._work, args=(collection, engine, stop), name=name), stop)
        with self._lock:
            if self._closed:
                return
            self._workers[collection] = worker
            worker.thread.start()

    def _work(self, collection: str, engine: Engine, stop: threading.Event) -> None:
        """Run the jobs of a collection until it is closed."""
        while not stop.is_set():
            try:
                engine.run_jobs(wait=True, stop=stop, on_job=lambda job: self._report(collection, job))
            except ClewError as error:
                log.warning("jobs of %s: %s", collection, error)
            except Exception:  # whatever a job's own code raised: the thread must live, or no later job runs
                log.exception("jobs of %s: unexpected error", collection)
            stop.wait(RETRY_SECONDS)

    def _report(self, collection: str, job: Job) -> None:
        if self._on_job is not None:
            self._on_job(job)
        if job.is_finished:
            log.info("job %s of %s is %s %s", job.id, collection, job.state, job.error)
