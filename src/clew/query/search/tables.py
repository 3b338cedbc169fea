"""Rows into messages: what a table calls its columns, what counts as a time, and the order of a conversation."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import count
from typing import Any, Protocol

from clew.core.types import Message

TIME = ("timestamp", "ts")
AUTHOR = ("author", "author_uuid")
TEXT = ("message", "text")
ID = ("id", "msg_id", "message_id")
_NUMBER = re.compile(r"(?!\d{8}\Z)\d+(?:\.\d+)?")  # eight digits are a day, 20250115


class ArrowTable(Protocol):
    """What is asked of a pyarrow Table, which is not a dependency."""

    @property
    def column_names(self) -> Sequence[str]: ...

    def to_pylist(self) -> list[dict[str, Any]]: ...


Table = ArrowTable | Iterable[Mapping[str, Any]] | Iterable[Message]


@dataclass(frozen=True, slots=True)
class Row:
    """A message, its time as the table shows it, and its id if the table gave one."""

    message: Message
    shown: str
    id: str


def rows_of(table: Table) -> list[Row]:
    """The rows of a table, by their times and then their ids; equal ones, and all without either, as they were given.

    A row without a time stays behind the one it was given after.
    """
    runs: list[list[Row]] = [[]]  # each but the first begins with a row that has a time
    for row in map(_row, _items(table)):
        if row.message.at is None:
            runs[-1].append(row)
        else:
            runs.append([row])
    places = count()
    first, *timed = runs
    timed.sort(key=lambda run: (_stamp(run[0].message.at), _natural(run[0].id), next(places)))
    return [row for run in (first, *timed) for row in run]


def _items(table: Any) -> Iterable[Any]:
    """What stands in a table, or TypeError for what is none."""
    kind = type(table)
    if kind.__name__ == "DataFrame" or kind.__module__.partition(".")[0] == "pandas":
        raise TypeError("a DataFrame is not taken; give rows, as df.to_dict('records'), or a pyarrow Table")
    if isinstance(table, Mapping | Message):
        raise TypeError(f"a single {kind.__name__} is not a conversation; give a list of them")
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        rows: list[Any] = table.to_pylist()
        return rows
    if isinstance(table, str | bytes) or not isinstance(table, Iterable):
        raise TypeError(f"a {kind.__name__} is not a conversation; give rows, messages or a pyarrow Table")
    return table


def _row(item: Any) -> Row:
    if isinstance(item, Message):
        made = replace(item, id="").id == item.id  # an id that was made from the content says nothing about order
        return Row(item, _written(item.at), "" if made else item.id)
    if not isinstance(item, Mapping):
        raise TypeError(f"a row is a {type(item).__name__}; it must be a mapping of columns, or a Message")
    if not all(any(name in item for name in names) for names in (TIME, AUTHOR, TEXT)):
        wanted = ", ".join("/".join(names) for names in (TIME, AUTHOR, TEXT))
        raise ValueError(f"a row has the columns {', '.join(map(str, item)) or 'none'}; it must have {wanted}")
    given = _first(item, TIME)
    id_ = _text(_first(item, ID))
    message = Message(
        text=_text(_first(item, TEXT)),
        author=_text(_first(item, AUTHOR)),
        at=parsed(given),
        id=id_,
        channel=_text(item.get("channel")),
        role=_text(item.get("role")) or "user",
    )
    return Row(message, _text(given), id_)


def parsed(value: Any) -> datetime | None:
    """The time that a value stands for, in UTC where it names no zone; None where it stands for none.

    Numbers are seconds since 1970, or thousandths, millionths or billionths of them if they are large.
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
        value = _since_1970(float(value))
    if not isinstance(value, datetime) or value != value:  # pandas' NaT is a datetime that equals nothing
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _since_1970(seconds: float) -> datetime | None:
    for unit in (1, 1e3, 1e6, 1e9):
        if abs(seconds) / unit < 1e11:  # before the year 5138
            with suppress(ValueError, OverflowError, OSError):  # and after the year 0
                return datetime.fromtimestamp(seconds / unit, UTC)
            break
    return None


def _stamp(at: datetime | None) -> float:
    if at is None:
        return -math.inf
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _natural(id_: str) -> tuple[int, int, str]:
    """A key under which 9 comes before 10, and what is no number after all numbers."""
    return (0, int(id_), id_) if id_.isdecimal() else (1 if id_ else -1, 0, id_)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value under the first of the names that has one."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _written(at: datetime | None) -> str:
    """A time as people write it, to the minute if it has no seconds."""
    if at is None:
        return ""
    return at.replace(tzinfo=None, microsecond=0).isoformat(" ", "seconds" if at.second else "minutes")
