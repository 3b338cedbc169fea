"""What a conversation is about, as a typed outcome: cases 5.7 and 5.9 to 5.11 through the front door."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clew import Document, Engine, Extensions, Filter, Hit, Message, Query, Settings
from clew.compat import query_rag_for_context
from clew.core.protocols import Strategy
from clew.core.settings import ContextConfig, ConversationConfig, SearchConfig
from clew.core.window import Failure, RagErrorReason, Success
from clew.query.search.strategies import Drivers, lexical

POSTS = {
    "paris": "A week in Paris: the Louvre, the Seine, and croissants by the metro.",
    "debugging": "Debugging a deadlock: attach gdb, dump every stack, find the lock.",
    "recipes": "A recipe for leek soup: butter, leeks, potatoes, cream, and patience.",
}
TALK = [
    {"timestamp": f"2025-01-15 10:{minute:02}", "author": "ada", "message": words}
    for minute, words in enumerate(
        ["the Louvre in Paris and the Seine"] * 10
        + ["gdb shows a deadlock on the lock"] * 10
        + ["leek soup with cream and potatoes"] * 10
    )
]
BY_TOPIC = Settings(conversation=ConversationConfig(single_below=0))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as opened:
        opened.add_documents(
            Document(name, text, (), title=f"On {name}", uri=f"posts/{name}.md", meta={"date": "2025-01-02"})
            for name, text in POSTS.items()
        )
        yield opened


def scored(**similarities: float) -> Any:
    """A strategy whose hits have the similarities that documents were given, in that order."""

    def made(drivers: Drivers) -> Strategy:
        def search(query: Query) -> list[Hit]:
            asked = replace(query, text=" ".join(POSTS.values()), history=())
            found = {hit.chunk.doc_id: hit for hit in lexical(drivers)(asked)}
            return [
                replace(found[name], score=1.0, scores={}, similarity=given, relevance=0.5)
                for name, given in similarities.items()
            ]

        return search

    return made


def broken(_: Drivers) -> Strategy:
    def search(_: Query) -> list[Hit]:
        raise OSError("Index file not found")

    return search


def test_every_topic_of_a_conversation_has_its_post(engine: Engine) -> None:
    outcome = query_rag_for_context(engine, TALK)
    assert isinstance(outcome, Success)
    assert outcome.value.text.startswith(
        "\n\n## Related Previous Posts (for continuity and linking):\nYou can reference"
    )
    for name, text in POSTS.items():
        assert f"### [On {name}] (2025-01-02)\n{text}...\n- Tags: none\n" in outcome.value.text
    (paris,) = (record for record in outcome.value.records if record["document_id"] == "paris")
    assert paris["content"] == POSTS["paris"]
    assert (paris["post_slug"], paris["post_title"], paris["chunk_index"]) == ("paris", "On paris", 0)
    similar = [record["similarity"] for record in outcome.value.records]
    assert similar == sorted(similar, reverse=True)
    cosines = {hit.chunk.doc_id: hit.scores["semantic"] for hit in engine.search(TALK, settings=BY_TOPIC)}
    assert {record["document_id"]: record["similarity"] for record in outcome.value.records} == cosines
    assert query_rag_for_context(engine, TALK, return_records=True) == (outcome.value.text, [*outcome.value.records])


def test_no_topic_is_lost_where_most_is_said_and_written_of_another() -> None:
    talk = [Message(f"{POSTS['paris']} {n}", author="ada") for n in range(25)]
    talk += [Message("leek soup with cream and potatoes, said twice", author="bo", id=str(n)) for n in range(5)]
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(Document(name, text, title=name) for name, text in POSTS.items())
        engine.add_documents(Document(f"more{n}", f"{POSTS['paris']} {n}", title="More") for n in range(6))
        assert "recipes" in {hit.chunk.doc_id for hit in engine.search(talk, k=5)}
        one = Settings(conversation=ConversationConfig(single_below=100))
        assert "recipes" not in {hit.chunk.doc_id for hit in engine.search(talk, k=5, settings=one)}
        records = query_rag_for_context(engine, talk, return_records=True)[1]
        assert "recipes" in {record["document_id"] for record in records}
        assert len(records) == 5


def test_k_a_filter_and_settings_count(engine: Engine) -> None:
    one, all_ = (query_rag_for_context(engine, TALK, k=k, return_records=True)[1] for k in (1, 5))
    assert (len(one), len(all_)) == (1, 3)
    only = query_rag_for_context(engine, TALK, where=Filter(documents=frozenset({"paris"})), return_records=True)[1]
    assert [record["document_id"] for record in only] == ["paris"]
    strict = Settings(search=SearchConfig(min_similarity=0.99))
    assert query_rag_for_context(engine, [Message("zzz")], settings=strict) == Failure(RagErrorReason.NO_HITS)


@pytest.mark.parametrize("table", [[], [Message("  ")], [{"timestamp": 1, "author": "ada", "message": ""}]])
def test_nothing_asked_and_nothing_found_are_no_hits(engine: Engine, table: list[Any]) -> None:
    assert query_rag_for_context(engine, table) == Failure(RagErrorReason.NO_HITS)
    assert query_rag_for_context(engine, table, return_records=True) == ("", [])
    with Engine.open(":memory:", embedder="hashed") as empty:
        outcome = query_rag_for_context(empty, TALK)
        assert isinstance(outcome, Failure)
        assert outcome.reason == "no_hits"


UNRELATED = ("did you watch the match last night?", "xyzzy plugh", "dividends are paid in June")


@pytest.mark.parametrize("texts", [*((text,) for text in UNRELATED), UNRELATED])
def test_unrelated_talk_has_no_hits_as_its_context_is_empty(engine: Engine, texts: tuple[str, ...]) -> None:
    talk = [{**row, "message": text} for row, text in zip(TALK, texts, strict=False)]
    assert engine.context(talk).passages == ()
    assert query_rag_for_context(engine, talk) == Failure(RagErrorReason.NO_HITS)
    assert query_rag_for_context(engine, talk, return_records=True) == ("", [])
    for settings in (  # no floor; a threshold given takes its place
        Settings(context=ContextConfig(min_relevance=0.0, min_chance=0.0)),
        Settings(search=SearchConfig(min_similarity=-1.0)),
    ):
        assert isinstance(query_rag_for_context(engine, talk, settings=settings), Success)


def test_a_threshold_given_binds_the_cosine(engine: Engine) -> None:
    every = query_rag_for_context(engine, TALK, settings=Settings(search=SearchConfig(min_similarity=-1.0)))
    assert isinstance(every, Success)
    for minimum in (record["similarity"] for record in every.value.records):
        found = query_rag_for_context(engine, TALK, settings=Settings(search=SearchConfig(min_similarity=minimum)))
        assert isinstance(found, Success)
        assert all(record["similarity"] >= minimum for record in found.value.records)


def test_a_search_that_fails_is_an_error_and_never_no_hits(caplog: pytest.LogCaptureFixture) -> None:
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies={"chunked": broken})) as engine:
        with caplog.at_level(logging.ERROR, "clew"):
            outcome = query_rag_for_context(engine, TALK)
        assert outcome == Failure(RagErrorReason.SYSTEM_ERROR, "OSError: Index file not found")
        assert outcome.reason == "rag_error"
        assert query_rag_for_context(engine, TALK, return_records=True) == ("", [])
    assert "RAG query failed" in caplog.text
    assert "Traceback" in caplog.text


def test_two_records_with_their_tags_and_similarities() -> None:
    with Engine.open(
        ":memory:",
        embedder="hashed",
        extensions=Extensions(strategies={"chunked": scored(recipes=0.87, paris=0.95)}),
        settings=Settings(context=ContextConfig(min_chance=0)),
    ) as engine:
        engine.add_documents(
            [
                Document("paris", POSTS["paris"], (), title="Paris", meta={"tags": ["test", "python"]}),
                Document("recipes", "x" * 401 + " leek", (), title="Soup"),
                Document("debugging", POSTS["debugging"], ()),
            ]
        )
        outcome = query_rag_for_context(engine, TALK)
        assert isinstance(outcome, Success)
        text = outcome.value.text
        assert [record["similarity"] for record in outcome.value.records] == [0.95, 0.87]
        assert [record["tags"] for record in outcome.value.records] == [["test", "python"], []]
        assert f"### [Paris] (no date)\n{POSTS['paris']}...\n- Tags: test, python\n- Similarity: 0.95\n\n" in text
        assert f"### [Soup] (no date)\n{'x' * 400}...\n- Tags: none\n- Similarity: 0.87\n\n" in text
