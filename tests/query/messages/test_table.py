"""Rows into messages and markdown: case 1."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from clew.core.types import Message
from clew.query.messages.table import consolidate_messages_to_markdown, read_messages_from_table

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


def test_no_rows_are_no_markdown() -> None:
    assert consolidate_messages_to_markdown([]) == ""
    assert consolidate_messages_to_markdown(Arrow()) == ""
    assert read_messages_from_table([]) == ()


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
        read_messages_from_table(GIVEN),
        {"messages": GIVEN},
        {"model": "any", "messages": Arrow(*GIVEN)},
    ],
    ids=["rows", "newest first", "arrow", "iterator", "other names", "messages", "body", "body of arrow"],
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
        return [
            each.id
            for each in read_messages_from_table([row("2025-01-15", "a", f"of {id_}", **{name: id_}) for id_ in given])
        ]

    assert order("002", "001") == ["001", "002"]
    assert order(10, 9) == ["9", "10"]
    assert order("b", "10", "a", "9") == ["9", "10", "a", "b"]


def test_equal_times_without_ids_stay_as_given() -> None:
    texts = list("qwertyuiop")
    rows = [row("2025-01-15", "a", text) for text in texts]
    assert [each.text for each in read_messages_from_table(rows)] == texts
    assert [each.text for each in read_messages_from_table(read_messages_from_table(rows))] == texts


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
    assert [each.text for each in read_messages_from_table(rows)] == texts
    assert [each.text for each in read_messages_from_table([row(None, "a", text) for text in "cab"])] == ["c", "a", "b"]


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
    assert read_messages_from_table([row(given, "a", "b")])[0].at == START


@pytest.mark.parametrize("given", [None, "", "soon", float("inf"), True, -1e30, [], "99999999"])
def test_what_is_no_time_is_none(given: Any) -> None:
    assert read_messages_from_table([row(given, "a", "b")])[0].at is None


def test_all_columns_reach_the_message() -> None:
    given = row("2025-01-15 10:30", "ada", "hi", id="7", role="assistant", channel="dev", other=1)
    assert read_messages_from_table([given]) == (Message("hi", "ada", START, "7", "dev", None, "assistant"),)
    assert read_messages_from_table([row(None, None, None)]) == (Message(""),)  # type: ignore[arg-type]


def test_a_row_without_the_columns_names_them() -> None:
    for given in ({"some_col": 1}, {"timestamp": 1, "author": "a"}, {}):
        with pytest.raises(ValueError, match="timestamp/ts, author/author_uuid, message/text"):
            consolidate_messages_to_markdown([given])


@pytest.mark.parametrize(
    "table",
    [[1, 2], GIVEN[0], Message("hi"), "hi", b"hi", 7, None, [GIVEN], DataFrame(), {"messages": "hi"}],
    ids=["ints", "mapping", "message", "str", "bytes", "int", "none", "nested", "dataframe", "body of text"],
)
def test_what_is_no_table_is_refused(table: Any) -> None:
    for use in (consolidate_messages_to_markdown, read_messages_from_table):
        with pytest.raises(TypeError, match=r"give|must be"):
            use(table)


def test_pandas_is_refused_and_its_times_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    for table in (pandas.DataFrame(GIVEN), pandas.DataFrame(GIVEN)["message"]):
        with pytest.raises(TypeError, match="to_dict"):
            read_messages_from_table(table)
    rows = pandas.DataFrame({"ts": pandas.to_datetime(["2025-01-15 10:30", None]), "author": "a", "text": "b"})
    assert [each.at for each in read_messages_from_table(rows.to_dict("records"))] == [START, None]
