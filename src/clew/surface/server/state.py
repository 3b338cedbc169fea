"""The state of a running server: its settings, keys, engines, threads and counters."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypedDict, TypeVar

from clew.core.errors import SettingsError
from clew.core.jobs import Job
from clew.core.parallel import cancelled_by
from clew.core.settings import ServerConfig
from clew.core.stored import DroppedCollection
from clew.drivers import MEMORY
from clew.surface.server.engines import Engines
from clew.surface.server.errors import Places, ServerBusy, TimeExceeded
from clew.surface.server.events import Streams
from clew.surface.server.hosts import is_loopback
from clew.surface.server.keys import Keys, find_server_folder, open_keys
from clew.surface.server.observe import Metrics, start_span
from clew.surface.server.uploads import Uploads
from clew.surface.settings.load import Invocation

log = logging.getLogger(__name__)
MAX_WAITING = 1000  # requests that may wait for a free thread of their pool


class _Limits(TypedDict):
    max_waiting: int
    timeout: float
    places: Places


class Server:
    """A server over the collections of one place. Close it after use."""

    def __init__(self, start: Invocation) -> None:
        if start.path == MEMORY:
            raise SettingsError("a collection in memory cannot be served; give a folder or postgresql://…")
        self.start = start
        self.is_closing = False  # streams end then
        self.config: ServerConfig = start.settings.server
        self.folder = find_server_folder(start)
        self.keys = open_keys(start)
        check_address(self.config, self.keys)
        self.places = Places(start.path, self.folder)
        self.metrics = Metrics()
        self.uploads = Uploads(self.folder / "uploads")
        self._stop_sweeping = threading.Event()
        self._sweeping = threading.Thread(target=self._sweep_on, name="clew-uploads", daemon=True)
        self.engines = Engines(start, works=not self.config.read_only, on_job=self._on_job)
        limits = _Limits(max_waiting=MAX_WAITING, timeout=self.config.timeout, places=self.places)
        self.searches = CallPool("search", self.config.max_concurrent, **limits)
        self.answers = CallPool("answer", self.config.max_answers, **limits)
        self.saves = CallPool("upload", self.config.max_answers, **limits)
        self.streams = Streams(self.config.max_answers, **limits)
        self.metrics.add_gauge("clew_calls_pending", "Calls that run or wait.", self._count_pending)
        self.metrics.add_gauge("clew_collections_open", "Open collections.", self.engines.count_open)

    def resume(self) -> None:
        """Resume uploads that an earlier server left unfinished; from now on also those of other servers that stop."""
        if not self.config.read_only:
            self.uploads.sweep(self.engines)
            self._sweeping.start()

    def _sweep_on(self) -> None:
        """Poll for uploads whose server is gone, in collections that nobody has opened here yet."""
        while not self._stop_sweeping.wait(self.start.settings.jobs.lease):
            try:
                self.uploads.sweep(self.engines)
            except Exception:  # the folder or the database may be out of reach for a while
                log.warning("the uploads could not be looked through", exc_info=True)

    def drop_collection(self, name: str) -> DroppedCollection:
        """Close a collection and remove it for good, with its uploads; return its record."""
        with self.uploads.changing(name):
            dropped = self.engines.drop(name)
            self.uploads.drop_collection(name)
        return dropped

    def close(self) -> None:
        """End streams, refuse further calls, hand jobs back, and close the collections."""
        self.is_closing = True
        self._stop_sweeping.set()
        if self._sweeping.is_alive():
            self._sweeping.join()
        self.streams.close()
        self.searches.close()
        self.answers.close()
        self.saves.close()
        self.engines.close()
        self.keys.close()

    def _on_job(self, job: Job) -> None:
        if job.is_finished:
            self.uploads.remove_finished(job)

    def _count_pending(self) -> float:
        return self.searches.pending + self.answers.pending + self.saves.pending + self.streams.count_open()


def check_address(config: ServerConfig, keys: Keys) -> None:
    """Raise SettingsError for an invalid address, or for one that others can reach while there are no keys.

    Raises DriverFailed if the keys cannot be read.
    """
    known = keys.read()
    try:
        socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise SettingsError(
            f"server.host is {config.host!r}, which is no address; 127.0.0.1 is this machine alone, 0.0.0.0 all of them"
        ) from None
    if not is_loopback(config.host) and not known:
        raise SettingsError(
            f"server.host is {config.host}, which others can reach, and there is no key; `clew keys add NAME` makes one"
        )


T = TypeVar("T")


class CallPool:
    """A thread pool for blocking calls, first come, first served."""

    def __init__(self, name: str, max_concurrent: int, *, max_waiting: int, timeout: float, places: Places) -> None:
        self._places = places
        self._threads = ThreadPoolExecutor(max_concurrent, thread_name_prefix=f"clew-{name}")
        self._limit = max_concurrent + max_waiting
        self._timeout = timeout
        self._calls: set[threading.Event] = set()  # one event per call, set when nobody waits for it
        self._closed = False

    @property
    def pending(self) -> int:
        """The calls that run or wait."""
        return len(self._calls)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call and return its result; raise ServerBusy if too many wait, TimeExceeded if it takes too long.

        A call that nobody waits for any more is cancelled: a request to a model ends, other work at its next step.
        """
        if self._closed:
            raise ServerBusy("the server is shutting down; ask again", headers={"retry-after": "5"})
        if len(self._calls) >= self._limit:
            raise ServerBusy("too many requests are waiting; ask again later", headers={"retry-after": "1"})
        cancelled = threading.Event()
        self._calls.add(cancelled)

        def work() -> T:
            if cancelled.is_set():
                raise TimeExceeded("nobody waits for this any more")
            with cancelled_by(cancelled), start_span("clew.call"), self._places.hidden():
                return call()

        future = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)
        future.add_done_callback(lambda _: self._calls.discard(cancelled))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(future)
        except TimeoutError:
            future.add_done_callback(_forget)
            raise TimeExceeded(
                f"not done within {self._timeout:g} seconds (server.timeout); ask for less, or raise the limit"
            ) from None
        finally:
            if not future.done():
                future.add_done_callback(_forget)
                cancelled.set()

    def close(self) -> None:
        """Refuse further calls, and end running ones at their next step."""
        self._closed = True
        for each in tuple(self._calls):
            each.set()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _forget(future: "asyncio.Future[Any]") -> None:
    """Retrieve the error of a call that nobody waits for, so that asyncio does not report it."""
    if not future.cancelled():
        future.exception()
