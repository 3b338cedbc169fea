"""Streams: the callbacks of a synchronous call as an iterator of events, produced in a thread."""

from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread

from clew.core.answer import Answer
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


def stream_events(call: Call) -> Iterator[AnswerEvent]:
    """The events of a call that takes `on_sentence` and `on_step`; the call starts with the first event asked for.

    An error of the call is raised here. Closing the iterator stops the call at its next sentence or step.
    """
    events: Queue[AnswerEvent | BaseException] = Queue()
    closed = Event()

    def emit(event: AnswerEvent) -> None:
        if closed.is_set():
            raise _Closed
        events.put(event)

    def work() -> None:
        try:
            answer = call(lambda text: emit(SentenceEvent(text)), lambda step: emit(StepEvent(step)))
            events.put(FinalEvent(answer))
        except BaseException as error:
            events.put(error)

    thread = Thread(target=copy_context().run, args=(work,), name="clew-stream", daemon=True)
    thread.start()
    try:
        while True:
            try:
                event = events.get(timeout=0.5)  # an endless wait cannot be interrupted on every platform
            except Empty:
                continue
            if isinstance(event, BaseException):
                raise event
            yield event
            if isinstance(event, FinalEvent):
                return
    finally:
        closed.set()
        thread.join()
