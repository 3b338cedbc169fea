"""What a verb asks of the server, before it is sent: a Client sends it and waits, an AsyncClient awaits it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Generic, Literal, TypeVar
from urllib.parse import quote

from clew.core.errors import SettingsError

T = TypeVar("T")
Event = tuple[str, dict[str, Any]]  # its name and its data
PAGE_ROWS = 1000  # rows that are asked for at a time
File = tuple[str, tuple[str, IO[bytes]]]


def quote_name(name: str) -> str:
    """A name as one part of a path: a slash in it leads nowhere else."""
    if name in (".", ".."):
        raise SettingsError(f"{name!r} cannot be asked for over HTTP; give another id or name")
    return quote(name, safe="")


def keep(reply: Any) -> Any:
    """The reply as it is."""
    return reply


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request, and how its result is read from the JSON of the reply."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[File] = ()
    read: Callable[[Any], T] = keep


Steps = Generator[Request[Any] | float, Any, T]  # requests, each of which is given its result; a number is a pause


@dataclass(frozen=True)
class Done(Generic[T]):
    """The end of several steps."""

    result: T


def advance(steps: Steps[T], result: Any) -> Request[Any] | float | Done[T]:
    """Gives the result of a step, and returns the next one."""
    try:
        return steps.send(result)
    except StopIteration as end:
        return Done(end.value)


@dataclass(frozen=True)
class Pages(Generic[T]):
    """A list that the server gives a part at a time: the rows are under `name`, the next cursor under `next`."""

    path: str
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def ask_for(self, cursor: str | None) -> Request[tuple[list[T], str | None]]:
        """The request for the part at a cursor: its rows, and the next cursor."""
        params = {"limit": PAGE_ROWS, **self.params, "cursor": cursor}
        return Request("GET", self.path, params=params, read=lambda page: (page[self.name], page["next"]))


@dataclass(frozen=True)
class Events:
    """A request whose reply is a stream of events."""

    path: str
    body: Mapping[str, Any]


def read_field(name: str) -> Callable[[Any], Any]:
    """A function that takes one field of a reply."""
    return lambda reply: reply[name]
