"""Many questions at once, in threads, in order, with the trace carried over."""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import TypeVar

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLMFailure

Job = TypeVar("Job")
Answer = str | LLMFailure
TICK = 0.2  # seconds; a wait without an end cannot be interrupted everywhere
_over: ContextVar[threading.Event | None] = ContextVar("over", default=None)


def is_over() -> bool:
    """Whether the `answer_all` that this call belongs to has ended early, so that nobody waits for its answer."""
    event = _over.get()
    return event is not None and event.is_set()


def attempt(complete: Callable[[Job], str], job: Job) -> Answer:
    """The answer, or why there is none."""
    try:
        return complete(job)
    except DriverFailed as failure:
        return LLMFailure(str(failure))


def answer_all(jobs: Sequence[Job], answer: Callable[[Job], Answer], *, max_concurrent: int) -> list[Answer]:
    """One answer a job, in order, at most so many at once.

    What `answer` raises ends it all: a failure that should not is returned as an LLMFailure. When it ends early, by
    that or by an interrupt, nothing new is asked, and what is under way sees `is_over` and is not waited for.
    """
    if max_concurrent < 1:
        raise SettingsError(f"max_concurrent is {max_concurrent}; it must be at least 1")
    if len(jobs) < 2:
        return [answer(job) for job in jobs]
    answers: dict[int, Answer] = {}
    errors: list[BaseException] = []
    over = threading.Event()
    lock = threading.Lock()
    places = iter(range(len(jobs)))

    def work() -> None:
        _over.set(over)
        while True:
            with lock:
                place = None if over.is_set() else next(places, None)
            if place is None:
                return
            try:
                answers[place] = answer(jobs[place])
            except BaseException as error:
                errors.append(error)
                over.set()

    # Not a ThreadPoolExecutor: its threads are waited for when the program ends, a hanging request with them.
    threads = [
        threading.Thread(target=copy_context().run, args=(work,), name=f"clew-llm-{n}", daemon=True)
        for n in range(min(max_concurrent, len(jobs)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not over.is_set():
                thread.join(TICK)
    except BaseException:
        over.set()
        raise
    if errors:
        raise errors[0]
    return [answers[place] for place in range(len(jobs))]
