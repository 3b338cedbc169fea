"""A query has a length limit, in every verb that takes one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew import Engine
from clew.core.errors import SettingsError

VERBS: dict[str, Callable[[Engine, str], object]] = {
    "search": lambda engine, text: engine.search(text),
    "multi_query": lambda engine, text: engine.search(text, strategy="multi_query"),
    "auto": lambda engine, text: engine.search(text, strategy="auto"),
    "search_many": lambda engine, text: engine.search_many(["keys", text]),
    "context": lambda engine, text: engine.context(text),
    "ask": lambda engine, text: engine.ask(text),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "a.md").write_text("# Vault\n\nKeys rotate weekly.")
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        engine.add(tmp_path / "a.md")
        yield engine


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.slow
def test_a_query_that_is_too_long_is_an_error_that_says_what_to_do(
    engine: Engine, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.query.search.find.MAX_QUERY_CHARS", 20)
    with pytest.raises(SettingsError, match="the query has 21 characters, and the limit is 20; shorten it"):
        VERBS[verb](engine, "x" * 21)
    VERBS[verb](engine, "when do keys rotate?")


def test_a_query_as_long_as_the_default_limit_is_answered(engine: Engine) -> None:
    text = ("keys of vault rotate " * 5_000)[:100_000]
    assert engine.search(text)[0].chunk.text.endswith("Keys rotate weekly.")
    for strategy in ("multi_query", "auto"):
        assert engine.search(text[:10_500], strategy=strategy)[0].chunk.text.endswith("Keys rotate weekly.")
    with pytest.raises(SettingsError, match="100,001 characters"):
        engine.search(f"{text}.")
