"""The contract of every LLM, tested through the protocol, also with a model behind a real server on loopback."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.core.errors import DriverFailed, SettingsError
from clew.core.protocols import LLM, LLMFailure
from clew.drivers.llm.agent_model import as_agent_model
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.model import ModelLLM
from clew.drivers.llm.scripted import ScriptedLLM
from tests.loopback import LoopbackHandler, LoopbackServer, make_completion, serving

KINDS = ("scripted", "cached", "function", "http")
Speak = Callable[[str], str]  # a model that refuses raises Refuses
MakeLLM = Callable[[Speak], LLM]


class Refuses(Exception):
    """A failure of the model, which each kind of LLM reports in its own way."""


@pytest.fixture(params=KINDS)
def make_llm(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeLLM]:
    """Makes an LLM of each kind around a function."""
    if request.param in ("scripted", "cached"):
        yield lambda speak: make_scripted(speak, tmp_path if request.param == "cached" else None)
    elif request.param == "function":
        monkeypatch.setattr(pytest.importorskip("pydantic_ai").models, "ALLOW_MODEL_REQUESTS", False)
        yield make_function_model
    else:
        pytest.importorskip("pydantic_ai")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with serve() as (url, speakers):

            def make(speak: Speak) -> LLM:
                speakers.append(speak)
                return ModelLLM(f"model-{len(speakers) - 1}", url=url, timeout=30)

            yield make


def make_scripted(speak: Speak, folder: Path | None) -> LLM:
    def answer(prompt: str) -> str:
        try:
            return speak(prompt)
        except Refuses as refusal:
            raise DriverFailed(f"refused: {refusal}") from None

    return ScriptedLLM(answer) if folder is None else CachedLLM(ScriptedLLM(answer), folder / "answers.db")


def make_function_model(speak: Speak) -> LLM:
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        part = messages[-1].parts[-1]
        assert isinstance(part, UserPromptPart)
        try:
            return ModelResponse([TextPart(await asyncio.to_thread(speak, str(part.content)))])
        except Refuses as refusal:
            raise ModelHTTPError(400, "function", {"message": str(refusal)}) from None

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for piece in split_pieces((await answer(messages, info)).text or ""):
            yield piece

    return ModelLLM.wrap(FunctionModel(answer, stream_function=pieces))


def split_pieces(text: str) -> list[str]:
    """A text in non-empty pieces, or one empty piece for an empty text."""
    return re.findall(r"(?s).{1,20000}?(?: |$)|.{20000}", text) or [""]


@contextmanager
def serve() -> Iterator[tuple[str, list[Speak]]]:
    """The url of an OpenAI-compatible server, and the functions that answer for its models model-0, model-1 …"""
    speakers: list[Speak] = []

    class Handler(LoopbackHandler):
        def answer(self) -> None:
            request = self.read_json()
            try:
                text = speakers[int(request["model"].partition("-")[2])](request["messages"][-1]["content"])
            except Refuses as refusal:
                self.reply_json({"error": {"message": str(refusal)}}, 400)
                return
            if not request.get("stream"):
                self.reply_json(make_completion(text, tokens=(7, 3)))
                return
            choices = [{"index": 0, "delta": {"content": piece}} for piece in split_pieces(text)]
            self.start_events()
            for choice in (*choices, {"index": 0, "delta": {}, "finish_reason": "stop"}):
                self.send_event({"object": "chat.completion.chunk", "choices": [choice]} | head)
            usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            self.send_event({"object": "chat.completion.chunk", "choices": [], "usage": usage} | head)
            self.send_event("[DONE]")

    head = {"id": "1", "created": 1, "model": "m"}
    with serving(LoopbackServer(Handler)) as server:
        yield f"{server.url}/v1", speakers


def test_an_answer_comes_back_and_is_counted(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: f"heard {prompt}")
    assert llm.name
    assert (llm.usage.calls, llm.usage.input_tokens, llm.usage.output_tokens) == (0, 0, 0)
    assert llm.complete("first") == "heard first"
    assert llm.complete("second", system="be brief", max_tokens=9, temperature=0.5) == "heard second"
    assert llm.usage.calls == 2
    assert llm.usage.input_tokens > 0
    assert llm.usage.output_tokens > 0
    assert llm.usage.cached == 0


def test_any_text_goes_there_and_back(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: prompt)
    for text in (
        "ein Schlüssel für Zoë",
        "鍵を回す者は誰か",
        "🗝️ <b>&amp;</b> {x} %s \\n",
        "line\nline\r\n\ttab",
        "x" * 100_000,
    ):
        assert llm.complete(text) == text


def test_an_empty_answer_is_an_answer(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda _: "")
    assert llm.complete("anything?") == ""
    assert llm.complete_many(["a", "b"]) == ["", ""]


def test_a_failure_raises(make_llm: MakeLLM) -> None:
    def refuse(prompt: str) -> str:
        raise Refuses("not in the mood")

    llm = make_llm(refuse)
    with pytest.raises(DriverFailed, match="not in the mood"):
        llm.complete("please")
    assert llm.usage.calls == 0


def test_many_keep_their_order(make_llm: MakeLLM) -> None:
    last = threading.Event()

    def speak(prompt: str) -> str:
        if prompt == "0":  # the first answers when the last has
            assert last.wait(20)
        if prompt == "19":
            last.set()
        return f"re {prompt}"

    llm = make_llm(speak)
    assert llm.complete_many([str(n) for n in range(20)]) == [f"re {n}" for n in range(20)]
    assert llm.usage.calls == 20
    assert llm.complete_many([]) == []


def test_one_failure_does_not_stop_the_rest(make_llm: MakeLLM) -> None:
    def speak(prompt: str) -> str:
        if int(prompt) % 3 == 0:
            raise Refuses(f"no {prompt}")
        return prompt

    llm = make_llm(speak)
    answers = llm.complete_many([str(n) for n in range(10)], max_concurrent=4)
    for n, answer in enumerate(answers):
        if n % 3:
            assert answer == str(n)
        else:
            assert isinstance(answer, LLMFailure)
            assert f"no {n}" in answer.reason
    assert llm.usage.calls == 6


@pytest.mark.parametrize("most", [1, 3])
def test_so_many_at_once_and_never_more(make_llm: MakeLLM, most: int) -> None:
    lock = threading.Lock()
    meeting = threading.Barrier(most)  # passed only by that many together
    now = peak = 0

    def speak(prompt: str) -> str:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
        meeting.wait(20)
        with lock:
            now -= 1
        return "met"

    assert make_llm(speak).complete_many([str(n) for n in range(9)], max_concurrent=most) == ["met"] * 9
    assert peak == most


def test_what_cannot_be_asked_is_refused_at_the_door(make_llm: MakeLLM) -> None:
    prompts: list[str] = []

    def speak(prompt: str) -> str:
        prompts.append(prompt)
        return "yes"

    llm = make_llm(speak)
    with pytest.raises(SettingsError, match="max_tokens is 0"):
        llm.complete("a", max_tokens=0)
    with pytest.raises(SettingsError, match="temperature"):
        llm.complete("a", temperature=float("nan"))
    with pytest.raises(SettingsError, match="max_concurrent is 0"):
        llm.complete_many(["a", "b"], max_concurrent=0)
    with pytest.raises(SettingsError, match="max_tokens is -1"):
        llm.complete_many(["a", "b"], max_tokens=-1)
    assert prompts == []


def test_it_works_inside_a_running_event_loop(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: prompt.upper())

    async def main() -> list[object]:
        return [
            llm.complete("a"),
            llm.complete_many(["b", "c"]),
            *await asyncio.gather(
                asyncio.to_thread(llm.complete, "d"), asyncio.to_thread(llm.complete_many, ["e", "f"])
            ),
        ]

    wanted = ["A", ["B", "C"], "D", ["E", "F"]]
    assert asyncio.run(main()) == wanted
    assert asyncio.run(main()) == wanted  # another loop, the same connections


def test_many_threads_share_it(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: f"re {prompt}")
    wrong: list[str] = []

    def work(mine: int) -> None:
        for n in range(10):
            answer = llm.complete(f"{mine}/{n}")
            if answer != f"re {mine}/{n}":
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert llm.usage.calls == 80


def test_an_answer_comes_in_pieces_and_is_counted_once(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: f"heard {prompt}, and more")
    pieces = list(llm.stream("first", system="be brief", max_tokens=9, temperature=0.5))
    assert "".join(pieces) == "heard first, and more"
    assert len(pieces) > 1
    assert all(pieces)
    assert llm.usage.calls == 1
    assert llm.usage.input_tokens > 0
    assert llm.usage.output_tokens > 0


def test_any_text_comes_in_pieces(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: prompt)
    for text in ("ein Schlüssel für Zoë", "鍵を回す 者は誰か", "🗝️ <b> {x}\n\ndata: no\r\n end", "x" * 50_000):
        assert "".join(llm.stream(text)) == text
    assert "".join(make_llm(lambda _: "").stream("anything?")) == ""


def test_nothing_is_asked_before_the_first_piece_is_taken(make_llm: MakeLLM) -> None:
    prompts: list[str] = []

    def speak(prompt: str) -> str:
        prompts.append(prompt)
        return "one two"

    llm = make_llm(speak)
    with pytest.raises(SettingsError, match="max_tokens is 0"):
        llm.stream("a", max_tokens=0)
    pieces = llm.stream("a")
    assert prompts == []
    assert next(pieces)
    assert prompts == ["a"]


def test_whoever_goes_away_has_paid_for_what_came(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda _: "one two three")
    pieces = llm.stream("a")
    assert next(pieces)
    del pieces
    assert llm.usage.calls == 1
    assert llm.usage.input_tokens > 0
    assert llm.complete("again") == "one two three"


def test_a_stream_that_is_refused_raises(make_llm: MakeLLM) -> None:
    def refuse(prompt: str) -> str:
        raise Refuses("not in the mood")

    llm = make_llm(refuse)
    with pytest.raises(DriverFailed, match="not in the mood"):
        list(llm.stream("please"))
    assert llm.usage.calls == 0


def test_a_stream_does_not_keep_others_waiting(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: f"re {prompt}")
    said = [(piece, llm.complete(piece)) for piece in llm.stream("a b")]
    assert "".join(piece for piece, _ in said) == "re a b"
    assert all(answer == f"re {piece}" for piece, answer in said)


def test_tokens_are_counted(make_llm: MakeLLM) -> None:
    llm = make_llm(lambda prompt: prompt)
    assert llm.count("") == 0
    assert 0 < llm.count("who rotates the keys?") <= 21


def test_an_agent_can_use_it(make_llm: MakeLLM) -> None:
    agent = pytest.importorskip("pydantic_ai").Agent(
        as_agent_model(make_llm(lambda prompt: f"heard {prompt}")), instructions="Be brief."
    )

    async def main() -> str:
        async with agent:
            return str((await agent.run("first")).output)

    assert asyncio.run(main()) == "heard first"


def test_an_agent_sees_its_failure_in_our_words(make_llm: MakeLLM) -> None:
    def refuse(prompt: str) -> str:
        raise Refuses("not in the mood")

    agent = pytest.importorskip("pydantic_ai").Agent(as_agent_model(make_llm(refuse)))

    async def main() -> None:
        async with agent:
            await agent.run("please")

    with pytest.raises(DriverFailed, match="not in the mood"):
        asyncio.run(main())
