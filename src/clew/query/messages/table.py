"""Reads a table as a conversation: column aliases, time formats, and the order of the messages."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import count
from typing import Any, Protocol

from clew.core.patterns import compile_pattern
from clew.core.time import assume_utc, to_timestamp
from clew.core.types import Message

TIME_COLUMNS = ("timestamp", "ts")
AUTHOR_COLUMNS = ("author", "author_uuid")
TEXT_COLUMNS = ("message", "text", "content")
ID_COLUMNS = ("id", "msg_id", "message_id")
_NUMBER = compile_pattern(r"(?!\d{8}\Z)\d+(?:\.\d+)?")  # eight digits are a date, 20250115


class ArrowTable(Protocol):
    """The part of a pyarrow Table that is used; pyarrow is not a dependency."""

    @property
    def column_names(self) -> Sequence[str]: ...

    def to_pylist(self) -> list[dict[str, Any]]: ...


# {"messages": table} is the body of a request to a chat model.
Table = ArrowTable | Iterable[Mapping[str, Any]] | Iterable[Message] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A message, its time as written in the table, and its id if the table has one."""

    message: Message
    timestamp: str
    id: str


def read_messages_from_table(table: Table) -> tuple[Message, ...]:
    """Read the messages of an Arrow table, of rows, of messages or of {"messages": rows}, ordered by time, then id.

    A row has a timestamp (or ts), an author (or author_uuid) and a message (or text), and may have an id (msg_id,
    message_id), a role and a channel. A row without a readable time stays after the row before it.
    """
    return tuple(row.message for row in read_rows_by_time(table))


def consolidate_messages_to_markdown(table: Table) -> str:
    """Write the conversation as markdown: each message under its number, author and timestamp, oldest first."""
    return _format_markdown(read_rows_by_time(table))


def read_rows_by_time(table: Table) -> list[Row]:
    """Read the rows of a table ordered by time, then by id; where both are equal they keep their order.

    A row without a time stays after the row before it.
    """
    runs: list[list[Row]] = [[]]  # each but the first starts with a row that has a time
    for row in map(_read_row, _iterate_table(table)):
        if row.message.at is None:
            runs[-1].append(row)
        else:
            runs.append([row])
    positions = count()
    first, *timed = runs
    timed.sort(key=lambda run: (_time_key(run[0].message.at), _natural_id_key(run[0].id), next(positions)))
    return [row for run in (first, *timed) for row in run]


def _iterate_table(table: Any) -> Iterable[Any]:
    """Return the items of a table; TypeError for anything that is not a table."""
    kind = type(table)
    if kind.__name__ == "DataFrame" or kind.__module__.partition(".")[0] == "pandas":
        raise TypeError("a DataFrame is not supported; give rows, as df.to_dict('records'), or a pyarrow Table")
    if isinstance(table, Mapping) and "messages" in table:
        return _iterate_table(table["messages"])
    if isinstance(table, Mapping | Message):
        raise TypeError(f"a single {kind.__name__} is not a conversation; give a list of them, or {{'messages': […]}}")
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        rows: list[Any] = table.to_pylist()
        return rows
    if isinstance(table, str | bytes) or not isinstance(table, Iterable):
        raise TypeError(f"a {kind.__name__} is not a conversation; give rows, messages or a pyarrow Table")
    return table


def _read_row(item: Any) -> Row:
    if isinstance(item, Message):
        generated = replace(item, id="").id == item.id  # an id made from the content says nothing about order
        return Row(item, _format_time(item.at), "" if generated else item.id)
    if not isinstance(item, Mapping):
        raise TypeError(f"a row is a {type(item).__name__}; it must be a mapping of columns, or a Message")
    is_turn = "role" in item and "content" in item  # a turn of a chat with a model
    required = (TIME_COLUMNS, AUTHOR_COLUMNS, TEXT_COLUMNS)
    if not is_turn and not all(any(name in item for name in names) for names in required):
        columns = ", ".join("/".join(names) for names in required)
        raise ValueError(
            f"a row has the columns {', '.join(map(str, item)) or 'none'}; it must have {columns}, or role and content"
        )
    time_value = _first_value(item, TIME_COLUMNS)
    id_ = _to_text(_first_value(item, ID_COLUMNS))
    message = Message(
        text=_read_content(_first_value(item, TEXT_COLUMNS)),
        author=_to_text(_first_value(item, AUTHOR_COLUMNS)),
        at=parse_time_value(time_value),
        id=id_,
        channel=_to_text(item.get("channel")),
        role=_to_text(item.get("role")) or "user",
    )
    return Row(message, _to_text(time_value), id_)


def parse_time_value(value: Any) -> datetime | None:
    """Parse the value as a time, in UTC where it has no zone; None if it is not a time.

    Numbers are seconds since 1970; large ones are milli-, micro- or nanoseconds.
    """
    if isinstance(value, str):
        value = value.strip()
        try:
            value = float(value) if _NUMBER.fullmatch(value) else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _parse_epoch(float(value))
    if not isinstance(value, datetime) or value != value:  # pandas' NaT is a datetime that is not equal to itself
        return None
    return assume_utc(value)


def _parse_epoch(seconds: float) -> datetime | None:
    for unit in (1, 1e3, 1e6, 1e9):
        if abs(seconds) / unit < 1e11:  # before the year 5138
            with suppress(ValueError, OverflowError, OSError):  # and after the year 0
                return datetime.fromtimestamp(seconds / unit, UTC)
            break
    return None


def _time_key(at: datetime | None) -> float:
    return -math.inf if at is None else to_timestamp(at)


def _natural_id_key(id_: str) -> tuple[int, int, str]:
    """Return a sort key: 9 before 10, numbers before other ids, a missing id first."""
    return (0, int(id_), id_) if id_.isdecimal() else (1 if id_ else -1, 0, id_)


def _first_value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first value that is not None among these columns."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def _read_content(value: Any) -> str:
    """Read the text of a message; of multi-part chat content, the text parts."""
    if not isinstance(value, list):
        return _to_text(value)
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in value]
    return "\n".join(text for text in texts if isinstance(text, str))


def _to_text(value: Any) -> str:
    return "" if value is None else str(value)


def _format_time(at: datetime | None) -> str:
    """Format the time as `2025-01-15 10:30`, with seconds if it has any."""
    if at is None:
        return ""
    return at.replace(tzinfo=None, microsecond=0).isoformat(" ", "seconds" if at.second else "minutes")


def _format_markdown(rows: Iterable[Row]) -> str:
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        lines += (f"## Message {number}", f"**Author:** {row.message.author}", f"**Timestamp:** {row.timestamp}")
        lines += ("", row.message.text, "")
    return "\n".join(lines)
