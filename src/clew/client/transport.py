"""How the clients send requests: one connection pool, errors as those of the library, events as they come."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from time import sleep
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from clew.client.request import Done, Event, Sent, Steps, advance, make_page
from clew.core import errors
from clew.core.errors import ClewError, DriverFailed
from clew.core.requests import Request


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
    """The error of a reply: of the library's own type where it has one with that name, else a ServerError."""
    given = body.get("error") if isinstance(body, Mapping) else None
    detail = given if isinstance(given, Mapping) else {}
    message = str(detail.get("message") or f"the server replied with status {status}")
    kind = getattr(errors, str(detail.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, ClewError) and kind.__init__ is ClewError.__init__:
        return kind(message)
    texts = {name: str(detail.get(name, "")) for name in ("code", "advice", "request_id")}
    return ServerError(message, status=status, **texts)


T = TypeVar("T")


class Transport:
    """A connection to a server, for one collection."""

    def __init__(self, url: str, *, key: str = "", collection: str | None = None, timeout: float = 120.0) -> None:
        self._http = httpx2.Client(**make_http_options(url, key, timeout))
        self._query = {"collection": collection} if collection else {}

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, made: Sent[T] | Steps[T]) -> T:
        """Sends a request, or several in turn; the result."""
        if isinstance(made, Sent):
            try:
                reply = self._http.request(**make_arguments(made, self._query))
            except httpx2.TransportError as error:
                raise describe_unreachable(error) from error
            return made.read(read_reply(reply))
        with closing(made) as steps:
            step = advance(steps, None)
            while not isinstance(step, Done):
                if isinstance(step, float):
                    sleep(step)
                step = advance(steps, None if isinstance(step, float) else self._run(step))
            return step.result

    def _iterate(self, asked: Request[T]) -> Iterator[T]:
        """The rows of a list, fetched a part at a time."""
        cursor: str | None = None
        while True:
            rows, cursor = self._run(make_page(asked, cursor))
            yield from rows
            if cursor is None:
                return

    def _stream(self, made: Sent[Any]) -> Iterator[Event]:
        """The events of a reply; an event that is an error is raised."""
        events = EventReader()
        try:
            with self._http.stream(**make_arguments(made, self._query)) as reply:
                if reply.status_code != 200:
                    reply.read()
                    read_reply(reply)
                for line in reply.iter_lines():
                    yield from events.read_line(line)
        except httpx2.TransportError as error:
            raise describe_broken_stream(error) from error


class AsyncTransport:
    """A connection to a server for async callers, for one collection."""

    def __init__(self, url: str, *, key: str = "", collection: str | None = None, timeout: float = 120.0) -> None:
        self._http = httpx2.AsyncClient(**make_http_options(url, key, timeout))
        self._query = {"collection": collection} if collection else {}

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, made: Sent[T] | Steps[T]) -> T:
        """Sends a request, or several in turn; the result."""
        if isinstance(made, Sent):
            try:
                reply = await self._http.request(**make_arguments(made, self._query))
            except httpx2.TransportError as error:
                raise describe_unreachable(error) from error
            return made.read(read_reply(reply))
        with closing(made) as steps:
            step = advance(steps, None)
            while not isinstance(step, Done):
                step = advance(steps, await (asyncio.sleep(step) if isinstance(step, float) else self._run(step)))
            return step.result

    async def _iterate(self, asked: Request[T]) -> AsyncIterator[T]:
        """The rows of a list, fetched a part at a time."""
        cursor: str | None = None
        while True:
            rows, cursor = await self._run(make_page(asked, cursor))
            for row in rows:
                yield row
            if cursor is None:
                return

    async def _stream(self, made: Sent[Any]) -> AsyncIterator[Event]:
        """The events of a reply; an event that is an error is raised."""
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
            raise describe_broken_stream(error) from error


class EventReader:
    """Reads server-sent events line by line."""

    def __init__(self) -> None:
        self._name = ""

    def read_line(self, line: str) -> Iterator[Event]:
        """The event that a line completes, if it does; an event that is an error is raised."""
        field, _, value = line.partition(": ")
        if field == "event":
            self._name = value
        elif field == "data":
            data = json.loads(value)
            if self._name == "error":
                raise make_error(200, data)
            yield self._name, data


def make_http_options(url: str, key: str, timeout: float) -> dict[str, Any]:
    """How the HTTP client of a server is made."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    address = url if "://" in url else f"http://{url}"
    return {"base_url": address.rstrip("/"), "headers": headers, "timeout": timeout}


def make_arguments(made: Sent[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """A request as the HTTP client takes it."""
    return {
        "method": made.method,
        "url": made.path,
        "params": {**query, **made.params},
        "json": made.body,
        "files": made.files or None,
    }


def read_reply(reply: httpx2.Response) -> Any:
    """The JSON of a reply; its error if it is one."""
    try:
        body = json.loads(reply.content) if reply.content else None
    except ValueError:
        body = None
    if not 200 <= reply.status_code < 300:
        raise make_error(reply.status_code, body)
    return body


def describe_unreachable(error: httpx2.TransportError) -> ServerError:
    """The error of a request that did not get through."""
    return ServerError(f"the server cannot be reached ({error}); is it running? `clew serve` starts it")


def describe_broken_stream(error: httpx2.TransportError) -> ServerError:
    """The error of a reply that did not come to its end."""
    return ServerError(f"the connection to the server broke off ({error}); ask again")
