"""Threads at the fan-out: order kept, failures raised, nothing left running."""

import gc
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from clew.core.errors import SettingsError
from clew.core.parallel import is_cancelled, prefetch, run_parallel
from clew.core.trace import record, step


def test_calls_keep_the_order_and_the_trace() -> None:
    def call(number: int) -> int:
        with step(str(number)):
            return number

    with record() as trace:
        assert run_parallel([lambda n=n: call(n) for n in range(20)]) == list(range(20))  # type: ignore[misc]
    assert sorted(int(each.name) for each in trace.steps) == list(range(20))
    assert run_parallel([]) == []


def test_calls_raise_the_first_failure() -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_parallel([lambda: 1, fail, lambda: 2])


def test_a_failure_starts_no_further_call_and_waits_for_the_running_ones() -> None:
    both = threading.Barrier(2)
    started: list[int] = []
    ended: list[int] = []

    def call(number: int) -> None:
        started.append(number)
        both.wait(60)
        if number == 0:
            raise ValueError("no")
        while not is_cancelled():
            time.sleep(0.01)
        ended.append(number)

    with pytest.raises(ValueError, match="no"):
        run_parallel([partial(call, n) for n in range(50)], max_concurrent=2)
    assert sorted(started) == [0, 1]
    assert ended == [1]
    assert not is_cancelled()


def test_abandoned_calls_are_not_waited_for() -> None:
    release = threading.Event()

    def fail() -> bool:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_parallel([lambda: release.wait(60), fail], abandon=True)
    release.set()


def test_at_least_one_at_a_time() -> None:
    with pytest.raises(SettingsError, match="max_concurrent is 0"):
        run_parallel([lambda: 1], max_concurrent=0)


def test_ahead_gives_the_same_items() -> None:
    assert list(prefetch(range(1000), max_ahead=3)) == list(range(1000))
    assert list(prefetch([], max_ahead=3)) == []


def test_ahead_works_before_it_is_asked_and_not_too_far() -> None:
    made: list[int] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                second.set()
            yield number

    found = prefetch(items(), max_ahead=4)
    assert next(found) == 0
    assert second.wait(60)
    assert len(made) <= 7
    found.close()


def test_ahead_raises_what_goes_wrong_after_what_went_well() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    found = prefetch(items(), max_ahead=4)
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_ahead_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    found = prefetch(iter(int, 1), max_ahead=2)  # never ends by itself
    next(found)
    found.close()
    assert threading.active_count() == before


def test_an_iterator_that_nobody_closed_may_be_collected_in_its_own_thread() -> None:
    dropped, collected = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert dropped.wait(60)
        gc.collect()  # it is not reachable any more, so this closes the iterator that runs this code
        collected.set()
        yield 2

    found = prefetch(items(), max_ahead=1)
    assert next(found) == 1
    cycle: list[object] = [found]
    cycle.append(cycle)
    del found, cycle
    dropped.set()
    assert collected.wait(60)


def test_ahead_closes_the_generator_it_reads() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    kept = items()
    found = prefetch(kept, max_ahead=2)
    next(found)
    found.close()
    assert closed.is_set()
