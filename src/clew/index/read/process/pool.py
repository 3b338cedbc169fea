"""The caller's side of the reader process: start it when first needed, reuse it, and kill it at its limits.

A thread for each process starts and watches it. It kills the process when a file takes too long, when the caller is
cancelled, and when the process was idle for a while. The process is started by a command line, not by fork (unsafe with
threads) or multiprocessing (which imports the caller's main module again).
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import IO, Any

from clew.core.errors import DriverFailed, DriverMissing, NothingRecognised, SourceError
from clew.core.ids import make_document_id
from clew.core.parallel import is_cancelled
from clew.core.types import Document
from clew.index.read.process import wire
from clew.index.read.process.limits import ReadLimits, get_step_seconds
from clew.index.read.sections import NUMBER, PARENT, TOTAL, validate_document

IDLE_SECONDS = 10.0  # after which an idle process is killed
MAX_IDLE = 2  # processes kept for the next file
START_SECONDS = 60.0
_WATCH_SECONDS = 0.1
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from clew.index.read.process.worker import main; main(int(sys.argv[2]))"
)
# An interrupt at the terminal must reach only the caller, who then kills the process.
_OWN_GROUP: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if sys.platform == "win32"
    else {"start_new_session": True}
)


def read_in_process(
    suffix: str, data: bytes, *, uri: str, name: str, limits: ReadLimits, charset: str = ""
) -> Document:
    """Read the bytes of a file in another process; raise SourceError if a limit or a crash ended it.

    The id and access labels of the document are set here, so that a hijacked parser cannot forge them.
    """
    options = {"charset": charset} if charset else {}
    values = list(read_parts_in_process(wire.ReadRequest(suffix, uri, name, limits, options), data))
    try:
        document = wire.decode_document(values[0])
        sections = tuple(replace(section, access=None) for section in document.sections)
        meta = {key: value for key, value in document.meta.items() if key not in (PARENT, NUMBER, TOTAL)}
        return validate_document(
            Document(make_document_id(uri), document.text, sections, "page", document.title, uri, meta=meta)
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(uri, "cannot be read: its reader gave no document; it is broken") from error


def read_parts_in_process(request: wire.ReadRequest, data: bytes = b"") -> Iterator[Any]:
    """Yield the parts of the reply to a request, reading each on demand."""
    process = _take_process(request.uri)
    is_kept = False
    try:
        for kind, value in process.ask(request, data):
            if kind == wire.PART:
                yield value
                continue
            is_kept = bool(value["is_kept"])
            if kind == wire.MISSING:
                raise DriverMissing(value["reason"])
            if kind == wire.REFUSED:
                error = NothingRecognised if value["is_read"] else SourceError
                raise error(str(value["source"]), value["reason"])
    finally:
        if is_kept:
            _pool.give_back(process)
        else:
            process.close()


def _take_process(uri: str) -> "ReaderProcess":
    """Take a process from the pool, retrying once; raise SourceError, for this file alone, if none starts."""
    with suppress(DriverFailed):
        return _pool.take()
    try:
        return _pool.take()
    except DriverFailed as error:
        raise SourceError(uri, f"cannot be read: {error}") from error


class ReaderProcess:
    """A running reader process, for one caller at a time."""

    def __init__(self, pool: "ProcessPool") -> None:
        self._pool = pool
        self._lock = Lock()
        self._deadline: float | None = None
        self._idle_since = 0.0
        self._is_cancelled: Callable[[], bool] = bool
        self._ended_by = ""
        self._is_started, self._is_closed = Event(), Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._set_deadline(START_SECONDS)
        self._thread = Thread(target=self._start_and_watch, name="clew-reader", daemon=True)
        self._thread.start()
        self._is_started.wait()
        try:
            kind, _ = wire.read_reply(self._get_stream("stdout"))
        except (wire.Closed, OSError, ValueError) as error:
            self.close()
            reason = f"check that {sys.executable or 'the interpreter'} can import clew"
            raise DriverFailed(f"the process that reads files did not start; {reason}") from error
        except BaseException:
            self.close()
            raise
        assert kind == wire.READY
        self._set_idle()

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def ask(self, request: wire.ReadRequest, data: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the kind and value of each reply; raise SourceError if the process ends before the last one.

        The time limit applies to each step, such as a page. Time the caller spends on a part does not count.
        """
        seconds = left = request.limits.seconds
        try:
            self._set_deadline(left)
            wire.write_request(self._get_stream("stdin"), request, data)
            while True:
                began = monotonic()
                self._set_deadline(left)
                kind, value = wire.read_reply(self._get_stream("stdout"))
                left -= monotonic() - began
                if kind == wire.STEP:
                    seconds = left = get_step_seconds(request.limits.seconds, int(value))
                    continue
                self._set_idle()
                yield kind, value
                if kind != wire.PART:
                    return
                wire.ask_for_next(self._get_stream("stdin"))
        except (wire.Closed, OSError, ValueError) as error:
            raise SourceError(request.uri, self._explain_end(seconds, request.limits.memory)) from error
        finally:
            self._set_idle()

    def close(self) -> None:
        """Kill the process and join the thread that watches it."""
        self._is_closed.set()
        self._thread.join()

    def forget(self) -> None:
        """Leave the process to the parent: this object is a copy made by fork."""
        if self._process is not None:
            self._process.returncode = 0  # prevents a warning that nobody waits for it

    def _set_deadline(self, seconds: float) -> None:
        with self._lock:
            self._is_cancelled = partial(copy_context().run, is_cancelled)  # of the current caller, callable anywhere
            self._deadline = monotonic() + seconds

    def _set_idle(self) -> None:
        with self._lock:
            self._deadline, self._idle_since = None, monotonic()

    def _get_stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] | None = getattr(self._process, name, None)
        if stream is None:
            raise wire.Closed
        return stream

    def _explain_end(self, seconds: float, memory: int) -> str:
        """Explain why the process ended in the middle of a file, worded to follow the file name."""
        code = self._process.wait() if self._process else None
        if self._ended_by == "cancelled":
            return "was not read: the work was cancelled"
        if self._ended_by or code == -getattr(signal, "SIGALRM", 0):
            return f"took more than {seconds:g} seconds to read, for a file or a page (ingestion.max_read_seconds)"
        more = f"{memory // 1_000_000:,} MB of memory (ingestion.max_read_memory)"
        return f"cannot be read: its reader crashed; it is broken, or needs more than {more}"

    def _start_and_watch(self) -> None:
        """Start and watch the process, in its own thread: on Linux the process dies with the thread that started it."""
        path = [os.path.abspath(each) if each else each for each in sys.path]  # noqa: PTH100
        command = [sys.executable, "-I", "-c", _BOOT, json.dumps(path), str(os.getpid())]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **_OWN_GROUP
            )
        except (OSError, ValueError):
            self._is_started.set()
            return
        self._process = process
        self._is_started.set()
        while not self._is_closed.wait(_WATCH_SECONDS):
            with self._lock:
                now, deadline = monotonic(), self._deadline
                if deadline is not None:
                    self._ended_by = "time" if now > deadline else "cancelled" if self._is_cancelled() else ""
                    if self._ended_by:
                        process.kill()
                        break
                is_unused = deadline is None and now - self._idle_since > IDLE_SECONDS
            if is_unused and self._pool.retire(self):
                break
        process.kill()
        process.wait()
        self._is_closed.wait(0 if self._deadline is None else None)  # the caller may still be reading the rest
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream:
                    stream.close()
        self._pool.discard(self)


class ProcessPool:
    """The reader processes of this process: the idle ones, and all running ones."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[ReaderProcess] = []
        self._running: set[ReaderProcess] = set()

    def take(self) -> ReaderProcess:
        """Return an idle process, else a new one."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                process = ReaderProcess(self)
                with self._lock:
                    self._running.add(process)
                return process
            if process.is_running:
                return process
            process.close()

    def give_back(self, process: ReaderProcess) -> None:
        """Keep a process for the next file, or close it if MAX_IDLE are idle."""
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(process)
                return
        process.close()

    def retire(self, process: ReaderProcess) -> bool:
        """Remove a process from the idle ones; return False if it has just been taken."""
        with self._lock:
            if process in self._idle:
                self._idle.remove(process)
                return True
        return False

    def discard(self, process: ReaderProcess) -> None:
        """Remove an ended process from the running ones."""
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """Close all processes."""
        with self._lock:
            running, self._idle = list(self._running), []
        for process in running:
            process.close()

    def reset_after_fork(self) -> None:
        """Empty the pool in a forked child, which must not use the parent's pipes."""
        for process in self._running:
            process.forget()
        self._lock, self._idle, self._running = Lock(), [], set()


_pool = ProcessPool()
atexit.register(_pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset_after_fork)
