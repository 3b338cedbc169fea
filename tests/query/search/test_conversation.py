"""A whole conversation as the query: case 5, with strategies that are plain functions."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from clew.core.errors import SettingsError
from clew.core.protocols import Strategy
from clew.core.settings import ConversationConfig
from clew.core.trace import record
from clew.core.types import Chunk, DocumentRecord, Hit, Matrix, Message, Query, Vector
from clew.query.rank.dedupe import FetchVectors
from clew.query.search.compose import Embed
from clew.query.search.conversation import SplitTopics, chunked

START = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


def hit(name: str, score: float, document: str = "") -> Hit:
    return Hit(Chunk(name, document or name, 0, 1, name, 0, len(name)), DocumentRecord(document or name), score)


def make_messages(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(text, "ada", START + timedelta(minutes=place)) for place, text in enumerate(texts))


def split_paragraphs(text: str) -> list[str]:
    return text.split("\n\n")


def embed(texts: Sequence[str]) -> Matrix:
    return np.ones((len(texts), 2), np.float32) / np.float32(np.sqrt(2))


def ids(hits: list[Hit]) -> str:
    return " ".join(each.chunk.id for each in hits)


def find_by_word(found: dict[str, list[Hit]], queries: list[Query] | None = None) -> Strategy:
    """Finds what is listed under a word of the query."""

    def search(query: Query) -> list[Hit]:
        if queries is not None:
            queries.append(query)
        return [each for word, hits in found.items() if word in query.text for each in hits]

    return search


def search_by_parts(
    strategy: Strategy,
    *,
    embed: Embed | None = embed,
    split_topics: SplitTopics | None = None,
    vectors: FetchVectors | None = None,
    **settings: Any,
) -> Strategy:
    """The strategy over the parts of a conversation, by settings of `ConversationConfig`; each paragraph is a part."""
    return chunked(
        strategy,
        ConversationConfig(**settings),
        split_text=split_paragraphs,
        embed=embed,
        split_topics=split_topics,
        fetch_vectors=vectors,
    )


SHELF = {
    "paris": [hit(f"p{place}", 0.95) for place in range(6)],
    "parser": [hit("code", 0.75)],
    "soup": [hit("food", 0.75)],
}
THREE = make_messages("to paris", "my parser", "a soup")


def test_every_topic_reaches_the_first_five() -> None:
    """Case 5.5, and that the global order cannot promise it."""
    query = Query("", k=5, history=THREE)
    covering = search_by_parts(find_by_word(SHELF), single_below=0)(query)
    assert ids(covering[:5]) == "p0 code food p1 p2"
    assert [each.score for each in covering] == [0.95, 0.75, 0.75, 0.95, 0.95, 0.95, 0.95]
    by_score = search_by_parts(find_by_word(SHELF), single_below=0, order="score")(query)
    assert {each.score for each in by_score[:5]} == {0.95}


def test_all_queries_are_embedded_in_one_call() -> None:
    calls: list[list[str]] = []
    asked: list[Query] = []

    def counted(texts: Sequence[str]) -> Matrix:
        calls.append(list(texts))
        return np.eye(len(texts), dtype=np.float32)

    search_by_parts(find_by_word({}, asked), embed=counted, single_below=0)(Query("", history=THREE))
    assert calls == [["to paris", "my parser", "a soup"]]
    assert {each.text: int(np.argmax(each.vector)) for each in asked if each.vector is not None} == {
        "to paris": 0,
        "my parser": 1,
        "a soup": 2,
    }
    assert not any(each.history for each in asked)


@pytest.mark.parametrize(("messages", "queries"), [(100, 1), (101, 101)])
def test_few_messages_are_one_query(messages: int, queries: int) -> None:
    """Case 5.14."""
    asked: list[Query] = []
    history = make_messages(*(f"message {place}" for place in range(messages)))
    search_by_parts(find_by_word({}, asked), embed=None, single_below=100)(Query("", history=history))
    assert len(asked) == queries


def test_queries_are_the_texts_alone() -> None:
    asked: list[Query] = []
    search_by_parts(find_by_word({}, asked), embed=None, single_below=100)(Query("", history=THREE))
    assert [query.text for query in asked] == ["to paris\n\nmy parser\n\na soup"]


def test_a_document_of_many_chunks_does_not_fill_a_query() -> None:
    """Case 5.6, with a document so long that the first search finds nothing else."""
    long = [hit(f"long{place:03}", 0.9, "long") for place in range(70)]
    others = [hit(f"other{place}", 0.5) for place in range(6)]

    def search(query: Query) -> list[Hit]:
        return [*long, *others][: query.k * 5]

    for single_below in (0, 100):
        asking = search_by_parts(search, single_below=single_below)
        found = asking(Query("", k=5, history=THREE))
        assert ids(found[:5]) == "long000 other0 other1 other2 other3"


def test_counts_are_in_the_log_and_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Case 5.8: seven queries of five hits each, twelve documents, five wanted."""
    shelf = {f"q{q}!": [hit(f"d{(q * 5 + n) % 12}", 0.9 - n / 10) for n in range(5)] for q in range(7)}
    asking = search_by_parts(find_by_word(shelf), single_below=0)
    with caplog.at_level(logging.DEBUG, "clew"), record() as trace:
        asking(Query("", k=5, history=make_messages(*shelf)))
    for line in (
        "Querying for chunk 1/7",
        "Chunked conversation into 7 chunks",
        "Collected 35 total results from 7 chunks",
        "35 results → 12 unique documents (n=1 per doc), 12 rows",
        "7 chunks → 35 results → 12 deduped → 5 final",
    ):
        assert line in caplog.text
    step = trace.find("chunked")
    assert step is not None
    assert step.notes == {
        "messages": 7, "topics": 7, "chunks": 7, "results": 35, "rows": 12, "documents": 12, "final": 5
    }  # fmt: skip
    assert step.out == 12
    assert [each.out for each in step.steps if each.name == "query"] == [5] * 7


