"""What `auto` does with a question that names no strategy, by what a first search found."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from clew import Document, Engine, Message, record
from clew.core.protocols import Reranker
from clew.query.search.choose import Signs, choose_by_signs

PROSE = Signs(relevance=0.3, symbols=0.01, language="en", messages=0)
TOPICS = ("harbour", "kitchen", "library", "garden", "station", "museum", "market", "bridge", "school", "tower", "mill")


class Liker:
    """A reranker that likes texts with a word."""

    def __init__(self, word: str = "tower", name: str = "ms-marco-minilm") -> None:
        self.name, self._word = name, word

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(self._word in text) for text in texts]

    def calibrate(self, score: float) -> float:
        return 0.2 + 0.6 * score


@pytest.mark.parametrize(
    ("signs", "reranker", "strategy"),
    [
        (PROSE, Liker(), "rerank"),
        (replace(PROSE, relevance=0.95), Liker(), "hybrid"),
        (replace(PROSE, symbols=0.06), Liker(), "hybrid"),
        (replace(PROSE, language="de"), Liker(), "hybrid"),
        (replace(PROSE, language="de"), Liker(name="http:any"), "rerank"),
        (replace(PROSE, language=""), Liker(), "rerank"),
        (replace(PROSE, asked_in="en"), Liker(), "rerank"),
        (replace(PROSE, asked_in="zh"), Liker(), "hybrid"),
        (replace(PROSE, asked_in="zh"), Liker(name="http:any"), "rerank"),
        (PROSE, Liker(name="overlap"), "hybrid"),
        (PROSE, None, "hybrid"),
        (replace(PROSE, messages=2), Liker(), "hybrid"),
    ],
)
def test_the_choice(signs: Signs, reranker: Reranker | None, strategy: str) -> None:
    assert choose_by_signs(signs, lambda: reranker)[0] == strategy


@pytest.mark.parametrize(
    ("messages", "reason"),
    [(1, "1 of its first hits is a message"), (7, "7 of its first hits are messages")],
)
def test_the_reason_counts_the_messages(messages: int, reason: str) -> None:
    assert choose_by_signs(replace(PROSE, messages=messages), lambda: None) == ("hybrid", reason)


def choose(engine: Engine, question: str) -> str:
    with record() as trace:
        engine.search(question, strategy="auto")
    step = trace.find("auto")
    assert step
    return str(step.notes["strategy"])


def build(text: str, reranker: Reranker | None) -> Engine:
    engine = Engine.open(":memory:", embedder="hashed", reranker=reranker or "")
    engine.add_documents([Document(word, text.format(word)) for word in TOPICS])
    return engine


def test_auto_reranks_prose_and_not_code_or_other_languages() -> None:
    prose = "The keeper of the {} opens the gate every morning and closes it again in the evening."
    with build(prose, Liker()) as engine:
        assert choose(engine, "when does the keeper open the gate?") == "rerank"
        hits = engine.search("when does the keeper open the gate?", strategy="auto", k=1)
        assert hits[0].document.id == "tower"
    code = "def open_{}(self, key=None): return self._gates[key] if key else {{}}  # keeper"
    with build(code, Liker()) as engine:
        assert choose(engine, "python function for the keeper that returns all gates") != "rerank"
    german = "Der Wärter öffnet jeden Morgen das Tor an dem Ort {} und schließt es am Abend wieder ab."
    with build(german, Liker()) as engine:
        assert choose(engine, "Wann öffnet der Wärter das Tor?") != "rerank"


def test_auto_does_what_the_question_asks_for() -> None:
    with build("The keeper of the {} opens the gate every morning.", Liker()) as engine:
        assert choose(engine, "use lexical search: keeper of the tower") == "lexical"
        assert choose(engine, "show me the complete document about the tower") == "document_boost"
        talk = [Message(f"message {number}") for number in range(101)]
        with record() as trace:
            engine.search("and then?", strategy="auto", history=talk)
        step = trace.find("auto")
        assert step
        assert step.notes["strategy"] == "chunked"


def test_the_trace_of_auto_says_how_many_hits_are_messages() -> None:
    with Engine.open(":memory:", embedder="hashed", reranker="") as engine:
        engine.add_documents([Document(word, f"The keeper of the {word} opens the gate.") for word in TOPICS])
        engine.add_messages([Message("the keeper opened the gate late", author="ada", channel="gates")])
        with record() as trace:
            engine.search("when does the keeper open the gate today", strategy="auto")
    step = trace.find("auto")
    assert step
    assert step.notes == {"strategy": "hybrid", "reason": "1 of its first hits is a message"}
