"""Replies of the reader process that come in parts, each when it is asked for."""

from collections.abc import Iterator
from typing import Any

from clew.core.errors import SourceError
from clew.index.read.process import wire
from clew.index.read.process.pool import give_back_process, take_process


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
