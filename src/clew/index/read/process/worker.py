"""The reader process: reads one file after the other for the process that started it, and ends with it."""

import os
import signal
import sys
from contextlib import suppress
from typing import IO, Any

from clew.core.errors import DriverMissing, NothingRecognised, SourceError
from clew.index.read import READERS
from clew.index.read.guard import wrap_library_errors
from clew.index.read.process import wire
from clew.index.read.process.limits import get_step_seconds, read_within

KEPT_SHARE = 0.5  # of the memory limit: a process that holds more after a file is not used for another
_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Answers requests from the standard input until it is closed."""
    requests, replies = _claim_streams()
    _die_with_parent(parent)
    wire.write_reply(replies, wire.READY)
    with suppress(wire.Closed, BrokenPipeError):
        while True:
            request, data = wire.read_request(requests)
            if request.suffix == wire.EXPORT:
                _answer_export_request(request, requests, replies)
            else:
                _answer_request(request, data, replies)
            del data


def _answer_request(request: wire.ReadRequest, data: bytes, replies: IO[bytes]) -> None:
    limits = request.limits
    value: dict[str, Any]
    _limit_memory(limits.memory)

    def start_step(pages: int) -> None:
        wire.write_reply(replies, wire.STEP, pages)
        _set_alarm(get_step_seconds(limits.seconds, pages))

    _set_alarm(limits.seconds)
    try:
        with read_within(limits, start_step), wrap_library_errors(request.uri, format_name=f"{request.suffix} file"):
            reader = READERS[request.suffix]
            document = reader(data, uri=request.uri, name=request.name, **request.options)
            if len(document.text) > limits.text:
                size = f"{len(document.text):,} characters of text, and the limit is {limits.text:,}"
                raise SourceError(request.uri, f"is too large: {size} (ingestion.max_file_bytes)")
            encoded = wire.encode_document(document)
            reply, value = wire.DONE, {"document": encoded}
    except SourceError as error:
        reply, value = wire.REFUSED, {"reason": error.reason, "is_read": isinstance(error, NothingRecognised)}
    except DriverMissing as error:
        reply, value = wire.MISSING, {"reason": str(error)}
    _set_alarm(0)
    is_kept = _get_resident_bytes() < KEPT_SHARE * limits.memory
    try:
        wire.write_reply(replies, reply, {**value, "is_kept": is_kept})
    except MemoryError:
        reason = "is too large: its text needs more memory than ingestion.max_read_memory"
        wire.write_reply(replies, wire.REFUSED, {"reason": reason, "is_kept": False})


def _answer_export_request(request: wire.ReadRequest, requests: IO[bytes], replies: IO[bytes]) -> None:
    """Detects or reads a chat export, which is sent part by part, each when the caller asks for it."""
    from clew.index.chat.served import serve_export  # the readers of files do not depend on those of chats

    limits = request.limits
    seconds = limits.seconds
    _limit_memory(limits.memory)
    _set_alarm(seconds)
    value: dict[str, Any]
    try:
        with wrap_library_errors(request.uri, format_name="chat export"):
            for kind, part in serve_export(request.uri, request.options):
                if isinstance(part, int):
                    seconds = get_step_seconds(limits.seconds, part)
                wire.write_reply(replies, kind, part)
                if kind == wire.PART:
                    _set_alarm(0)
                    wire.wait_for_next(requests)
                _set_alarm(seconds)
        reply, value = wire.DONE, {}
    except SourceError as error:
        reply, value = wire.REFUSED, {"source": error.source, "reason": error.reason}
    _set_alarm(0)
    is_kept = _get_resident_bytes() < KEPT_SHARE * limits.memory
    wire.write_reply(replies, reply, {**value, "is_kept": is_kept})


def _claim_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent; whatever a library prints goes nowhere."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return requests, replies


def _die_with_parent(parent: int) -> None:
    """Ends this process when its parent ends, whatever it is doing (Linux); elsewhere the alarm does, a little later.

    The parent is the thread that started this process; it lives as long as the process is wanted.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def _set_alarm(seconds: float) -> None:
    """Ends this process after some seconds, even inside a library, a little later than the parent would; 0: never."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 2.0 if seconds else 0.0)


def _limit_memory(limit: int) -> None:
    """Makes allocations beyond the limit fail; macOS and Windows do not enforce it."""
    try:
        import resource
    except ImportError:
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


def _get_resident_bytes() -> int:
    """The memory that this process holds, as far as the system tells."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
