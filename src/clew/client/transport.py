"""The transport of the clients: one connection pool, errors of the library's own types, events as they come."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from time import sleep
from typing import IO, Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx2

from clew.core import errors
from clew.core.errors import ClewError, DriverFailed, SettingsError
from clew.core.filter import EVERYTHING, Filter, filter_to_json
from clew.core.requests import Request, list_options

Event = tuple[str, dict[str, Any]]  # its name and its data
PAGE_ROWS = 1000  # rows to ask for at a time
File = tuple[str, tuple[str, IO[bytes]]]
_NOT_SENT = frozenset({"sections", "hash", "stamp", "summary", "summary_by", "created", "updated", "language"})

T = TypeVar("T")


@dataclass(frozen=True)
class Sent(Generic[T]):
    """An HTTP request, and the function that reads its result from the JSON of the reply."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[File] = ()
    read: Callable[[Any], T] = lambda reply: reply


Steps = Generator[Sent[Any] | float, Any, T]  # yields requests and gets their results; a number is a pause in seconds


@dataclass(frozen=True)
class Done(Generic[T]):
    """The end of the steps, with their result."""

    result: T


def advance(steps: Steps[T], result: Any) -> Sent[Any] | float | Done[T]:
    """Send the result of a step to the steps, and return the next one."""
    try:
        return steps.send(result)
    except StopIteration as end:
        return Done(end.value)


def make_sent(asked: Request[T], **more: Any) -> Sent[T]:
    """Make the HTTP request: the fields of a request, and `more`, in its path and its body or query string."""
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
    """Make the HTTP request for the page of a list at a cursor; it returns the rows and the next cursor."""
    sent = make_sent(asked, limit=PAGE_ROWS, cursor=cursor)
    return Sent(sent.method, sent.path, params=sent.params, read=lambda page: (page[asked.part], page["cursor"]))


def quote_name(name: str) -> str:
    """Quote a name as one segment of a path, slashes included."""
    if name in (".", ".."):
        raise SettingsError(f"{name!r} cannot be asked for over HTTP; give another id or name")
    return quote(name, safe="")


def _to_wire(value: Any) -> Any:
    """Return a value as the server takes it."""
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
    """Return a Filter as the server takes it; only keys can have filters joined by `or` and `and`."""
    if where == EVERYTHING:
        return None
    if where.any_of is not None or where.all_of:
        raise ServerError("a request takes one filter; give a key the joined one, or ask for each side by itself")
    return filter_to_json(where)


class ServerError(DriverFailed):
    """A request that the server refused or failed at: its status, the code of the error and what to do next."""

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", advice: str = "", request_id: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.advice = advice
        self.request_id = request_id


def make_error(status: int, body: Any) -> ClewError:
    """Make the error of a reply: of the library's own type where it has one with that name, else a ServerError."""
    given = body.get("error") if isinstance(body, Mapping) else None
    detail = given if isinstance(given, Mapping) else {}
    message = str(detail.get("message") or f"the server replied with status {status}")
    kind = getattr(errors, str(detail.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, ClewError) and kind.__init__ is ClewError.__init__:
        return kind(message)
    texts = {name: str(detail.get(name, "")) for name in ("code", "advice", "request_id")}
    return ServerError(message, status=status, **texts)


class Transport:
    """A connection to a server, for one collection."""

    def __init__(self, url: str, *, key: str = "", collection: str | None = None, timeout: float = 120.0) -> None:
        self._http = httpx2.Client(**make_http_options(url, key, timeout))
        self._query = {"collection": collection} if collection else {}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, made: Sent[T] | Steps[T]) -> T:
        """Send a request, or several in turn; return the result."""
        if isinstance(made, Sent):
            try:
                reply = self._http.request(**make_arguments(made, self._query))
            except httpx2.TransportError as error:
                raise make_unreachable_error(error) from error
            return made.read(read_reply(reply))
        with closing(made) as steps:
            step = advance(steps, None)
            while not isinstance(step, Done):
                if isinstance(step, float):
                    sleep(step)
                step = advance(steps, None if isinstance(step, float) else self._run(step))
            return step.result

    def _iterate(self, asked: Request[T]) -> Iterator[T]:
        """Yield the rows of a list, fetched page by page."""
        cursor: str | None = None
        while True:
            rows, cursor = self._run(make_page(asked, cursor))
            yield from rows
            if cursor is None:
                return

    def _stream(self, made: Sent[Any]) -> Iterator[Event]:
        """Yield the events of a reply; raise an error event."""
        events = EventReader()
        try:
            with self._http.stream(**make_arguments(made, self._query)) as reply:
                if reply.status_code != 200:
                    reply.read()
                    read_reply(reply)
                for line in reply.iter_lines():
                    yield from events.read_line(line)
        except httpx2.TransportError as error:
            raise make_broken_stream_error(error) from error


