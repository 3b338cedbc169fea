"""Threads at the fan-out: order kept, failures raised, nothing left running."""

import threading
from collections.abc import Iterator

import pytest

from clew.core.parallel import prefetch, run_parallel
from clew.core.trace import record, step


def test_gather_keeps_the_order_and_the_trace() -> None:
    def call(number: int) -> int:
        with step(str(number)):
            return number

    with record() as trace:
        assert run_parallel([lambda n=n: call(n) for n in range(20)]) == list(range(20))  # type: ignore[misc]
    assert sorted(int(each.name) for each in trace.steps) == list(range(20))
    assert run_parallel([]) == []


def test_gather_raises_the_first_failure() -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_parallel([lambda: 1, fail, lambda: 2])


def test_ahead_gives_the_same_items() -> None:
    assert list(prefetch(range(1000), most=3)) == list(range(1000))
    assert list(prefetch([], most=3)) == []


def test_ahead_works_before_it_is_asked_and_not_too_far() -> None:
    made: list[int] = []
    second = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                second.set()
            yield number

    found = prefetch(items(), most=4)
    assert next(found) == 0
    assert second.wait(5)
    assert len(made) <= 7
    found.close()  # type: ignore[attr-defined]


def test_ahead_raises_what_goes_wrong_after_what_went_well() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    found = prefetch(items(), most=4)
    assert next(found) == 1
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_ahead_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    found = prefetch(iter(int, 1), most=2)  # never ends by itself
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
