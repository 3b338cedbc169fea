"""The reader process: reads files for the process that started it, one at a time, and dies with it."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from clew.core.errors import DriverMissing, NothingRecognised, SourceError
from clew.index.read import READERS
from clew.index.read.guard import wrap_library_errors
from clew.index.read.process import wire
from clew.index.read.process.limits import get_step_seconds, read_within

KEPT_SHARE = 0.5  # of the memory limit: a process that holds more after a file is not reused
_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Answer requests from standard input until it is closed."""
    requests, replies = _claim_streams()
    _die_with_parent(parent)
    wire.write_reply(replies, wire.READY)
    with suppress(wire.Closed, BrokenPipeError):
        while True:
            request, data = wire.read_request(requests)
            _answer_request(request, data, requests, replies)
            del data


def _answer_request(request: wire.ReadRequest, data: bytes, requests: IO[bytes], replies: IO[bytes]) -> None:
    """Send the parts of the reply on demand, then a last reply with the outcome."""
    seconds = request.limits.seconds
    reply, value = wire.DONE, dict[str, Any]()
    kind = request.suffix if request.suffix == wire.EXPORT else f"{request.suffix} file"

    def start_step(pages: int) -> None:
        nonlocal seconds
        seconds = get_step_seconds(request.limits.seconds, pages)
        wire.write_reply(replies, wire.STEP, pages)
        _set_alarm(seconds)

    _limit_memory(request.limits.memory)
    _set_alarm(seconds)
    try:
        with read_within(request.limits, start_step), wrap_library_errors(request.uri, format_name=kind):
            for part in _read_parts(request, data):
                _set_alarm(0)
                wire.write_reply(replies, wire.PART, part)
                wire.wait_for_next(requests)
                _set_alarm(seconds)
    except SourceError as error:
        is_read = isinstance(error, NothingRecognised)
        reply, value = wire.REFUSED, {"source": error.source, "reason": error.reason, "is_read": is_read}
    except DriverMissing as error:
        reply, value = wire.MISSING, {"reason": str(error)}
    _set_alarm(0)
    is_kept = _get_resident_bytes() < KEPT_SHARE * request.limits.memory
    wire.write_reply(replies, reply, {**value, "is_kept": is_kept})


def _read_parts(request: wire.ReadRequest, data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the document of a file, or the kind or the channels of a chat export."""
    if request.suffix == wire.EXPORT:
        from clew.index.chat.served import serve_export  # readers of files must not depend on readers of chats

        yield from serve_export(request.uri, request.options)
        return
    document = READERS[request.suffix](data, uri=request.uri, name=request.name, **request.options)
    if len(document.text) > request.limits.text:
        size = f"{len(document.text):,} characters of text, and the limit is {request.limits.text:,}"
        raise SourceError(request.uri, f"is too large: {size} (ingestion.max_file_bytes)")
    yield wire.encode_document(document)


def _claim_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes to the parent, and discard the output of libraries."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return requests, replies


def _die_with_parent(parent: int) -> None:
    """Kill this process when its parent ends (Linux); elsewhere the alarm does, a little later.

    The parent is the thread that started this process, which lives as long as the process is needed.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(1)


def _set_alarm(seconds: float) -> None:
    """Kill this process after some seconds (0: never), even inside a library, a little later than the parent would."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 2.0 if seconds else 0.0)


def _limit_memory(limit: int) -> None:
    """Make allocations beyond the limit fail. macOS and Windows do not enforce the limit."""
    try:
        import resource
    except ImportError:
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if most < 0 else min(limit, most), most))


def _get_resident_bytes() -> int:
    """Return the resident memory of this process; without /proc its peak, or 0 if unknown."""
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