class AsyncTransport:
    """A connection to a server for async callers, for one collection."""

    def __init__(self, url: str, *, key: str = "", collection: str | None = None, timeout: float = 120.0) -> None:
        self._http = httpx2.AsyncClient(**make_http_options(url, key, timeout))
        self._query = {"collection": collection} if collection else {}

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, made: Sent[T] | Steps[T]) -> T:
        """Send a request, or several in turn; return the result."""
        if isinstance(made, Sent):
            try:
                reply = await self._http.request(**make_arguments(made, self._query))
            except httpx2.TransportError as error:
                raise make_unreachable_error(error) from error
            return made.read(read_reply(reply))
        with closing(made) as steps:
            step = advance(steps, None)
            while not isinstance(step, Done):
                step = advance(steps, await (asyncio.sleep(step) if isinstance(step, float) else self._run(step)))
            return step.result

    async def _iterate(self, asked: Request[T]) -> AsyncIterator[T]:
        """Yield the rows of a list, fetched page by page."""
        cursor: str | None = None
        while True:
            rows, cursor = await self._run(make_page(asked, cursor))
            for row in rows:
                yield row
            if cursor is None:
                return

    async def _stream(self, made: Sent[Any]) -> AsyncIterator[Event]:
        """Yield the events of a reply; raise an error event."""
        events = EventReader()
        try:
            async with self._http.stream(**make_arguments(made, self._query)) as reply:
                if reply.status_code != 200:
                    await reply.aread()
                    read_reply(reply)
                async for line in reply.aiter_lines():
                    for event in events.read_line(line):
                        yield event
        except httpx2.TransportError as error:
            raise make_broken_stream_error(error) from error


class EventReader:
    """A line-by-line reader of server-sent events."""

    def __init__(self) -> None:
        self._name = ""

    def read_line(self, line: str) -> Iterator[Event]:
        """Yield the event that a line completes, if any; raise an error event."""
        field, _, value = line.partition(": ")
        if field == "event":
            self._name = value
        elif field == "data":
            data = json.loads(value)
            if self._name == "error":
                raise make_error(200, data)
            yield self._name, data


def make_http_options(url: str, key: str, timeout: float) -> dict[str, Any]:
    """Make the options of the HTTP client of a server."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    given: object = url  # callers without a type checker pass anything
    if not isinstance(given, str) or not re.fullmatch(r"(https?://)?(?!.*://)\S+", given):
        raise SettingsError(f"the address of the server is {given!r}; give one such as http://127.0.0.1:8080")
    address = url if "://" in url else f"http://{url}"
    return {"base_url": address.rstrip("/"), "headers": headers, "timeout": timeout}


def make_arguments(made: Sent[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a request for the HTTP client."""
    return {
        "method": made.method,
        "url": made.path,
        "params": {**query, **made.params},
        "json": made.body,
        "files": made.files or None,
    }


def read_reply(reply: httpx2.Response) -> Any:
    """Read the JSON of a reply; raise its error if it is one."""
    try:
        body = json.loads(reply.content) if reply.content else None
    except ValueError:
        body = None
    if not 200 <= reply.status_code < 300:
        raise make_error(reply.status_code, body)
    return body


def make_unreachable_error(error: httpx2.TransportError) -> ServerError:
    """Return the error of a request that did not reach the server."""
    return ServerError(f"the server cannot be reached ({error}); is it running? `clew serve` starts it")


def make_broken_stream_error(error: httpx2.TransportError) -> ServerError:
    """Return the error of a reply that broke off."""
    return ServerError(f"the connection to the server broke off ({error}); ask again")
