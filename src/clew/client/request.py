"""What a client sends for a request, before it is sent: a Client sends it and waits, an AsyncClient awaits it."""

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import IO, Any, Generic, TypeVar
from urllib.parse import quote

from clew.client.transport import ServerError
from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.filter_json import filter_to_json
from clew.core.requests import Request, list_options

T = TypeVar("T")
Event = tuple[str, dict[str, Any]]  # its name and its data
PAGE_ROWS = 1000  # rows that are asked for at a time
File = tuple[str, tuple[str, IO[bytes]]]
_NOT_SENT = frozenset({"sections", "hash", "stamp", "summary", "summary_by", "created", "updated", "language"})


@dataclass(frozen=True)
class Sent(Generic[T]):
    """A request as HTTP has it, and how its result is read from the JSON of the reply."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[File] = ()
    read: Callable[[Any], T] = lambda reply: reply


Steps = Generator[Sent[Any] | float, Any, T]  # requests, each of which is given its result; a number is a pause


@dataclass(frozen=True)
class Done(Generic[T]):
    """The end of several steps."""

    result: T


def advance(steps: Steps[T], result: Any) -> Sent[Any] | float | Done[T]:
    """Gives the result of a step, and returns the next one."""
    try:
        return steps.send(result)
    except StopIteration as end:
        return Done(end.value)


def make_sent(asked: Request[T], **more: Any) -> Sent[T]:
    """What is sent for a request: its fields in the path and the body, or the query string; `more` besides."""
    given = {
        each.option.wire or each.name: _to_wire(value)
        for each in list_options(type(asked), "http")
        if (value := getattr(asked, each.name)) != each.default
    }
    given = {name: value for name, value in {**given, **asked.fixed, **more}.items() if value is not None}
    names = [name for name in given if f"{{{name}}}" in asked.path]
    path = asked.path.format(**{name: quote_name(given.pop(name)) for name in names})
    read = (lambda reply: reply[asked.part]) if asked.part else (lambda reply: reply)
    if asked.method == "POST":
        return Sent(asked.method, path, given, read=read)
    params = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    return Sent(asked.method, path, params=params, read=read)


def make_page(asked: Request[Any], cursor: str | None) -> Sent[tuple[list[Any], str | None]]:
    """What is sent for the part of a list at a cursor; its rows, and the next cursor."""
    sent = make_sent(asked, limit=PAGE_ROWS, cursor=cursor)
    return Sent(sent.method, sent.path, params=sent.params, read=lambda page: (page[asked.part], page["cursor"]))


def quote_name(name: str) -> str:
    """A name as one part of a path: a slash in it leads nowhere else."""
    if name in (".", ".."):
        raise SettingsError(f"{name!r} cannot be asked for over HTTP; give another id or name")
    return quote(name, safe="")


def _to_wire(value: Any) -> Any:
    """A value as the server takes it."""
    if isinstance(value, Filter):
        return _filter_to_wire(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _to_wire(each) for name, each in value.items()}
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value) if each.name not in _NOT_SENT}
        return {name: _to_wire(each) for name, each in named.items() if each is not None}
    if isinstance(value, Set):
        return sorted(value)
    return value if isinstance(value, str | int | float | None) else [_to_wire(each) for each in value]


def _filter_to_wire(where: Filter) -> dict[str, Any] | None:
    """A Filter as the server takes it. Filters joined by `or` and `and` are for keys."""
    if where == EVERYTHING:
        return None
    if where.any_of is not None or where.all_of:
        raise ServerError("a request takes one filter; give a key the joined one, or ask for each side by itself")
    return filter_to_json(where)
