"""Coroutines for synchronous callers: results, errors, context and cancellation."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import CancelledError
from contextlib import closing

import pytest

from clew.core.event_loop import EventLoopThread, run_coroutine
from clew.core.trace import record, step


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_a_coroutine_runs_also_inside_a_running_loop() -> None:
    async def main() -> int:
        return run_coroutine(double(2))  # asyncio.run would refuse

    assert run_coroutine(double(2)) == asyncio.run(main()) == 4


def test_its_error_is_raised_and_no_thread_is_left() -> None:
    async def fail() -> None:
        raise ValueError("no")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        run_coroutine(fail())
    assert threading.active_count() == before


def test_the_trace_is_carried_over() -> None:
    async def work() -> None:
        with step("inside"):
            await asyncio.sleep(0)

    with record() as trace:
        run_coroutine(work())
    assert trace.find("inside")


def test_what_is_cancelled_ends() -> None:
    cancelled = threading.Event()
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            cancelled.set()
            await asyncio.sleep(60)
        finally:
            ended.append("run")

    async def count() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.sleep(60)
        finally:
            ended.append("iterate")

    with closing(EventLoopThread()) as loop:
        with pytest.raises(CancelledError):
            loop.run(wait_for_ever(), is_cancelled=cancelled.is_set)
        items = loop.iterate(count())
        assert next(items) == 1
        items.close()  # type: ignore[attr-defined]
    assert sorted(ended) == ["iterate", "run"]
