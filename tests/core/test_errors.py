"""What errors say: calls of Python, and commands to the command line; wrong values are refused at the door."""

import pickle
import re
from typing import Any

import pytest

from clew import ClewError, Document, Engine, Message, NotFound, SearchConfig, Settings, SettingsError


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("`clew list` shows them", "`Engine.list` shows them"),
        ("`clew why-not`", "`Engine.why_not`"),
        ("`clew doctor --repair` mends it", "`Engine.doctor(repair=True)` mends it"),
        ("(`clew reembed --discard`)", "(`Engine.reembed(discard=True)`)"),
        ("`clew evaluate make` writes some", "`clew.evaluation.make_questions` writes some"),
        ("`clew --path a/b collections drop x` and", "`Engine.drop_collection` and"),
        ("`clew serve` starts it", "`clew serve` starts it"),
        ("`search.k` is a setting", "`search.k` is a setting"),
    ],
)
def test_an_error_names_calls_of_python_and_keeps_the_command(command: str, call: str) -> None:
    error = NotFound(command)
    assert (str(error), error.message) == (call, command)
    again: ClewError = pickle.loads(pickle.dumps(error))
    assert (str(again), again.message) == (call, command)


def make_typed(**given: Any) -> Settings:
    settings = Settings(search=SearchConfig(**given))
    Engine.open(":memory:", embedder="hashed", settings=settings).close()
    return settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"k": "5"}, "search.k is '5'; it must be a number of at least 1"),
        ({"k": 0}, "search.k is 0; it must be at least 1"),
        ({"k": 2.5}, "search.k is 2.5; it must be a whole number"),
        ({"strategy": 5}, "search.strategy is 5; it must be text"),
        ({"min_relevance": None}, "search.min_relevance is None; it must be between 0 and 1"),
    ],
)
def test_a_setting_of_the_wrong_type_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=f"^{re.escape(told)}$"):
        make_typed(**given)


def test_wrong_nouns_are_told() -> None:
    wrong: Any = {"k": 3}
    with pytest.raises(SettingsError, match=r"search has the type dict; give a clew\.SearchConfig"):
        Settings(search=wrong)
    text: Any = 5
    for noun in (lambda: Message(text), lambda: Document("a", text)):
        with pytest.raises(TypeError, match="takes a text, not 5"):
            noun()
    with Engine.open(":memory:", embedder="hashed") as engine:
        texts: Any = ["text"]
        with pytest.raises(SettingsError, match=r"must be Document objects; got a str, so give Document\(id, text\)"):
            engine.add_documents(texts)
        with pytest.raises(NotFound, match="did you mean hybrid"):
            engine.search("keys", strategy="hybird")