@pytest.mark.parametrize("query", [Query(""), Query(" \n"), Query("", history=make_messages("", " \n"))])
def test_an_empty_conversation_finds_nothing(query: Query) -> None:
    def never(_: Query) -> list[Hit]:
        raise AssertionError("nothing was asked")

    assert search_by_parts(never)(query) == []


def test_a_question_beside_the_conversation_asks_for_itself() -> None:
    asked: list[Query] = []
    search = search_by_parts(find_by_word({}, asked), embed=None, single_below=0)
    search(Query("which one?", history=THREE))
    assert sorted(each.text for each in asked) == ["a soup", "my parser", "to paris", "which one?"]
    asked.clear()
    search(Query("a soup", history=THREE))
    assert len(asked) == 3
    asked.clear()
    search_by_parts(find_by_word({}, asked), embed=None, single_below=100)(Query("which one?", history=THREE))
    assert [each.text for each in asked] == ["to paris\n\nmy parser\n\na soup\n\nwhich one?"]


def test_a_text_alone_is_a_conversation_of_sentences() -> None:
    asked: list[Query] = []
    text = "Where is paris? My parser fails."
    search_by_parts(find_by_word({}, asked), embed=None, single_below=100)(Query(text))
    assert [each.text for each in asked] == [text]
    asked.clear()
    search_by_parts(find_by_word({}, asked), embed=None, single_below=0)(Query(text))
    assert sorted(each.text for each in asked) == ["My parser fails.", "Where is paris?"]


def test_a_vector_that_is_there_is_not_made_again() -> None:
    asked: list[Query] = []

    def never(_: Sequence[str]) -> Matrix:
        raise AssertionError("the query has its vector")

    query = Query("Where is paris?", vector=np.ones(2, np.float32))
    search_by_parts(find_by_word({}, asked), embed=never)(query)
    assert asked[0].vector is query.vector


