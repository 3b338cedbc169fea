"""The transformer: an input as short search queries, by a model that is given or made."""

import pytest

from clew import drivers
from clew.compat import QueryTransformer, create_transformer
from clew.core.errors import DriverFailed, SettingsError
from clew.core.settings import LLMConfig
from clew.drivers.llm.scripted import ScriptedLLM
from clew.query.rewrite.transformer import (
    Transformer,
    TransformerConfig,
    parse_query_lines,
    parse_query_response,
    strip_thinking,
)

ON = TransformerConfig(enabled=True)


class Closing(ScriptedLLM):
    """A scripted model that knows whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_defaults() -> None:
    assert TransformerConfig() == TransformerConfig(
        enabled=False,
        llm_provider="ollama",
        llm_model="llama3.2",
        num_queries=3,
        domain_context="",
        suppress_thinking=False,
    )
    assert QueryTransformer().config == TransformerConfig()


def test_disabled_returns_the_input_and_asks_nobody() -> None:
    model = ScriptedLLM("other words")
    assert QueryTransformer(TransformerConfig(), model).transform("test query") == ["test query"]
    assert QueryTransformer().transform_with_context("test query", "user: hello") == ["test query"]
    assert model.calls == 0


def test_enabled_but_not_initialised_fails() -> None:
    transformer = QueryTransformer(ON)
    with pytest.raises(SettingsError, match="not initialized"):
        transformer.transform("test")
    with pytest.raises(SettingsError, match="make="):
        Transformer(ON).initialize()


def test_a_given_model_is_ready_and_stays_usable_after_close() -> None:
    model = Closing("OAuth grant types\nauthorization code")
    transformer = QueryTransformer(ON, provider=model)
    assert transformer.transform("What are OAuth grants?") == ["OAuth grant types", "authorization code"]
    transformer.close()
    assert not model.closed
    assert model.complete("still there?")
    with pytest.raises(SettingsError, match="not initialized"):
        transformer.transform("again")
    transformer.initialize()
    assert len(transformer.transform("again")) == 2


def test_a_made_model_is_made_once_of_the_config_and_closed() -> None:
    made: list[TransformerConfig] = []
    model = Closing("search query one")

    def make(config: TransformerConfig) -> Closing:
        made.append(config)
        return model

    transformer = QueryTransformer(ON, make=make)
    transformer.initialize()
    transformer.initialize()
    assert made == [ON]
    assert transformer.transform("test question") == ["search query one"]
    transformer.close()
    transformer.close()
    assert model.closed


def test_initialize_of_a_disabled_one_makes_nothing() -> None:
    def make(config: TransformerConfig) -> ScriptedLLM:
        raise AssertionError

    QueryTransformer(make=make).initialize()


def test_set_provider() -> None:
    transformer = QueryTransformer(ON)
    transformer.set_provider(ScriptedLLM("search query one\nsearch query two"))
    assert len(transformer.transform("test question")) == 2


def test_at_most_num_queries() -> None:
    model = ScriptedLLM("one query\ntwo query\nthree query\nfour query")
    transformer = QueryTransformer(ON, model)
    assert len(transformer.transform("x y")) == 3
    assert transformer.transform("x y", 1) == ["one query"]
    assert len(transformer.transform("x y", num_queries=4)) == 4
    assert "4 different" in model.requests[-1].prompt
    with pytest.raises(SettingsError, match="num_queries is 0"):
        transformer.transform("x y", 0)


def test_the_prompt_says_the_domain_the_context_and_the_input() -> None:
    model = ScriptedLLM("context aware query")
    config = TransformerConfig(enabled=True, domain_context="OAuth 2.0 {grants}")
    transformer = QueryTransformer(config, model)
    transformer.transform_with_context("What about refresh tokens?", "user: How do {OAuth} grants work?")
    transformer.transform("What about refresh tokens?")
    with_context, without = (ask.prompt for ask in model.requests)
    for part in ("OAuth 2.0 {grants}", "What about refresh tokens?", "How do {OAuth} grants work?"):
        assert part in with_context
    assert "conversation context" in with_context.lower()
    assert "conversation context" not in without.lower()


def test_nothing_usable_is_the_input_and_a_failure_raises() -> None:
    assert QueryTransformer(ON, ScriptedLLM("\n ok \n")).transform("my input") == ["my input"]
    with pytest.raises(DriverFailed):
        QueryTransformer(ON, ScriptedLLM([DriverFailed("down")])).transform("my input")


def test_create_transformer() -> None:
    model = ScriptedLLM("a query")
    made = create_transformer({"enabled": True, "num_queries": 5}, provider=model)
    assert made.config == TransformerConfig(enabled=True, num_queries=5)
    assert made.transform("q") == ["a query"]
    assert create_transformer({}).transform("q") == ["q"]


def test_without_a_model_the_config_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    named = list[str]()

    def make(config: LLMConfig) -> ScriptedLLM:
        named.append(config.name)
        return ScriptedLLM("a query")

    monkeypatch.setattr(drivers, "make_language_model", make)
    made = create_transformer({"enabled": True, "llm_provider": "openai", "llm_model": "gpt-4o-mini"})
    made.initialize()
    assert made.transform("q") == ["a query"]
    assert named == ["openai:gpt-4o-mini"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"enbled": True, "models": "x"}, "enbled, models: not a setting"),
        ({"num_queries": 0}, "num_queries is 0"),
        ({"num_queries": "3"}, "num_queries is '3'; it must be of type int"),
        ({"enabled": "yes"}, "enabled is 'yes'; it must be of type bool"),
    ],
)
def test_create_transformer_refuses(config: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        create_transformer(config)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("query one\nquery two\nquery three", ["query one", "query two", "query three"]),
        ("1. first query\n2. second query", ["first query", "second query"]),
        ("1) first query\n2)second query\n(3) third query", ["first query", "second query", "third query"]),
        ("1.first query", ["first query"]),
        (
            "- one query\n* two query\n• three query\n– four query",
            ["one query", "two query", "three query", "four query"],
        ),
        ("- 1. one query", ["one query"]),
        ("\"query one\"\n'query two'\n“query three”,", ["query one", "query two", "query three"]),
        (
            '"who wrote \'Dune\'"\n\'what\'s new\'\n"Dune" or "Foundation"',
            ["who wrote 'Dune'", "what's new", '"Dune" or "Foundation"'],
        ),
        ("**bold query**\n`code query`\n**3. numbered query**", ["bold query", "code query", "numbered query"]),
        ("Query 1: first query\nquery: second query", ["first query", "second query"]),
        ("ok\nvalid query\nno", ["valid query"]),
        ("Sure!\nNone\ndemonstrations\nC++ templates", ["demonstrations", "C++ templates"]),
        (
            "2024 revenue growth\n3D printing basics\n3.5 inch floppy",
            ["2024 revenue growth", "3D printing basics", "3.5 inch floppy"],
        ),
        ("2. Liga results", ["2. Liga results"]),  # the first line would be number one
        ("Here are three queries:\n1. one query\n```", ["one query"]),
        ("one query\nOne  query!\nother query", ["one query", "other query"]),
        ("  spaced   out  ", ["spaced out"]),
        ("I would be glad to help you, but first I need to know more about it all.", []),
        ("退款政策\n", ["退款政策"]),
        ("", []),
    ],
)
def test_query_lines(answer: str, expected: list[str]) -> None:
    assert parse_query_lines(answer) == expected
    assert parse_query_response(answer, "fallback") == (expected or ["fallback"])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("<think>a</think>b<think>c\nd</think>e", "be"),
        ("b<THINK>cut off", "b"),
        ("opened by the template</think>b", "b"),
        ("nothing", "nothing"),
    ],
)
def test_without_thinking(answer: str, expected: str) -> None:
    assert strip_thinking(answer) == expected
