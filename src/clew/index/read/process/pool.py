"""The caller's side of the reader process: started when first needed, kept for the next file, ended at its limits.

One thread per process starts it and watches it: it ends the process when a file takes too long, when the caller is
cancelled, and when nothing was read for a while. The process is started by its command line, not by fork (which is not
safe beside threads) nor by multiprocessing (which imports the caller's main module again).
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

IDLE_SECONDS = 10.0  # after which a process that reads nothing is ended
MAX_IDLE = 2  # processes kept for the next file
START_SECONDS = 60.0
_WATCH_SECONDS = 0.1
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from clew.index.read.process.worker import main; main(int(sys.argv[2]))"
)
_WINDOWS_FLAGS = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


def read_in_process(
    suffix: str, data: bytes, *, uri: str, name: str, limits: ReadLimits, charset: str = ""
) -> Document:
    """The Document of the bytes of a file, read in another process; a SourceError where a limit or a crash ended it.

    A process that does not start is started once more. Which document it is, and who may see it, is known here: a
    parser that a file has taken over cannot give it the name of another one, or labels.
    """
    options = {"charset": charset} if charset else {}
    request = wire.ReadRequest(suffix, uri, name, limits, options)
    process = take_process(uri)
    try:
        kind, value = process.ask(request, data)
        is_kept = bool(value["is_kept"])
    except BaseException:
        process.close()
        raise
    if is_kept:
        _pool.give_back(process)
    else:
        process.close()
    if kind == wire.DONE:
        return take_document(value["document"], uri)
    if kind == wire.MISSING:
        raise DriverMissing(value["reason"])
    raise (NothingRecognised if value.get("is_read") else SourceError)(uri, value["reason"])


def take_process(uri: str) -> "ReaderProcess":
    """A process that can be asked; a SourceError if two in a row did not start, for this file alone."""
    with suppress(DriverFailed):
        return _pool.take()
    try:
        return _pool.take()
    except DriverFailed as error:
        raise SourceError(uri, f"cannot be read: {error}") from error


def give_back_process(process: "ReaderProcess") -> None:
    """Keeps a process for the next file."""
    _pool.give_back(process)


class ReaderProcess:
    """A running reader process, for one caller at a time."""

    def __init__(self, pool: "ProcessPool") -> None:
        self._pool = pool
        self._lock = Lock()
        self._deadline: float | None = monotonic() + START_SECONDS
        self._idle_since = monotonic()
        self._is_cancelled: Callable[[], bool] = _follow_cancellation()
        self._ended_by = ""
        self._is_started, self._is_closed = Event(), Event()
        self._process: subprocess.Popen[bytes] | None = None
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
        """Whether it can be asked."""
        return self._process is not None and self._process.poll() is None

    def ask(self, request: wire.ReadRequest, data: bytes) -> tuple[bytes, Any]:
        """The kind and value of the reply; a SourceError if the process ended before it came."""
        with self._lock:
            self._is_cancelled = _follow_cancellation()
            self._deadline = monotonic() + request.limits.seconds
        try:
            wire.write_request(self._get_stream("stdin"), request, data)
            while True:
                kind, value = wire.read_reply(self._get_stream("stdout"))
                if kind != wire.STEP:
                    return kind, value
                with self._lock:
                    self._deadline = monotonic() + get_step_seconds(request.limits.seconds, int(value))
        except (wire.Closed, OSError, ValueError) as error:
            raise SourceError(request.uri, self._explain_end(request.limits)) from error
        finally:
            self._set_idle()

    def ask_for_parts(self, request: wire.ReadRequest) -> Iterator[tuple[bytes, Any]]:
        """The kind and value of each reply; while the caller works on a part, no time is counted."""
        seconds = left = request.limits.seconds
        try:
            wire.write_request(self._get_stream("stdin"), request, b"")
            while True:
                began = monotonic()
                with self._lock:
                    self._is_cancelled = _follow_cancellation()
                    self._deadline = began + left
                kind, value = wire.read_reply(self._get_stream("stdout"))
                left -= monotonic() - began
                if kind == wire.STEP:
                    left += get_step_seconds(request.limits.seconds, int(value)) - seconds
                    seconds = get_step_seconds(request.limits.seconds, int(value))
                    continue
                self._set_idle()
                yield kind, value
                if kind != wire.PART:
                    return
                wire.ask_for_next(self._get_stream("stdin"))
        except (wire.Closed, OSError, ValueError) as error:
            raise SourceError(request.uri, self._explain_end(replace(request.limits, seconds=seconds))) from error
        finally:
            self._set_idle()

    def close(self) -> None:
        """Ends the process and the thread that watches it."""
        self._is_closed.set()
        self._thread.join()

    def forget(self) -> None:
        """Leaves the process to the one that started it: this is a copy of that one, made by fork."""
        if self._process is not None:
            self._process.returncode = 0  # nobody waits for it here, and Python is not to warn about that

    def _set_idle(self) -> None:
        with self._lock:
            self._deadline, self._idle_since = None, monotonic()

    def _get_stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] | None = getattr(self._process, name, None)
        if stream is None:
            raise wire.Closed
        return stream

    def _explain_end(self, limits: ReadLimits) -> str:
        """Why the process ended in the middle of a file, worded to follow its name."""
        code = self._process.wait() if self._process else None
        if self._ended_by == "cancelled":
            return "was not read: the work was cancelled"
        if self._ended_by or code == -getattr(signal, "SIGALRM", 0):
            return (
                f"took more than {limits.seconds:g} seconds to read, for a file or a page (ingestion.max_read_seconds)"
            )
        memory = f"{limits.memory // 1_000_000:,} MB of memory (ingestion.max_read_memory)"
        return f"cannot be read: its reader crashed; it is broken, or needs more than {memory}"

    def _start_and_watch(self) -> None:
        """Runs in a thread of its own, because on Linux the process ends with the thread that started it."""
        path = [os.path.abspath(each) if each else each for each in sys.path]  # noqa: PTH100
        command = [sys.executable, "-I", "-c", _BOOT, json.dumps(path), str(os.getpid())]
        own_group: dict[str, Any] = (
            {"creationflags": _WINDOWS_FLAGS} if sys.platform == "win32" else {"start_new_session": True}
        )  # an interrupt at the terminal is for the caller, who ends the process
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **own_group
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
        self._is_closed.wait(0 if self._deadline is None else None)  # the caller still reads what is left
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream:
                    stream.close()
        self._pool.discard(self)


class ProcessPool:
    """The reader processes of this process: those that wait for a file, and all that run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[ReaderProcess] = []
        self._running: set[ReaderProcess] = set()

    def take(self) -> ReaderProcess:
        """A process that waits, or else a new one."""
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
        """Keeps a process for the next file."""
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(process)
                return
        process.close()

    def retire(self, process: ReaderProcess) -> bool:
        """Takes a process out of those that wait; False if somebody has just taken it."""
        with self._lock:
            if process in self._idle:
                self._idle.remove(process)
                return True
        return False

    def discard(self, process: ReaderProcess) -> None:
        """Forgets a process that has ended."""
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            running, self._idle = list(self._running), []
        for process in running:
            process.close()

    def reset_after_fork(self) -> None:
        """Empties the pool of a forked copy of this process, which must not use the pipes of the original."""
        for process in self._running:
            process.forget()
        self._lock, self._idle, self._running = Lock(), [], set()


