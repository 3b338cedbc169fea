"""The paths of the web page: its files, and data that no verb returns.

The page calls the verbs like any client. Beside these it needs the names that its filters offer, the times of a
channel's threads, searches with other settings than the server's (which are not stored), and the chats of a server with
one user.
"""

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from clew.core import requests as q
from clew.core.errors import SettingsError
from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.settings import Settings
from clew.core.types import Chunk
from clew.engine import Engine
from clew.query.why import KNOBS, replace_setting
from clew.surface.bodies import ShortText
from clew.surface.server.call import Build, Caller, Calling, reply_json, serve
from clew.surface.server.errors import NotAllowed
from clew.surface.server.routes.ask import STREAM, describe_messages, reply_answer
from clew.surface.server.routes.search import explain_missing, make_context
from clew.surface.verbs import call_verb, search_with_reason
from clew.surface.web import FILES

router = APIRouter(include_in_schema=False)
MAX_COUNT: Final = 10_000
Value = bool | int | float | str | None


def list_tunable_values() -> dict[str, tuple[Any, ...]]:
    """List the settings that a request may give, each with values of its types."""
    found: dict[str, tuple[Any, ...]] = {"flow.semantic_weight": (0.0, 1.0)}
    for knob in (knob for knobs in KNOBS.values() for knob in knobs if knob.setting != "k"):
        found[knob.setting] = found.get(knob.setting, ()) + knob.values
    return found


TUNABLE: Final = list_tunable_values()
Given = Annotated[dict[ShortText, Value], Field(max_length=len(TUNABLE))]


def replace_settings(settings: Settings, given: Mapping[str, Value]) -> Settings:
    """Replace the given settings; raise SettingsError for an unknown name or a wrong value."""
    for name, value in given.items():
        known = TUNABLE.get(name)
        if known is None:
            raise SettingsError(f"{name!r} cannot be set here; known are {', '.join(sorted(TUNABLE))}")
        types = {type(each) for each in known}
        if type(value) not in types and not (type(value) is int and float in types):
            raise SettingsError(f"{name} is {value!r}; it takes values such as {known[0]!r}")
        if type(value) is int and value > max([MAX_COUNT, *(each for each in known if type(each) is int)]):
            raise SettingsError(f"{name} is {value}; that is more than can be tried here")
        settings = replace_setting(settings, name, value)
    return settings


async def answer_with(
    run: Callable[..., Any], caller: Caller, build: Build[Any], *, settings: Mapping[str, Value]
) -> Response:
    """Run a verb with settings that this request replaces, by dotted name."""

    def call(engine: Engine) -> Any:
        return run(engine, build(engine), settings=replace_settings(engine.settings, settings))

    return reply_json(await caller.call(call))


RUNS: Final[Mapping[type[q.Request[Any]], Callable[..., Any]]] = {
    q.Search: search_with_reason,
    q.Explain: call_verb,
    q.Context: make_context,
    q.WhyNot: explain_missing,
}
for _request, _run in RUNS.items():
    serve(
        router,
        _request,
        partial(answer_with, _run),
        path=_request.path.replace("/v1/", "/v1/page/"),
        own={"settings": (Given, Field(default_factory=dict))},
    )


PATH = "/v1/page/chats"


def keeps_chats(caller: Caller) -> bool:
    """Return whether the server has one user, who may write."""
    return caller.access.is_whole and caller.access.can_write and not caller.access.has_key


@router.get(PATH)
async def chats(caller: Calling) -> Response:
    """Return the chats stored with the collection, with their messages."""
    if not keeps_chats(caller):
        return reply_json({"chats": []})

    def call(engine: Engine) -> list[dict[str, Any]]:
        names = [name for name in engine.sessions.list_sessions() if not name.startswith("unnamed ")]
        return [{"name": name, "messages": describe_messages(engine, name)} for name in names]

    return reply_json({"chats": await caller.call(call)})


async def ask(caller: Caller, build: Build[q.Chat], **_: Any) -> Response:
    """Answer the next question of a chat, as the events of `/v1/ask`."""
    check_keeps_chats(caller)
    return await reply_answer(caller, build, stream=True)


async def drop(caller: Caller, build: Build[q.DropSession]) -> Response:
    """Delete a chat."""
    check_keeps_chats(caller)
    return reply_json({"dropped": await caller.call(lambda engine: engine.sessions.drop(build(engine).session))})


def check_keeps_chats(caller: Caller) -> None:
    """Raise NotAllowed unless the server has one user."""
    if not keeps_chats(caller):
        raise NotAllowed("a server with keys keeps no chats; ask at /v1/ask with the history of the conversation")


serve(router, q.Chat, ask, path=PATH + "/{session}", own={"stream": STREAM})
serve(router, q.DropSession, drop, path=PATH + "/{session}")


