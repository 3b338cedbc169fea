"""How the client sends requests: one connection pool, errors as those of the library, events as they come."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx2

from clew.client.errors import ServerError, make_error
from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Message

Event = tuple[str, dict[str, Any]]  # its name and its data
_SETS = ("documents", "kinds", "channels", "authors", "access")


class Transport:
    """A connection to a server, for one collection."""

    def __init__(self, url: str, *, key: str = "", collection: str | None = None, timeout: float = 120.0) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout)
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

    def _get(self, path: str, **query: Any) -> Any:
        return self._send("GET", path, params=query)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._send("POST", path, json=drop_missing(body))

    def _delete(self, path: str) -> Any:
        return self._send("DELETE", path)

    def _send(self, method: str, path: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        query = {**self._query, **drop_missing(params or {})}
        try:
            reply = self._http.request(method, path, params=query, **options)
        except httpx2.TransportError as error:
            raise ServerError(
                f"the server cannot be reached ({error}); is it running? `clew serve` starts it"
            ) from error
        return read_reply(reply.status_code, reply.content)

    def _stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Event]:
        """The events of a reply; an event that is an error is raised."""
        try:
            with self._http.stream("POST", path, params=self._query, json=drop_missing(body)) as reply:
                if reply.status_code != 200:
                    read_reply(reply.status_code, reply.read())
                name = ""
                for line in reply.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        data = json.loads(value)
                        if name == "error":
                            raise make_error(reply.status_code, data)
                        yield name, data
        except httpx2.TransportError as error:
            raise ServerError(f"the connection to the server broke off ({error}); ask again") from error


def read_reply(status: int, content: bytes) -> Any:
    """The JSON of a reply; its error if it is one."""
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    if not 200 <= status < 300:
        raise make_error(status, body)
    return body


def drop_missing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in given.items() if value is not None}


def filter_to_body(where: Filter) -> dict[str, Any] | None:
    """A Filter as the server takes it; None for everything. Filters joined by `or` and `and` are for keys."""
    if where == EVERYTHING:
        return None
    if where.any_of is not None or where.all_of:
        raise ServerError("a request takes one filter; give a key the joined one, or ask for each side by itself")
    made: dict[str, Any] = {name: sorted(value) for name in _SETS if (value := getattr(where, name)) is not None}
    made |= {name: time_to_body(getattr(where, name)) for name in ("since", "until")}
    meta = {key: list(value) if isinstance(value, tuple | frozenset) else value for key, value in where.meta.items()}
    return drop_missing({**made, "meta": meta or None})


def time_to_body(time: datetime | None) -> str | None:
    """A time as the server takes it."""
    return None if time is None else time.isoformat()


def messages_to_body(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as the server takes them."""
    return [
        drop_missing(
            {
                **{name: getattr(each, name) for name in ("text", "author", "id", "channel", "reply_to", "role")},
                "at": time_to_body(each.at),
                "access": None if each.access is None else sorted(each.access),
            }
        )
        for each in messages
    ]
