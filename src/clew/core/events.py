"""Streams: the callbacks of a synchronous call as an iterator of events."""

from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread

from clew.core.answer import Answer
from clew.core.parallel import POLL_SECONDS, cancelled_by
from clew.core.trace import Trace


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An agent has finished a step: a tool call with its time and output."""

    step: Trace


@dataclass(frozen=True, slots=True)
class SentenceEvent:
    """A sentence has been checked and belongs to the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class FinalEvent:
    """The last event: the whole answer with its citations."""

    answer: Answer


AnswerEvent = StepEvent | SentenceEvent | FinalEvent
Call = Callable[[Callable[[str], None], Callable[[Trace], None]], Answer]


class _Closed(BaseException):
    """Raised in the working thread when the reader has closed the stream; passes every `except Exception`."""


class EventStream(Iterator[AnswerEvent]):
    """The events of a call that takes `on_sentence` and `on_step`, as they happen; the call runs in a thread.

    The call starts with the first event asked for. An error of the call is raised by `next`. `close`, which any thread
    may call, ends the iteration and cancels the call: a request to a model is ended, other work stops at its next
    sentence or step. A stream that nobody holds any more is closed.
    """

    def __init__(self, call: Call) -> None:
        self._events: Queue[AnswerEvent | BaseException] = Queue()
        self._closed = Event()
        self._finished = False
        self._thread = Thread(
            target=copy_context().run, args=(_work, call, self._events, self._closed), name="clew-stream", daemon=True
        )

    def __next__(self) -> AnswerEvent:
        if self._finished:
            raise StopIteration
        if self._thread.ident is None:
            self._thread.start()
        while not self._closed.is_set():
            try:
                event = self._events.get(timeout=POLL_SECONDS)
            except Empty:
                continue
            self._finished = not isinstance(event, StepEvent | SentenceEvent)
            if isinstance(event, BaseException):
                raise event
            return event
        raise StopIteration

    def close(self) -> None:
        """Ends the stream and cancels the call, without waiting for it."""
        self._closed.set()

    def __del__(self) -> None:
        self.close()


def _work(call: Call, events: "Queue[AnswerEvent | BaseException]", closed: Event) -> None:
    def emit(event: AnswerEvent) -> None:
        if closed.is_set():
            raise _Closed
        events.put(event)

    try:
        with cancelled_by(closed):
            answer = call(lambda text: emit(SentenceEvent(text)), lambda step: emit(StepEvent(step)))
        emit(FinalEvent(answer))
    except _Closed:
        pass
    except BaseException as error:
        events.put(error)