MAX_SCANNED: Final = 50_000  # chunks to scan for the names of authors, or for the threads of a channel
_POLICY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A built file: its content, plain and compressed, and its ETag."""

    content: bytes
    compressed: bytes
    tag: str


@cache
def read_page_file(path: str) -> PageFile:
    """Read the built file at a path of the server."""
    name = path.rpartition("/")[2] or "index.html"
    content = files("clew.surface.web").joinpath("page", name).read_bytes()
    return PageFile(content, gzip.compress(content, mtime=0), f'"{digest(content.decode())}"')


async def serve_page_file(request: Request) -> Response:
    """Reply with a file of the page; 304 if the browser has it already."""
    path = request.url.path
    file = read_page_file(path)
    headers = {**_POLICY, "etag": file.tag, "content-type": FILES[path]}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, headers=headers)


for _path in FILES:
    router.add_api_route(_path, serve_page_file, methods=["GET"])


@router.get("/v1/page/info")
async def info(caller: Calling) -> Response:
    """Return what the page shows and hides: the strategies, whether there is a model, whether the key may write."""
    known = await caller.call(
        lambda engine: {
            "strategies": sorted(engine.strategies),
            "strategy": engine.settings.search.strategy,
            "settings": describe_settings(engine),
            "has_model": engine.opened.llm is not None,
        }
    )
    shown = {"version": version("clew"), "can_write": caller.access.can_write, "keeps_chats": keeps_chats(caller)}
    shown["max_body"] = caller.server.start.settings.server.max_body
    return reply_json({**shown, "collection": caller.choose_collection(), **known})


@router.get("/v1/page/names")
async def names(caller: Calling) -> Response:
    """Return the kinds, channels and authors that filters can name, as far as the key sees them."""

    def call(engine: Engine) -> dict[str, Any]:
        scanned = islice(engine.opened.store.scan(Filter(kinds=frozenset({"thread"}))), MAX_SCANNED)
        return {
            "kinds": sorted({each.kind for each in engine.list()}),
            "channels": engine.channels(),
            "authors": sorted({author for chunk in scanned if (author := read_author(chunk))}, key=str.casefold),
        }

    return reply_json(await caller.call(call))


@router.get("/v1/page/threads")
async def threads(caller: Calling, channel: Annotated[str, Query(min_length=1, max_length=500)]) -> Response:
    """Return the threads of a channel, latest first, with times and authors, and the number of messages per day."""

    def call(engine: Engine) -> dict[str, Any]:
        where = Filter(channels=frozenset({channel}))
        titles = {each.id: each.title for each in engine.list(where)}
        scanned = list(islice(engine.opened.store.scan(where), MAX_SCANNED))
        made = [describe_thread(doc, titles.get(doc, ""), found) for doc, found in group_by_document(scanned).items()]
        return {"threads": sorted(made, key=lambda each: each["last"] or "", reverse=True), "days": count_days(scanned)}

    return reply_json(await caller.call(call))


def describe_settings(engine: Engine) -> dict[str, Any]:
    """Return the settings that the page's panel starts from."""
    search, flow = engine.settings.search, engine.settings.flow
    shown = {"search.min_relevance": search.min_relevance, "search.semantic_weight": search.semantic_weight}
    return {**shown, "flow.semantic_weight": flow.semantic_weight, "context.tokens": engine.settings.context.tokens}


def describe_thread(doc_id: str, title: str, chunks: Iterable[Chunk]) -> dict[str, Any]:
    """Describe a thread as the page lists it."""
    first_chunks = [chunk for chunk in chunks if is_first(chunk)]
    times = sorted(chunk.at.isoformat() for chunk in first_chunks if chunk.at)
    authors = list(dict.fromkeys(read_author(chunk) for chunk in first_chunks))
    times_shown = {"first": times[0] if times else None, "last": times[-1] if times else None}
    return {"id": doc_id, "title": title, "messages": len(first_chunks), "authors": authors, **times_shown}


def group_by_document(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Group chunks by document, in order."""
    grouped: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        grouped.setdefault(chunk.doc_id, []).append(chunk)
    return grouped


def count_days(chunks: Iterable[Chunk]) -> dict[str, int]:
    """Count the messages of each day, by date."""
    counts: dict[str, int] = {}
    for day in sorted(chunk.at.date().isoformat() for chunk in chunks if chunk.at and is_first(chunk)):
        counts[day] = counts.get(day, 0) + 1
    return counts


def is_first(chunk: Chunk) -> bool:
    """Return whether a chunk begins a message; a long message has several chunks."""
    return chunk.id.endswith("_chunk_0") or "_chunk_" not in chunk.id


def read_author(chunk: Chunk) -> str:
    """Return the author of a chunk's message."""
    return str(chunk.meta.get("author") or "")
