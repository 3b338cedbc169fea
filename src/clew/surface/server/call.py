"""Shared parts of the routes: paths made from requests, the caller, its engine in a thread, replies as JSON."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant
from starlette.responses import Response

from clew.core import requests as q
from clew.core.errors import SettingsError
from clew.core.replies import ErrorReply
from clew.engine import Engine
from clew.engine.collections import check_collection_name
from clew.surface.bodies import SAYS, annotate, body_of, bounds_to_arguments, build_request, list_fields
from clew.surface.server.events import EVENTS_SCHEMA
from clew.surface.server.keys import Access
from clew.surface.server.state import CallPool, Server
from clew.surface.to_json import dump_json
from clew.surface.verbs import answer_verb

T = TypeVar("T")
R = TypeVar("R", bound=q.Request[Any])
Build = Callable[[Engine], R]  # builds the request; its filter may name documents of the engine
ABOUT_COLLECTION = "Collection; without it the key's only one, or the server's."
Collection = Annotated[
    str | None, Query(**bounds_to_arguments(get_args(q.CollectionName)[1]), description=ABOUT_COLLECTION)
]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
SAYS[r"^[0-9]{1,12}$"] = "is no cursor; give `cursor` of the reply before"
Cursor = Annotated[str | None, Query(pattern=r"^[0-9]{1,12}$", description="`cursor` of the reply before.")]


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise SettingsError for an unknown parameter in the query string, or a repeated one that is no list."""
    route = request.scope["route"]
    if not request.query_params or not route.include_in_schema:  # paths outside it check themselves, or are pages
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
    """List the query parameters of a path and its dependencies, and whether each is a list."""
    found = {field.alias: get_origin(field.field_info.annotation) is list for field in dependant.query_params}
    for each in dependant.dependencies:
        found |= list_parameters(each)
    return found


class Caller:
    """The caller of a request: its rights, and the running of its calls."""

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
        """Run a verb on the engine of the caller and return its result; `create` makes a collection that is missing."""
        if write:
            self.access.check_write()
        engines, threads = self.server.engines, pool or self.server.searches
        return await threads.run(lambda: self.access.call(engines, self.collection, verb, write=write, create=create))

    async def plan(self, verb: Callable[[Engine], T]) -> T:
        """Run a verb that changes nothing; a missing collection counts as empty."""
        self.access.check_write()
        collection, engines = self.choose_collection(), self.server.engines

        def call() -> T:
            with engines.open_or_empty(collection) as engine:
                return verb(engine)

        return await self.server.answers.run(call)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call that blocks, and return its result."""
        return await self.server.searches.run(call)

    def choose_collection(self) -> str:
        """Choose the collection that the request is about."""
        return self.access.choose_collection(self.collection, self.server.start.collection)


Calling = Annotated[Caller, Depends()]


def serve(
    router: APIRouter,
    request: type[R],
    handle: Callable[..., Awaitable[Response]] | None = None,
    *,
    run: Callable[[Engine, R], Any] = answer_verb,
    path: str = "",
    status: int = 200,
    pool: Literal["searches", "answers"] = "searches",
    write: bool = False,
    create: bool = False,
    streams: bool = False,
    own: Mapping[str, Any] | None = None,
) -> None:
    """Add the path of a request: its fields are the body, or the parameters of the path and of the query string.

    `run` answers the request on the caller's engine, in a thread of a pool. A `handle` replaces `run`: it gets the
    caller, a function that builds the request for an engine, and the `own` fields, which only HTTP has.
    """
    path, extra = path or request.path, dict(own or {})
    parameters, names = _list_parameters(request, path)
    fields = {each.field: each.name for each in list_fields(request, "http") if each.field not in names}
    if request.method == "POST":
        parameters.append(_make_parameter("body", body_of(request, leave_out=names, **extra)))
    else:
        parameters += [_make_parameter(name, kind, default) for name, (kind, default) in extra.items()]

    async def endpoint(caller: Caller, **given: Any) -> Response:
        sent = given.pop("body", None)
        values = {field: given[name] for field, name in names.items()}
        values |= {field: getattr(sent, name) for field, name in fields.items()}
        if handle is not None:
            more = {name: given[name] if sent is None else getattr(sent, name) for name in extra}
            return await handle(caller, lambda engine: build_request(request, values, engine), **more)
        found = await caller.call(
            lambda engine: run(engine, build_request(request, values, engine)),
            write=write,
            create=create,
            pool=getattr(caller.server, pool),
        )
        return reply_json(found, status=status)

    endpoint.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    endpoint.__name__, endpoint.__doc__ = request.verb, request.__doc__
    content = {"content": EVENTS_SCHEMA} if streams else {}
    router.add_api_route(
        path,
        endpoint,
        methods=[request.method],
        status_code=status,
        responses={status: {"model": request.reply, **content}},
    )


def _list_parameters(request: type[q.Request[Any]], path: str) -> tuple[list[Parameter], dict[str, str]]:
    """List the parameters of a path and its query string, and the parameter name of each field among them."""
    placed = set(re.findall(r"{(\w+)", path))
    parameters, names = [_make_parameter("caller", Calling)], {}
    for each in list_fields(request, "http"):
        if place := {each.field, each.name} & placed:
            names[each.field] = place.pop()
            parameters.append(_make_parameter(names[each.field], annotate(each.kind, Path(description=each.help))))
        elif request.method != "POST":
            names[each.field] = each.field
            about = Query(alias=each.name, description=each.help)
            parameters.append(_make_parameter(each.field, annotate(each.kind, about), each.default))
    return parameters, names


def _make_parameter(name: str, kind: Any, default: Any = ...) -> Parameter:
    default = Parameter.empty if default is ... else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def reply_json(value: Any, *, status: int = 200) -> Response:
    """Make a reply with the JSON of a value, as the command line prints it."""
    return Response(dump_json(value).encode("utf-8", "replace"), status_code=status, media_type="application/json")


def document_replies(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """List the errors that an operation may reply with: these statuses and those of every operation."""
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
