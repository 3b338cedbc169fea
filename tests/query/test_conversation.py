"""A whole conversation as the query: cases 1 and 5, with strategies that are plain functions."""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from clew.core.errors import SettingsError
from clew.core.protocols import Strategy
from clew.core.trace import record
from clew.core.types import Chunk, Hit, Matrix, Message, Query, Vector
from clew.query.conversation import chunked, consolidate_messages_to_markdown, messages_of

START = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


class Arrow:
    """What is asked of a pyarrow Table."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.column_names = list(rows[0]) if rows else []
        self._rows = rows

    def to_pylist(self) -> list[dict[str, Any]]:
        return list(self._rows)


class DataFrame:
    """Something that is called like what is not taken, and could be read like what is."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(GIVEN)


def row(timestamp: Any, author: str, message: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "author": author, "message": message, **more}


def hit(name: str, score: float, document: str = "") -> Hit:
    return Hit(Chunk(name, document or name, 0, 1, name, 0, len(name)), score)


def talk(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(text, "ada", START + timedelta(minutes=place)) for place, text in enumerate(texts))


def by_paragraph(text: str) -> list[str]:
    return text.split("\n\n")


def embed(texts: Sequence[str]) -> Matrix:
    return np.ones((len(texts), 2), np.float32) / np.float32(np.sqrt(2))


def ids(hits: list[Hit]) -> str:
    return " ".join(each.chunk.id for each in hits)


# -- rows


def test_no_rows_are_no_markdown() -> None:
    assert consolidate_messages_to_markdown([]) == ""
    assert consolidate_messages_to_markdown(Arrow()) == ""
    assert messages_of([]) == ()


GIVEN = [row("2025-01-15 10:30", "uuid-123", "Hello world"), row("2025-01-15 10:35", "uuid-456", "Hi there")]
MARKDOWN = """\
## Message 1
**Author:** uuid-123
**Timestamp:** 2025-01-15 10:30

Hello world

## Message 2
**Author:** uuid-456
**Timestamp:** 2025-01-15 10:35

Hi there
"""


@pytest.mark.parametrize(
    "table",
    [
        GIVEN,
        GIVEN[::-1],
        Arrow(*GIVEN),
        iter(GIVEN),
        [{"ts": each["timestamp"], "author_uuid": each["author"], "text": each["message"]} for each in GIVEN],
        messages_of(GIVEN),
    ],
    ids=["rows", "newest first", "arrow", "iterator", "other names", "messages"],
)
def test_markdown_has_each_message_under_its_number(table: Any) -> None:
    assert consolidate_messages_to_markdown(table) == MARKDOWN


def test_lines_and_times_are_kept_as_they_are() -> None:
    assert "\n\nLine 1\nLine 2\nLine 3\n" in consolidate_messages_to_markdown([row("t", "a", "Line 1\nLine 2\nLine 3")])
    for given in ("15th of January", 1736937000, datetime(2025, 1, 15, 10, 30, 5)):
        assert f"**Timestamp:** {given}\n" in consolidate_messages_to_markdown([row(given, "a", "b")])


@pytest.mark.parametrize("name", ["id", "msg_id", "message_id"])
def test_equal_times_go_by_their_ids(name: str) -> None:
    def order(*given: Any) -> list[str]:
        return [each.id for each in messages_of([row("2025-01-15", "a", f"of {id_}", **{name: id_}) for id_ in given])]

    assert order("002", "001") == ["001", "002"]
    assert order(10, 9) == ["9", "10"]
    assert order("b", "10", "a", "9") == ["9", "10", "a", "b"]


def test_equal_times_without_ids_stay_as_given() -> None:
    texts = list("qwertyuiop")
    rows = [row("2025-01-15", "a", text) for text in texts]
    assert [each.text for each in messages_of(rows)] == texts
    assert [each.text for each in messages_of(messages_of(rows))] == texts


def test_a_row_without_a_time_stays_behind_the_one_before() -> None:
    rows = [
        row(None, "a", "first"),
        row("2025-01-16", "a", "late"),
        row("soon", "a", "after late"),
        row(float("nan"), "a", "after that"),
        row("2025-01-15", "a", "early"),
        row("", "a", "after early"),
    ]
    texts = ["first", "early", "after early", "late", "after late", "after that"]
    assert [each.text for each in messages_of(rows)] == texts
    assert [each.text for each in messages_of([row(None, "a", text) for text in "cab"])] == ["c", "a", "b"]


@pytest.mark.parametrize(
    "given",
    [
        "2025-01-15 10:30",
        "2025-01-15T10:30:00Z",
        "2025-01-15T11:30:00+01:00",
        datetime(2025, 1, 15, 10, 30),
        START,
        1736937000,
        1736937000.0,
        "1736937000.000",
        1736937000000,
        1736937000000000,
        1736937000000000000,
    ],
)
def test_times_in_many_forms(given: Any) -> None:
    assert messages_of([row(given, "a", "b")])[0].at == START


@pytest.mark.parametrize("given", [None, "", "soon", float("inf"), True, -1e30, [], "99999999"])
def test_what_is_no_time_is_none(given: Any) -> None:
    assert messages_of([row(given, "a", "b")])[0].at is None


