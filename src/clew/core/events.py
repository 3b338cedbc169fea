"""Streams: iterators over the events of a synchronous call with callbacks."""

from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Thread

from clew.core.answer import Answer, AnswerSentence
from clew.core.parallel import POLL_SECONDS, cancelled_by
from clew.core.trace import Trace


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A piece of the model's reply, not yet checked.

    SentenceEvents with the same words follow. Pieces that an agent's model writes before a StepStartEvent are not part
    of its answer.
    """

    text: str


@dataclass(frozen=True, slots=True)
class StepStartEvent:
    """The start of an agent's tool call; its StepEvent follows."""

    name: str
    arguments: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepEvent:
    """The end of an agent's step: a tool call with its time and output."""

    step: Trace


@dataclass(frozen=True, slots=True)
class SentenceEvent:
    """A checked sentence of the answer; without a model, a passage.

    `highlight` is the span of the text that the reader chose; empty if it chose none.
    """

    text: str
    highlight: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class VerdictEvent:
    """The verdict on a sentence of a model, after its SentenceEvent; also for sentences that are not shown."""

    sentence: AnswerSentence


@dataclass(frozen=True, slots=True)
class FinalEvent:
    """The last event: the whole answer with its citations."""

    answer: Answer


AnswerEvent = TokenEvent | StepStartEvent | StepEvent | SentenceEvent | VerdictEvent | FinalEvent
OnEvent = Callable[[AnswerEvent], None]
Call = Callable[[OnEvent], Answer]


def join_callbacks(
    on_event: OnEvent | None,
    on_sentence: Callable[[str], None] | None = None,
    on_step: Callable[[Trace], None] | None = None,
) -> OnEvent:
    """Join the given callbacks into one that calls them all."""

    def emit(event: AnswerEvent) -> None:
        if on_sentence is not None and isinstance(event, SentenceEvent):
            on_sentence(event.text)
        if on_step is not None and isinstance(event, StepEvent):
            on_step(event.step)
        if on_event is not None:
            on_event(event)

    return emit


class _Closed(BaseException):
    """Raised in the worker thread when the reader has closed the stream; no `except Exception` catches it."""


class EventStream(Iterator[AnswerEvent]):
    """The events of a call that takes `on_event`, as they happen; the call runs in a thread.

    The first `next` starts the call; `next` also raises its errors. `close`, from any thread, ends the iteration and
    cancels the call: a request to a model is aborted, other work stops at its next event. Garbage collection closes a
    stream.
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
            self._finished = isinstance(event, FinalEvent | BaseException)
            if isinstance(event, BaseException):
                raise event
            return event
        raise StopIteration

    @property
    def is_running(self) -> bool:
        """Whether the call is running; after `close` it may run until its next event."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the stream and cancel the call, without waiting for it."""
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
            answer = call(emit)
        emit(FinalEvent(answer))
    except _Closed:
        pass
    except BaseException as error:
        events.put(error)
