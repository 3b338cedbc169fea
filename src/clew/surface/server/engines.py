"""The open collections of a server: one engine each, opened when it is first asked for, with a worker for its jobs."""

import logging
import threading
from collections import defaultdict
from dataclasses import replace

from clew import drivers
from clew.core.errors import ClewError
from clew.core.jobs import Job
from clew.core.protocols import Embedder
from clew.engine import DEFAULT_EMBEDDER, Engine
from clew.engine.jobs import OnJob
from clew.surface.settings.load import Invocation

log = logging.getLogger(__name__)
RETRY_SECONDS = 5.0  # before a worker whose store failed looks for jobs again


class Engines:
    """The engines of the collections in one place. Threads may share it."""

    def __init__(self, start: Invocation, *, works: bool = True, on_job: OnJob | None = None) -> None:
        self.start = start
        self._works = works
        self._on_job = on_job
        self._engines: dict[str, Engine] = {}
        self._embedders: dict[str, Embedder] = {}
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._stop = threading.Event()

    def get(self, collection: str, *, create: bool = False) -> Engine:
        """The engine of a collection; NotFound if there is none, unless `create`."""
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

    def forget(self, collection: str) -> None:
        """Closes the engine of a collection, as before it is dropped."""
        with self._lock:
            engine = self._engines.pop(collection, None)
        if engine is not None:
            engine.close()

    def count_open(self) -> int:
        """How many collections are open."""
        return len(self._engines)

    def close(self) -> None:
        """Gives running jobs back to the queue, and closes every engine."""
        self._stop.set()
        for worker in self._workers:
            worker.join()
        with self._lock:
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.close()

    def _open(self, collection: str, *, create: bool) -> Engine:
        path, settings = self.start.path, self.start.settings
        name = settings.embedder.name or drivers.read_stored_embedder_name(path, collection) or DEFAULT_EMBEDDER
        with self._lock:
            known = self._embedders.get(name)
        embedder = known or drivers.make_embedder(replace(settings.embedder, name=name))
        engine = Engine.open(path, collection=collection, embedder=embedder, settings=settings, create=create)
        with self._lock:
            self._embedders[name] = embedder
        return engine

    def _start_worker(self, collection: str, engine: Engine) -> None:
        worker = threading.Thread(target=self._work, args=(collection, engine), name=f"clew-jobs-{collection}")
        self._workers.append(worker)
        worker.start()

    def _work(self, collection: str, engine: Engine) -> None:
        """Runs the jobs of a collection until the server stops, or the collection is closed."""
        while not self._stop.is_set() and self._engines.get(collection, engine) is engine:
            try:
                engine.run_jobs(wait=True, stop=self._stop, on_job=lambda job: self._report(collection, job))
            except ClewError as error:
                log.warning("jobs of %s: %s", collection, error)
            except Exception:
                log.exception("jobs of %s: unexpected error", collection)
            self._stop.wait(RETRY_SECONDS)

    def _report(self, collection: str, job: Job) -> None:
        if self._on_job is not None:
            self._on_job(job)
        if job.is_finished:
            log.info("job %s of %s is %s %s", job.id, collection, job.state, job.error)
