"""Tracing: what a recorded trace holds, and that a step outside a recording leaves nothing behind."""

import sys
from types import FrameType

import pytest

from clew.core.trace import note, record, step


def test_steps_nest_and_are_timed() -> None:
    with record("outer") as trace:
        with step("a") as first:
            first.notes["size"] = 0.123456
            with step("b") as second:
                second.set_output([1, 2])
        with step("c"):
            pass
    assert [each.name for each in trace.steps] == ["a", "c"]
    assert trace.ms >= first.ms >= second.ms > 0
    assert trace.find("b") is second
    assert second.out == 2
    assert second.output is None  # counted only
    assert "size=0.1235" in trace.draw()


def test_results_are_kept_on_request() -> None:
    with record(keep=True) as trace, step("outer"), step("inner") as inner:
        inner.set_output(["x"])
    assert inner.output == ("x",)
    assert trace.find("inner") is inner


def test_a_step_that_raises_is_closed() -> None:
    with record() as trace:
        with pytest.raises(ValueError, match="no"), step("fails"):
            raise ValueError("no")
        with step("next"):
            pass
    assert [each.name for each in trace.steps] == ["fails", "next"]


def test_without_a_recording_a_step_is_thrown_away() -> None:
    with step("outer") as outer, step("inner") as inner:
        inner.set_output([1])
    assert outer.steps == []
    assert outer.ms == inner.ms == 0


def test_a_note_goes_to_the_current_step() -> None:
    note("lost", 1)
    with record() as trace, step("outer"):
        with step("inner"):
            note("model", "m")
        note("late", True)
    assert [each.notes for each in (trace, trace.steps[0], trace.steps[0].steps[0])] == [
        {},
        {"late": True},
        {"model": "m"},
    ]


def test_a_step_that_is_not_recorded_makes_three_python_calls() -> None:
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        with step("cheap"):
            pass
    finally:
        sys.setprofile(None)
    assert calls == ["__init__", "__enter__", "__exit__"]
