"""What the routes share: the caller of a request, its engine in a thread, and the reply as JSON."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_origin

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from starlette.responses import Response

from clew.client.replies import ErrorReply
from clew.core.errors import SettingsError
from clew.engine import Engine
from clew.engine.collections import check_collection_name
from clew.surface.server.access import Access
from clew.surface.server.pool import CallPool
from clew.surface.server.state import Server
from clew.surface.to_json import dump_json

T = TypeVar("T")
COLLECTION_NAME = r'^[^./\\\x00:*?"<>|][^/\\\x00:*?"<>|]*$'
Collection = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=COLLECTION_NAME,
        description="Collection; without it the key's only one, or the server's.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(pattern=r"^[0-9]{1,12}$", description="`next` of the reply before.")]


async def refuse_unknown_parameters(request: Request) -> None:
    """Raises SettingsError if the query string has a parameter that the path does not know, or one of its own twice."""
    route = request.scope["route"]
    if not request.query_params or not route.include_in_schema:  # what is not in it refuses by itself, or is a page
        return
    known = list_parameters(route.dependant)
    if unknown := sorted(set(request.query_params) - known.keys()):
        raise SettingsError(
            f"{unknown[0]!r} is no parameter of this path; it takes {', '.join(sorted(known)) or 'none'}"
        )
    given = Counter(name for name, _ in request.query_params.multi_items())
    if repeated := sorted(name for name, times in given.items() if times > 1 and not known[name]):
        raise SettingsError(f"{repeated[0]!r} is given {given[repeated[0]]} times; give it once")


def list_parameters(dependant: Dependant) -> dict[str, bool]:
    """The parameters that a path and what it depends on take in the query string, and which of them are lists."""
    found = {field.alias: get_origin(field.field_info.annotation) is list for field in dependant.query_params}
    for each in dependant.dependencies:
        found |= list_parameters(each)
    return found


class Caller:
    """The caller of a request: what it may do, and how its calls are run."""

    def __init__(self, request: Request, collection: Collection = None) -> None:
        self.server: Server = request.app.state.server
        self.access: Access = request.state.access
        self.collection = collection
        if collection is not None:
            check_collection_name(collection)

    async def call(
        self,
        verb: Callable[[Engine], Any],
        *,
        write: bool = False,
        create: bool = False,
        pool: CallPool | None = None,
    ) -> Any:
        """The result of a verb on the engine of the caller; `create` makes the collection if there is none."""
        if write:
            self.access.check_write()
        engines, threads = self.server.engines, pool or self.server.searches
        return await threads.run(lambda: self.access.call(engines, self.collection, verb, write=write, create=create))

    async def add(self, verb: Callable[[Engine], Any]) -> Any:
        """The result of a verb that adds, in the threads of what takes long."""
        return await self.call(verb, write=True, create=True, pool=self.server.answers)

    async def plan(self, verb: Callable[[Engine], T]) -> T:
        """The result of a verb that changes nothing, on an empty collection where there is none."""
        self.access.check_write()
        collection, engines = self.choose_collection(), self.server.engines

        def call() -> T:
            with engines.open_or_empty(collection) as engine:
                return verb(engine)

        return await self.server.answers.run(call)

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call that blocks."""
        return await self.server.searches.run(call)

    def choose_collection(self) -> str:
        """The collection that the request is about."""
        return self.access.choose_collection(self.collection, self.server.start.collection)


Calling = Annotated[Caller, Depends()]


def reply_json(value: Any, *, status: int = 200) -> Response:
    """A reply with the JSON of a value, as the command line prints it."""
    return Response(dump_json(value).encode("utf-8", "replace"), status_code=status, media_type="application/json")


def document_replies(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that an operation may reply with, besides those of every one."""
    always = (400, 401, 403, 408, 413, 421, 422, 429, 500, 501, 502, 503, 504)
    return {status: {"model": ErrorReply, "description": _MEANINGS[status]} for status in sorted({*always, *statuses})}


_MEANINGS = {
    400: "not a valid request",
    401: "no key, or one that is wrong, expired or revoked",
    403: "the key does not open this, or a page of another origin",
    404: "no such document, collection, strategy or job",
    408: "the body came too slowly",
    409: "changed by somebody else, or filled with another embedder",
    413: "the body is too large",
    421: "the request is for another host",
    422: "a field is missing, unknown or has a wrong value",
    429: "too many requests, or a limit of cost was reached",
    500: "the server failed",
    501: "a driver is not installed",
    502: "a model, disk or database failed",
    503: "too busy, or shutting down",
    504: "not done in time",
}
