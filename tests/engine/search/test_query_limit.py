"""A query has a length limit, in every verb that takes one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.errors import SettingsError
from clew.core.settings import SearchConfig

VERBS: dict[str, Callable[[Engine, str, Settings], object]] = {
    "search": lambda engine, text, settings: engine.search(text, settings=settings),
    "multi_query": lambda engine, text, settings: engine.search(text, strategy="multi_query", settings=settings),
    "auto": lambda engine, text, settings: engine.search(text, strategy="auto", settings=settings),
    "search_many": lambda engine, text, settings: engine.search_many(["keys", text], settings=settings),
    "context": lambda engine, text, settings: engine.context(text, settings=settings),
    "ask": lambda engine, text, settings: engine.ask(text, settings=settings),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "a.md").write_text("# Vault\n\nKeys rotate weekly.")
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        engine.add(tmp_path / "a.md")
        yield engine


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.slow
def test_a_query_that_is_too_long_is_an_error_that_says_what_to_do(engine: Engine, verb: str) -> None:
    settings = Settings(search=SearchConfig(max_query_chars=20))
    advice = r"the query has 21 characters, and the limit is 20; shorten it, or raise search\.max_query_chars"
    with pytest.raises(SettingsError, match=advice):
        VERBS[verb](engine, "x" * 21, settings)
    VERBS[verb](engine, "when do keys rotate?", settings)


def test_a_query_as_long_as_the_default_limit_is_answered(engine: Engine) -> None:
    text = ("keys of vault rotate " * 5_000)[:100_000]
    assert engine.search(text)[0].chunk.text.endswith("Keys rotate weekly.")
    for strategy in ("multi_query", "auto"):
        assert engine.search(text[:10_500], strategy=strategy)[0].chunk.text.endswith("Keys rotate weekly.")
    with pytest.raises(SettingsError, match="100,001 characters"):
        engine.search(f"{text}.")
