"""What `auto` does with a question, by what it asks for or its kind."""

from collections.abc import Sequence

import pytest

from clew import Document, Engine, Extensions, Message, record
from clew.core.protocols import LLM, Reranker
from clew.drivers.llm.scripted import ScriptedLLM

TOPICS = ("harbour", "kitchen", "library", "garden", "station", "museum", "market", "bridge", "school", "tower", "mill")


class Liker:
    """A reranker that likes texts with a word."""

    def __init__(self, word: str = "tower", name: str = "ms-marco-minilm") -> None:
        self.name, self._word = name, word

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(self._word in text) for text in texts]

    def calibrate(self, score: float) -> float:
        return 0.2 + 0.6 * score


def choose(engine: Engine, question: str) -> tuple[str, str]:
    with record() as trace:
        engine.search(question, strategy="auto")
    step = trace.find("auto")
    assert step
    return str(step.notes["strategy"]), str(step.notes["reason"])


def build(text: str, reranker: Reranker | None, llm: LLM | None = None) -> Engine:
    engine = Engine.open(":memory:", embedder="hashed", extensions=Extensions(reranker=reranker or ""), llm=llm)
    engine.add_documents([Document(word, text.format(word)) for word in TOPICS])
    return engine


GATE = "The keeper of the {} opens the gate every morning and closes it again in the evening."
NO_MODEL, NO_LANGUAGE = "there is no language model", "ms-marco-minilm does not know the language"


@pytest.mark.parametrize(
    ("question", "with_model", "without_model", "missing"),
    [
        ("When does the keeper open the gate?", "hybrid", "hybrid", ""),
        ("Tell me about Python", "multi_query", "hybrid", NO_MODEL),
        ("What are the ethical implications of our AI system?", "self_reflective", "hybrid", NO_MODEL),
        ("Is the liability clause in the contract enforceable?", "rerank", "rerank", ""),
        ("Ist die Haftung in dem Vertrag und in der Police geregelt?", "hybrid", "hybrid", NO_LANGUAGE),
    ],
)
def test_auto_follows_the_kind_of_the_question(
    question: str, with_model: str, without_model: str, missing: str
) -> None:
    with build(GATE, Liker()) as engine:
        name, reason = choose(engine, question)
        assert name == without_model
        assert reason.endswith(f"is left out: {missing}") if missing else "left out" not in reason
    with build(GATE, Liker(), ScriptedLLM(["5"] * 9)) as engine:
        assert choose(engine, question)[0] == with_model


def test_without_a_reranker_a_precise_question_is_searched_by_hybrid() -> None:
    with build(GATE, None) as engine:
        name, reason = choose(engine, "Is the liability clause in the contract enforceable?")
        assert (name, reason) == ("hybrid", "'liability' calls for precision; rerank is left out: there is no reranker")


def test_auto_does_what_the_question_asks_for() -> None:
    with build("The keeper of the {} opens the gate every morning.", Liker()) as engine:
        assert choose(engine, "use lexical search: keeper of the tower")[0] == "lexical"
        assert choose(engine, "show me the complete document about the tower")[0] == "document_boost"
        talk = [Message(f"message {number}") for number in range(101)]
        with record() as trace:
            engine.search("and then?", strategy="auto", history=talk)
        step = trace.find("auto")
        assert step
        assert step.notes["strategy"] == "chunked"
