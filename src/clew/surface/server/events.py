"""Server-sent events: the answer of an engine as it is written, over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.responses import Response, StreamingResponse

from clew.core.errors import ClewError, DriverFailed
from clew.core.events import (
    AnswerEvent,
    EventStream,
    FinalEvent,
    SentenceEvent,
    StepEvent,
    StepStartEvent,
    TokenEvent,
    VerdictEvent,
)
from clew.core.trace import Trace
from clew.surface.server.errors import Places, ServerBusy, TimeExceeded, error_to_json
from clew.surface.to_json import answer_to_json, dump_json, to_json

EVENTS_SCHEMA: dict[str, Any] = {  # of one event, as OpenAPI describes streams
    "text/event-stream": {
        "schema": {
            "type": "object",
            "required": ["data"],
            "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
        }
    }
}
POLL_SECONDS = 0.1
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def format_event(name: str, data: str) -> str:
    """Format one event; the data is JSON, which has no line breaks of its own."""
    return f"event: {name}\ndata: {data}\n\n"


def format_answer_event(event: AnswerEvent) -> Iterator[str]:
    """Format an answer event for sending; the last becomes citations, the answer, and its fault as an error."""
    if isinstance(event, TokenEvent):
        yield format_event("token", dump_json({"text": event.text}))
    elif isinstance(event, StepStartEvent):
        yield format_event("step_start", dump_json({"name": event.name, "arguments": event.arguments}))
    elif isinstance(event, StepEvent):
        yield format_event("step", dump_json(event.step))
    elif isinstance(event, SentenceEvent):
        yield format_event("sentence", dump_json({"text": event.text, "highlight": event.highlight}))
    elif isinstance(event, VerdictEvent):
        yield format_event("verdict", dump_json(to_json(event.sentence)))
    elif isinstance(event, FinalEvent):
        shown = to_json(answer_to_json(event.answer, trace=Trace("ask")))
        for citation in shown["citations"]:
            yield format_event("citation", dump_json(citation))
        yield format_event("answer", dump_json(shown))
        if event.answer.fault:
            yield format_event("error", dump_json(error_to_json(DriverFailed(event.answer.fault))))


def reply_events(events: AsyncIterator[str]) -> Response:
    """Make a reply that sends the events as they come; an error is sent as the last event."""
    return StreamingResponse(_end_with_error(events), media_type="text/event-stream", headers=_HEADERS)


async def _end_with_error(events: AsyncIterator[str]) -> AsyncIterator[str]:
    try:
        async for event in events:
            yield event
    except ClewError as error:
        yield format_event("error", dump_json(error_to_json(error)))


class Streams:
    """The answer streams of a server, each with a thread of its own; streams beyond a limit wait their turn."""

    def __init__(self, max_concurrent: int, *, max_waiting: int, timeout: float, places: Places) -> None:
        self._places = places
        self._slots = asyncio.Semaphore(max_concurrent)
        self._threads = ThreadPoolExecutor(max_concurrent, thread_name_prefix="clew-stream-reader")
        self._limit = max_concurrent + max_waiting
        self._timeout = timeout
        self._open: set[EventStream] = set()
        self._ending: set[asyncio.Task[None]] = set()  # of closed streams whose work goes on
        self._count = 0

    @asynccontextmanager
    async def open(self, make: Callable[[], EventStream]) -> AsyncIterator[AsyncIterator[AnswerEvent]]:
        """Open the events of a stream; it is closed after the block, which ends its work.

        Its slot is freed when the work has ended, so that a client that hangs up cannot start more than the limit.
        """
        if self._count >= self._limit:
            raise ServerBusy("too many requests are waiting; ask again later", headers={"retry-after": "1"})
        self._count += 1
        try:
            await self._slots.acquire()
        except BaseException:
            self._count -= 1
            raise
        stream: EventStream | None = None
        try:
            with self._places.hidden():
                stream = await asyncio.get_running_loop().run_in_executor(self._threads, make)
                self._open.add(stream)
                yield self._iterate(stream)
        finally:
            if stream is not None:
                stream.close()
                self._open.discard(stream)
            if stream is not None and stream.is_running:
                ending = asyncio.create_task(self._wait_ended(stream))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
            else:
                self._free()

    def count_open(self) -> int:
        """Count the streams that run or wait, including those without a client whose work goes on."""
        return self._count

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self._open):
            stream.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _wait_ended(self, stream: EventStream) -> None:
        try:
            while stream.is_running:
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._free()

    def _free(self) -> None:
        self._slots.release()
        self._count -= 1

    async def _iterate(self, stream: EventStream) -> AsyncIterator[AnswerEvent]:
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    event = await asyncio.get_running_loop().run_in_executor(self._threads, next, stream, None)
            except TimeoutError:
                raise TimeExceeded(
                    f"no event within {self._timeout:g} seconds (server.timeout); ask for less, or raise the limit"
                ) from None
            if event is None:
                return
            yield event