def test_all_columns_reach_the_message() -> None:
    given = row("2025-01-15 10:30", "ada", "hi", id="7", role="assistant", channel="dev", other=1)
    assert messages_of([given]) == (Message("hi", "ada", START, "7", "dev", None, "assistant"),)
    assert messages_of([row(None, None, None)]) == (Message(""),)  # type: ignore[arg-type]


def test_a_row_without_the_columns_names_them() -> None:
    for given in ({"some_col": 1}, {"timestamp": 1, "author": "a"}, {}):
        with pytest.raises(ValueError, match="timestamp/ts, author/author_uuid, message/text"):
            consolidate_messages_to_markdown([given])


@pytest.mark.parametrize(
    "table",
    [[1, 2], GIVEN[0], Message("hi"), "hi", b"hi", 7, None, [GIVEN], DataFrame()],
    ids=["ints", "mapping", "message", "str", "bytes", "int", "none", "nested", "dataframe"],
)
def test_what_is_no_table_is_refused(table: Any) -> None:
    for use in (consolidate_messages_to_markdown, messages_of):
        with pytest.raises(TypeError, match=r"give|must be"):
            use(table)


def test_pandas_is_refused_and_its_times_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    for table in (pandas.DataFrame(GIVEN), pandas.DataFrame(GIVEN)["message"]):
        with pytest.raises(TypeError, match="to_dict"):
            messages_of(table)
    rows = pandas.DataFrame({"ts": pandas.to_datetime(["2025-01-15 10:30", None]), "author": "a", "text": "b"})
    assert [each.at for each in messages_of(rows.to_dict("records"))] == [START, None]


# -- asking


def words(found: dict[str, list[Hit]], asked: list[Query] | None = None) -> Strategy:
    """Finds what is listed under a word of the query."""

    def search(query: Query) -> list[Hit]:
        if asked is not None:
            asked.append(query)
        return [each for word, hits in found.items() if word in query.text for each in hits]

    return search


SHELF = {
    "paris": [hit(f"p{place}", 0.95) for place in range(6)],
    "parser": [hit("code", 0.75)],
    "soup": [hit("food", 0.75)],
}
THREE = talk("to paris", "my parser", "a soup")


def test_every_topic_reaches_the_first_five() -> None:
    """Case 5.5, and that the global order cannot promise it."""
    query = Query("", k=5, history=THREE)
    covering = chunked(words(SHELF), chunk=by_paragraph, embed=embed, single_below=0)(query)
    assert {"p0", "code", "food"} <= {each.chunk.id for each in covering[:5]}
    assert [each.score for each in covering] == [0.95, 0.75, 0.75, 0.95, 0.95, 0.95, 0.95]
    by_score = chunked(words(SHELF), chunk=by_paragraph, embed=embed, single_below=0, order="score")(query)
    assert {each.score for each in by_score[:5]} == {0.95}


def test_all_queries_are_embedded_in_one_call() -> None:
    calls: list[list[str]] = []
    asked: list[Query] = []

    def counted(texts: Sequence[str]) -> Matrix:
        calls.append(list(texts))
        return np.eye(len(texts), dtype=np.float32)

    chunked(words({}, asked), chunk=by_paragraph, embed=counted, single_below=0)(Query("", history=THREE))
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
    history = talk(*(f"message {place}" for place in range(messages)))
    chunked(words({}, asked), chunk=by_paragraph, embed=None)(Query("", history=history))
    assert len(asked) == queries


def test_labels_are_left_out_of_the_queries_unless_wanted() -> None:
    asked: list[Query] = []
    for labels in (False, True):
        chunked(words({}, asked), chunk=lambda text: [text], embed=None, labels=labels)(Query("", history=THREE))
    assert asked[0].text == "to paris\n\nmy parser\n\na soup"
    assert asked[1].text == consolidate_messages_to_markdown(THREE).strip()


def test_a_document_of_many_chunks_does_not_fill_a_query() -> None:
    """Case 5.6, with a document so long that the first search finds nothing else."""
    long = [hit(f"long{place:03}", 0.9, "long") for place in range(70)]
    others = [hit(f"other{place}", 0.5) for place in range(6)]

    def search(query: Query) -> list[Hit]:
        return [*long, *others][: query.k * 5]

    for single_below in (0, 100):
        asking = chunked(search, chunk=by_paragraph, embed=embed, single_below=single_below)
        found = asking(Query("", k=5, history=THREE))
        assert ids(found) == "long000 other0 other1 other2 other3"