def test_one_query_leaves_the_cut_to_the_engine() -> None:
    """So that what orders the hits anew has more than k to choose from."""
    found = search_by_parts(find_by_word(SHELF))(Query("paris", k=2))
    assert len(found) == 6


def test_the_whole_may_be_asked_too() -> None:
    asked: list[Query] = []
    search_by_parts(find_by_word({}, asked), embed=None, single_below=0, global_query=True)(Query("", history=THREE))
    assert sorted(each.text for each in asked) == ["a soup", "my parser", "to paris", "to paris\n\nmy parser\n\na soup"]


def test_topics_share_the_rounds_of_coverage() -> None:
    shelf = {"harbour": [hit("a", 0.9)], "tide": [hit("b", 0.8)], "soup": [hit("c", 0.1)]}
    history = make_messages("harbour", "tide", "soup")

    def two_topics(messages: Sequence[Message]) -> list[Sequence[Message]]:
        return [messages[:2], messages[2:]]

    flat = search_by_parts(find_by_word(shelf), single_below=0)
    grouped = search_by_parts(find_by_word(shelf), single_below=0, split_topics=two_topics)
    assert ids(flat(Query("", history=history))) == "a b c"
    assert ids(grouped(Query("", history=history))) == "a c b"


# -- settings


def make_vectors(names: Sequence[str]) -> dict[str, Vector]:
    """What begins alike points the same way."""
    return {name: np.eye(26, dtype=np.float32)[ord(name[0]) - ord("a")] for name in names}


def test_every_setting_changes_what_is_found() -> None:
    shelf = {
        "paris": [hit("p1", 0.9, "guide"), hit("p2", 0.8, "guide"), hit("p3", 0.7, "blog")],
        "parser": [hit("p1", 0.95, "guide"), hit("c1", 0.6, "manual")],
        "soup": [hit("s1", 0.2, "recipes")],
    }

    def found(**settings: Any) -> str:
        search = search_by_parts(find_by_word(shelf), **{"single_below": 0, **settings})
        return ids(search(Query("", k=5, history=THREE)))

    assert found() == "p1 s1 p3 c1"
    assert found(order="score") == "p1 p3 c1 s1"
    assert found(single_below=3) == "p1 p3 c1 s1"
    assert found(dedup_max_per_doc=2) == "p1 s1 p2 p3 c1"
    assert found(dedup_strategy="none", order="score") == "p1 p2 p3 c1 s1"
    assert found(dedup_strategy="none", order="score", chunks_per_query=1) == "p1 s1"
    assert found(dedup_strategy="semantic", vectors=make_vectors, order="score") == "p1 c1 s1"
    assert found(dedup_strategy="none", order="score", mmr=0.5, vectors=make_vectors) == "p1 c1 s1 p2 p3"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunks_per_query": 0}, "chunks_per_query is 0"),
        ({"single_below": -1}, "single_below is -1"),
        ({"dedup_max_per_doc": 0}, "dedup_max_per_doc is 0"),
        ({"dedup_strategy": "title"}, "dedup_strategy is 'title'; it may be document, none, semantic"),
        ({"order": "date"}, "order is 'date'; it may be coverage, score"),
        ({"dedup_strategy": "semantic"}, "needs the vectors"),
        ({"mmr": 0.7, "order": "score"}, "needs the vectors"),
        ({"mmr": 0.7, "vectors": make_vectors}, "leave mmr out"),
        ({"mmr": 7, "order": "score", "vectors": make_vectors}, "mmr is 7"),
        ({"dedup_strategy": "semantic", "vectors": make_vectors, "dedup_threshold": 3}, "threshold is 3"),
    ],
)
def test_wrong_values_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        search_by_parts(find_by_word({}), **settings)


def test_what_a_search_raises_is_raised() -> None:
    def broken(_: Query) -> list[Hit]:
        raise RuntimeError("Index file not found")

    with pytest.raises(RuntimeError, match="Index file not found"):
        search_by_parts(broken, single_below=0)(Query("", history=THREE))
