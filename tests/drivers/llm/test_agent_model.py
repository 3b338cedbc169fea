"""The pydantic-ai model of any LLM: a user's own with nothing but `complete`, and wrappers of another."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew import Document, Engine
from clew.core.errors import CostLimit, DriverFailed, SettingsError
from clew.core.metered import MeteredLLM
from clew.core.protocols import LLM, LLMFailure
from clew.core.settings import AgentConfig, IngestionConfig, LLMConfig, RerankerConfig, Settings
from clew.core.usage import CostBudget, Price, Usage, UsageMeter
from clew.drivers.llm.agent_model import as_agent_model
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.model import ModelLLM

pytest.importorskip("pydantic_ai")

PLAIN = Settings(ingestion=IngestionConfig(), reranker=RerankerConfig(name="overlap"))
SEARCH = 'Gladly!\n```json\n{"tool": "search_knowledge_base", "arguments": {"query": "signing keys"}}\n```'
ANSWER = "Signing keys are rotated by Dan [1]."


class MinimalLLM(LLM):
    """All that a user must write: a name and `complete`. It gives the next reply, and the last one for ever."""

    name = "mine"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.prompts: list[tuple[str, str]] = []

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        self.prompts.append((system, prompt))
        if prompt == "fail":
            raise DriverFailed("out of order")
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def open_engine(llm: LLM, settings: Settings = PLAIN) -> Engine:
    engine = Engine.open(":memory:", embedder="hashed", llm=llm, settings=settings)
    engine.add_documents([Document("vault", "Signing keys are rotated by Dan.", title="Vault", uri="vault.md")])
    return engine


def test_the_defaults_of_the_protocol() -> None:
    llm = MinimalLLM("yes")
    assert llm.complete_many(["a", "fail", "b"]) == ["yes", LLMFailure("out of order"), "yes"]
    assert list(llm.stream("a")) == ["yes"]
    assert llm.count("who rotates the keys?") > 0
    assert llm.usage == Usage()
    with pytest.raises(SettingsError, match="max_concurrent is 0"):
        llm.complete_many(["a", "b"], max_concurrent=0)


def test_a_minimal_llm_is_enough_to_ask() -> None:
    with open_engine(MinimalLLM(ANSWER)) as engine:
        answer = engine.ask("who rotates the signing keys?")
    assert (answer.found, answer.text) == (True, "Signing keys are rotated by Dan. [1]")


def test_a_minimal_llm_is_enough_for_an_agent_with_tools() -> None:
    llm = MinimalLLM(SEARCH, ANSWER)
    with open_engine(llm) as engine:
        answer = engine.agent("who rotates the signing keys?")
    assert (answer.found, answer.text, answer.reason) == (True, "Signing keys are rotated by Dan. [1]", "")
    (system, first), (_, second) = llm.prompts
    assert "- retrieve_full_document: " in system
    assert first == "who rotates the signing keys?"
    assert "Result of search_knowledge_base:\n<knowledge_base>" in second
    assert answer.usage.calls == 2
    assert answer.usage.input_tokens > 100  # estimated, since the model does not report it


def test_the_limits_of_an_agent_hold_for_a_minimal_llm() -> None:
    prices = LLMConfig(prices=("mine 1000000 1000000",))  # a token costs 1
    for limit, reason in ((AgentConfig(max_calls=1), ""), (AgentConfig(max_tokens=1500), "agent.max_tokens")):
        llm = MinimalLLM(SEARCH)
        with open_engine(llm, Settings(ingestion=PLAIN.ingestion, reranker=PLAIN.reranker, agent=limit)) as engine:
            answer = engine.agent("who rotates the signing keys?")
        assert len(llm.prompts) <= 4
        assert reason in answer.reason
    settings = Settings(
        ingestion=PLAIN.ingestion, reranker=PLAIN.reranker, agent=AgentConfig(max_cost=10.0), llm=prices
    )
    llm = MinimalLLM(SEARCH)
    with open_engine(llm, settings) as engine:
        assert "the limit is 10.0" in engine.agent("who rotates the signing keys?").reason
    assert llm.prompts == []


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        ("Just text with {braces}.", "Just text with {braces}."),
        ('{"answer": "Dan."}', "Dan."),
        ('{"tool": "fly", "arguments": {}}', '{"tool": "fly", "arguments": {}}'),  # there is no such tool
        ('{"tool": "look", "arguments": {"place": "here"}}', "seen here"),
    ],
)
def test_a_reply_is_a_tool_call_or_the_answer(reply: str, output: str) -> None:
    from pydantic_ai import Agent

    def look(place: str) -> str:
        return f"seen {place}"

    agent = Agent(as_agent_model(MinimalLLM(reply, "seen here")), tools=[look])
    assert asyncio.run(agent.run("go")).output == output


def test_wrappers_keep_the_native_tool_calls(tmp_path: Path) -> None:
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.test import TestModel

    from clew.drivers.llm.retrying import RetryingModel

    native = MeteredLLM(CachedLLM(ModelLLM.wrap(TestModel()), tmp_path / "answers.db"), CostBudget())
    assert isinstance(as_agent_model(native), RetryingModel)
    assert isinstance(as_agent_model(MeteredLLM(MinimalLLM("yes"), CostBudget())), FunctionModel)


def read_all(llm: LLM, prompts: Sequence[str]) -> None:
    llm.complete(prompts[0], max_tokens=1)
    llm.complete_many(prompts, max_tokens=1)
    list(llm.stream(prompts[0], max_tokens=1))


def test_a_meter_charges_what_a_model_does_not_report() -> None:
    llm = MinimalLLM("one two three four")
    budget = CostBudget({"mine": Price(1e6, 1e6)})
    with UsageMeter().measure() as meter:
        read_all(MeteredLLM(llm, budget), ["a prompt", "fail", "a prompt"])
    assert meter.usage.calls == 4  # the failed one is not charged
    assert budget.spent == meter.usage.input_tokens + meter.usage.output_tokens > 4
    with pytest.raises(CostLimit):
        MeteredLLM(llm, CostBudget({"mine": Price(1e6, 1e6)}, limit=5.0)).complete("a long prompt")