def test_counts_are_in_the_log_and_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Case 5.8: seven queries of five hits each, twelve documents, five wanted."""
    shelf = {f"q{q}!": [hit(f"d{(q * 5 + n) % 12}", 0.9 - n / 10) for n in range(5)] for q in range(7)}
    asking = chunked(words(shelf), chunk=by_paragraph, embed=embed, single_below=0)
    with caplog.at_level(logging.DEBUG, "clew"), record() as trace:
        asking(Query("", k=5, history=talk(*shelf)))
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


@pytest.mark.parametrize("query", [Query(""), Query(" \n"), Query("", history=talk("", " \n"))])
def test_an_empty_conversation_finds_nothing(query: Query) -> None:
    def never(_: Query) -> list[Hit]:
        raise AssertionError("nothing was asked")

    assert chunked(never, chunk=by_paragraph, embed=embed)(query) == []


def test_a_question_beside_the_conversation_asks_for_itself() -> None:
    asked: list[Query] = []
    search = chunked(words({}, asked), chunk=by_paragraph, embed=None, single_below=0)
    search(Query("which one?", history=THREE))
    assert sorted(each.text for each in asked) == ["a soup", "my parser", "to paris", "which one?"]
    asked.clear()
    search(Query("a soup", history=THREE))
    assert len(asked) == 3
    asked.clear()
    chunked(words({}, asked), chunk=by_paragraph, embed=None)(Query("which one?", history=THREE))
    assert [each.text for each in asked] == ["to paris\n\nmy parser\n\na soup\n\nwhich one?"]


def test_a_text_alone_is_a_conversation_of_sentences() -> None:
    asked: list[Query] = []
    text = "Where is paris? My parser fails."
    chunked(words({}, asked), chunk=by_paragraph, embed=None)(Query(text))
    assert [each.text for each in asked] == [text]
    asked.clear()
    chunked(words({}, asked), chunk=by_paragraph, embed=None, single_below=0)(Query(text))
    assert sorted(each.text for each in asked) == ["My parser fails.", "Where is paris?"]


def test_the_whole_may_be_asked_too() -> None:
    asked: list[Query] = []
    chunked(words({}, asked), chunk=by_paragraph, embed=None, single_below=0, global_query=True)(
        Query("", history=THREE)
    )
    assert sorted(each.text for each in asked) == ["a soup", "my parser", "to paris", "to paris\n\nmy parser\n\na soup"]


def test_topics_share_the_rounds_of_coverage() -> None:
    shelf = {"one": [hit("a", 0.9)], "two": [hit("b", 0.8)], "three": [hit("c", 0.1)]}
    history = talk("one", "two", "three")

    def two_topics(messages: Sequence[Message]) -> list[Sequence[Message]]:
        return [messages[:2], messages[2:]]

    flat = chunked(words(shelf), chunk=by_paragraph, embed=embed, single_below=0)
    grouped = chunked(words(shelf), chunk=by_paragraph, embed=embed, single_below=0, topics=two_topics)
    assert ids(flat(Query("", history=history))) == "a b c"
    assert ids(grouped(Query("", history=history))) == "a c b"


# -- settings


def vectors(names: Sequence[str]) -> dict[str, Vector]:
    """What begins alike points the same way."""
    return {name: np.eye(26, dtype=np.float32)[ord(name[0]) - ord("a")] for name in names}


def test_every_setting_changes_what_is_found() -> None:
    shelf = {
        "paris": [hit("p1", 0.9, "guide"), hit("p2", 0.8, "guide"), hit("p3", 0.7, "blog")],
        "parser": [hit("c1", 0.6, "manual"), hit("p1", 0.95, "guide")],
    }

    def found(**settings: Any) -> str:
        search = chunked(words(shelf), chunk=by_paragraph, embed=embed, **{"single_below": 0, **settings})
        return ids(search(Query("", k=5, history=talk("to paris", "my parser"))))

    assert found() == "p1 p3 c1"
    assert found(order="score") == "p1 p3 c1"
    assert found(max_per_doc=2) == "p1 p2 p3 c1"
    assert found(dedup="none", order="score") == "p1 p2 p3 c1"
    assert found(dedup="none", order="score", chunks_per_query=1) == "p1 c1"
    assert found(dedup="semantic", vectors=vectors, order="score") == "p1 c1"
    assert found(dedup="none", order="score", mmr=0.5, vectors=vectors) == "p1 c1 p2 p3"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunks_per_query": 0}, "chunks_per_query is 0"),
        ({"single_below": -1}, "single_below is -1"),
        ({"max_per_doc": 0}, "max_per_doc is 0"),
        ({"dedup": "title"}, "dedup is 'title'; it may be document, none, semantic"),
        ({"order": "date"}, "order is 'date'; it may be score, coverage"),
        ({"dedup": "semantic"}, "needs the vectors"),
        ({"mmr": 0.7, "order": "score"}, "needs the vectors"),
        ({"mmr": 0.7, "vectors": vectors}, "leave mmr out"),
        ({"mmr": 7, "order": "score", "vectors": vectors}, "mmr is 7"),
        ({"dedup": "semantic", "vectors": vectors, "threshold": 3}, "threshold is 3"),
    ],
)
def test_wrong_values_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        chunked(words({}), chunk=by_paragraph, embed=embed, **settings)


def test_what_a_search_raises_is_raised() -> None:
    def broken(_: Query) -> list[Hit]:
        raise RuntimeError("Index file not found")

    with pytest.raises(RuntimeError, match="Index file not found"):
        chunked(broken, chunk=by_paragraph, embed=embed, single_below=0)(Query("", history=THREE))
