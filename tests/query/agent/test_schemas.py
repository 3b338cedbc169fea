"""The tools for agents of others: schemas that a validator accepts, and calls with JSON that answer with JSON."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from clew import Document, Engine, Message, NotFound, SettingsError, Toolbox
from clew.core.settings import IngestionConfig, RerankerConfig, Settings
from clew.query.agent.tools import TOOL_NAMES

PLAIN = Settings(ingestion=IngestionConfig(), reranker=RerankerConfig(name="overlap"))
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_knowledge_base": {"query": "when is soup served?", "limit": 2},
    "search_with_multi_query": {"query": "when is soup served?"},
    "search_with_reranking": {"query": "when is soup served?", "limit": 1},
    "search_with_self_reflection": {"query": "when is soup served?"},
    "search_conversations": {"query": "who cooks the soup?", "channel": "galley"},
    "retrieve_full_document": {"title": "Lunch"},
    "read_document": {"documentIndex": 1, "query": "when is soup served?"},
}


@pytest.fixture
def tools() -> Iterator[Toolbox]:
    with Engine.open(":memory:", embedder="hashed", settings=PLAIN) as engine:
        engine.add_documents(
            [
                Document("lunch", "Soup is served at noon.\n\nBread is free.", title="Lunch", uri="lunch.md"),
                Document("vault", "Keys are rotated by Dan.", title="Vault", uri="vault.md"),
            ]
        )
        at = datetime(2026, 3, 2, 9, tzinfo=UTC)
        engine.add_messages([Message("Ines cooks the soup.", author="Bo", at=at, id="m1", channel="galley")])
        engine.sessions.set_document_index("s", ["lunch", "vault"])
        yield engine.tools(session="s")


def get_parameters(schema: dict[str, Any], form: str) -> tuple[str, dict[str, Any]]:
    """The name of a tool and the schema of its arguments, in each format."""
    if form == "openai":
        assert schema["type"] == "function"
        return schema["function"]["name"], schema["function"]["parameters"]
    return (schema["name"], schema["input_schema"]) if form == "anthropic" else (schema["title"], schema)


@pytest.mark.parametrize("form", ["json", "openai", "anthropic"])
def test_every_tool_has_a_valid_schema_by_which_it_can_be_called(form: Any, tools: Toolbox) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schemas = json.loads(json.dumps(tools.schemas(form)))
    assert [get_parameters(schema, form)[0] for schema in schemas] == list(TOOL_NAMES)
    for schema in schemas:
        name, parameters = get_parameters(schema, form)
        jsonschema.Draft202012Validator.check_schema(parameters)
        jsonschema.validate(ARGUMENTS[name], parameters)
        mistakes: list[dict[str, Any]] = [{}, {**ARGUMENTS[name], "more": 1}, {key: [] for key in ARGUMENTS[name]}]
        for wrong in mistakes:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, parameters)
            with pytest.raises(SettingsError):
                tools.call(name, wrong)
        assert all(member["description"] for member in parameters["properties"].values())
        found = json.loads(json.dumps(tools.call(name, json.dumps(ARGUMENTS[name]))))
        assert found["text"]
        assert found["count"] >= 1
        assert found["passages"][0]["documentIndex"] >= 1


def test_the_descriptions_are_those_of_the_tools() -> None:
    by_name = {schema["name"]: schema for schema in Toolbox.schemas("anthropic")}
    assert "Call it for EVERY new question about a document." in by_name["read_document"]["description"]
    properties = by_name["search_knowledge_base"]["input_schema"]["properties"]
    assert (properties["limit"]["default"], properties["limit"]["maximum"]) == (5, 50)
    assert by_name["read_document"]["input_schema"]["required"] == ["documentIndex", "query"]


def test_read_document_returns_its_name_and_what_is_relevant(tools: Toolbox) -> None:
    read = tools.read_document(1, "when is soup served?")
    assert read.data == {
        "documentName": "Lunch",
        "relevantContent": "<CONTENT>Soup is served at noon.</CONTENT>",
        "notes": [],
    }
    assert read.text.startswith("[1] Lunch\n<CONTENT>Soup is served at noon.</CONTENT>")
    called = tools.call("read_document", {"documentIndex": 1.0, "query": "when is soup served?"})
    assert {key: called[key] for key in read.data} == read.data
    assert called["passages"][0]["uri"] == "lunch.md"


def test_a_whole_document_is_returned_with_its_name(tools: Toolbox) -> None:
    found = tools.call("retrieve_full_document", {"title": "lunch.md"})
    assert (found["documentName"], found["isComplete"]) == ("Lunch", True)
    assert found["content"] == "Soup is served at noon.\n\nBread is free."


def test_messages_are_returned_with_author_and_time(tools: Toolbox) -> None:
    [passage] = tools.call("search_conversations", {"query": "who cooks the soup?", "channel": None})["passages"]
    assert passage["messages"] == [{"author": "Bo", "at": "2026-03-02T09:00:00+00:00", "text": "Ines cooks the soup."}]


@pytest.mark.parametrize(
    ("name", "arguments", "error", "said"),
    [
        ("read_document", {"documentIndex": 9, "query": "x"}, NotFound, "^Document 9 not found$"),
        ("read_document", {"documentIndex": 0, "query": "x"}, NotFound, "^Document 0 not found$"),
        ("read_dokument", {}, NotFound, "there is no tool 'read_dokument'; did you mean read_document"),
        ("xyz", {}, NotFound, "there are search_knowledge_base, "),
        ("read_document", {"query": "x", "index": 1}, SettingsError, "has no argument 'index'; it takes documentIndex"),
        ("read_document", {"query": "x"}, SettingsError, "lacks the argument 'documentIndex'; it takes"),
        ("read_document", {"documentIndex": True, "query": "x"}, SettingsError, "is True; it must be a whole number"),
        ("read_document", {"documentIndex": "1", "query": "x"}, SettingsError, "is '1'; it must be a whole number"),
        (
            "search_knowledge_base",
            {"query": 7},
            SettingsError,
            "query of search_knowledge_base is 7; it must be a text",
        ),
        ("search_knowledge_base", {"query": "x", "limit": 51}, SettingsError, "limit is 51"),
        ("search_conversations", {"query": "x", "channel": 1}, SettingsError, "must be a text or null"),
        ("search_knowledge_base", '{"query": ', SettingsError, "are not JSON: "),
        ("search_knowledge_base", "[1]", SettingsError, "are list; they must be an object"),
        ("search_knowledge_base", "", SettingsError, "lacks the argument 'query'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    tools: Toolbox, name: str, arguments: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        tools.call(name, arguments)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be one of json, openai, anthropic"):
        Toolbox.schemas("yaml")  # type: ignore[arg-type]
