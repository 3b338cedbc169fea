"""The scripted LLM: its answers and their order, its failures, and the requests it records."""

import threading

import pytest

from clew.core.errors import DriverFailed
from clew.core.protocols import LLMFailure
from clew.core.usage import Usage
from clew.drivers.llm.requests import CompletionRequest
from clew.drivers.llm.scripted import ScriptedLLM


def test_lines_are_said_in_order() -> None:
    llm = ScriptedLLM(["one", DriverFailed("lost my voice"), "three"])
    assert llm.complete("a") == "one"
    with pytest.raises(DriverFailed, match="lost my voice"):
        llm.complete("b")
    assert llm.complete("c") == "three"
    with pytest.raises(DriverFailed, match="no line left"):
        llm.complete("d")
    assert llm.calls == 4
    assert llm.usage.calls == 2


def test_the_nth_prompt_gets_the_nth_line() -> None:
    llm = ScriptedLLM([DriverFailed("no") if n == 3 else str(n) for n in range(50)])
    answers = llm.complete_many(["x"] * 51)
    assert answers[:50] == [LLMFailure("no") if n == 3 else str(n) for n in range(50)]
    assert isinstance(answers[50], LLMFailure)
    assert sorted(llm.requests, key=str) == [CompletionRequest("x")] * 51


def test_one_text_answers_everything() -> None:
    assert ScriptedLLM("yes").complete_many(["a", "b", "c"]) == ["yes"] * 3


def test_it_remembers_what_it_was_asked() -> None:
    llm = ScriptedLLM(lambda prompt: f"{prompt} indeed", name="parrot")
    assert llm.name == "parrot"
    llm.complete("good day", system="be polite", max_tokens=5, temperature=0.5)
    assert llm.requests == (CompletionRequest("good day", "be polite", 5, 0.5),)
    assert llm.usage == Usage(calls=1, input_tokens=4, output_tokens=3)
    assert llm.max_active == 1


def test_it_counts_the_most_at_once() -> None:
    meeting = threading.Barrier(4)

    def answer(prompt: str) -> str:
        meeting.wait(20)
        return prompt

    llm = ScriptedLLM(answer)
    llm.complete_many(list("abcdefgh"), max_concurrent=4)
    assert llm.max_active == 4


def test_a_mistake_in_the_script_is_not_hidden() -> None:
    def answer(prompt: str) -> str:
        raise AssertionError(f"unexpected {prompt}")

    llm = ScriptedLLM(answer)
    with pytest.raises(AssertionError, match="unexpected"):
        llm.complete_many(list("abcdefgh"), max_concurrent=2)
    assert llm.calls <= 2