def _follow_cancellation() -> Callable[[], bool]:
    """A function that says, in any thread, whether the caller of now was cancelled."""
    return partial(copy_context().run, is_cancelled)


_pool = ProcessPool()
atexit.register(_pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset_after_fork)


def take_document(values: Any, uri: str) -> Document:
    """The document of a reply, as the one that was asked for; a SourceError if the reply is none."""
    try:
        document = wire.decode_document(values)
        sections = tuple(replace(section, access=None) for section in document.sections)
        meta = {key: value for key, value in document.meta.items() if key not in (PARENT, NUMBER, TOTAL)}
        return validate_document(
            Document(make_document_id(uri), document.text, sections, "page", document.title, uri, meta=meta)
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(uri, "cannot be read: its reader gave no document; it is broken") from error


def read_parts_in_process(request: wire.ReadRequest) -> Iterator[Any]:
    """The parts of the reply to a request, each read when it is asked for; a SourceError where reading ended early."""
    process = take_process(request.uri)
    is_kept = False
    try:
        for kind, value in process.ask_for_parts(request):
            if kind == wire.PART:
                yield value
                continue
            is_kept = bool(value["is_kept"])
            if kind != wire.DONE:
                raise SourceError(str(value.get("source", request.uri)), value["reason"])
    finally:
        if is_kept:
            give_back_process(process)
        else:
            process.close()
