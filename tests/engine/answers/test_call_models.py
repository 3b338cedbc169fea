"""The settings of a call choose its language model: another name, address, timeout or number of retries."""

import pytest

from clew import Document, Engine
from clew.core.errors import DriverFailed
from clew.core.settings import IngestionConfig, LLMConfig, RerankerConfig, Settings
from clew.drivers.llm.scripted import ScriptedLLM
from tests.drivers.llm.test_model import Server, make_error, server, without_waits

__all__ = ["server", "without_waits"]
QUESTION = "who rotates the signing keys?"
KEYS = Document("keys", "Signing keys are rotated every 90 days by Dan.", title="Keys")


def make_settings(llm: LLMConfig) -> Settings:
    return Settings(ingestion=IngestionConfig(), reranker=RerankerConfig(name="overlap"), llm=llm)


@pytest.mark.usefixtures("without_waits")
@pytest.mark.parametrize("verb", ["ask", "agent"])
def test_the_retries_and_the_name_of_a_call(server: Server, verb: str) -> None:
    server.replies = [make_error(503)]
    own = LLMConfig(name="openai:small", url=server.url, api_key="k", retries=0)
    with Engine.open(":memory:", embedder="hashed", settings=make_settings(own)) as engine:
        engine.add_documents([KEYS])
        call = engine.ask if verb == "ask" else engine.agent
        counts = []
        for settings in (None, make_settings(LLMConfig(retries=2)), make_settings(LLMConfig(name="openai:large"))):
            server.requests.clear()
            with pytest.raises(DriverFailed):
                call(QUESTION, settings=settings)
            counts.append((len(server.requests), server.requests[0]["model"]))
    assert counts == [(1, "small"), (3, "small"), (1, "large")]


def test_a_model_that_was_given_as_an_object_stays() -> None:
    said = "Signing keys are rotated every 90 days by Dan [1]."
    with Engine.open(
        ":memory:", embedder="hashed", llm=ScriptedLLM(said), settings=make_settings(LLMConfig())
    ) as engine:
        engine.add_documents([KEYS])
        answer = engine.ask(QUESTION, settings=make_settings(LLMConfig(name="openai:large", retries=1)))
    assert [each.verdict for each in answer.sentences] == ["supported"]
