"""The paths of the web page: its files, and what it shows that no verb tells.

The page asks the verbs like any client; only the names that its filters offer and the times of a channel's threads
are gathered for it here.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.types import Chunk
from clew.engine import Engine
from clew.surface.server.call import Calling, reply_json
from clew.surface.web import FILES, chats, tuned
from clew.surface.web.chats import keeps_chats

router = APIRouter(include_in_schema=False)
MAX_SCANNED: Final = 50_000  # chunks that are looked at for the names of authors, or for the threads of a channel
_POLICY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A built file: its content, compressed too, and the tag by which a browser knows that it has it."""

    content: bytes
    compressed: bytes
    tag: str


@cache
def read_page_file(path: str) -> PageFile:
    """The built file at a path of the server."""
    name = path.rpartition("/")[2] or "index.html"
    content = files("clew.surface.web").joinpath("page", name).read_bytes()
    return PageFile(content, gzip.compress(content, mtime=0), f'"{digest(content.decode())}"')


async def serve_page_file(request: Request) -> Response:
    """A file of the page; nothing if the browser has it already."""
    path = request.url.path
    file = read_page_file(path)
    headers = {**_POLICY, "etag": file.tag, "content-type": FILES[path]}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, headers=headers)


router.include_router(chats.router)
router.include_router(tuned.router)
for _path in FILES:
    router.add_api_route(_path, serve_page_file, methods=["GET"])


@router.get("/v1/page/info")
async def info(caller: Calling) -> Response:
    """What the page shows and hides: the strategies, whether there is a language model, whether one may write."""
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
    """The kinds, channels and authors that filters can name, as far as the key sees them."""

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
    """The threads of a channel, the latest first, with their times and authors, and the messages of each day."""

    def call(engine: Engine) -> dict[str, Any]:
        where = Filter(channels=frozenset({channel}))
        titles = {each.id: each.title for each in engine.list(where)}
        scanned = list(islice(engine.opened.store.scan(where), MAX_SCANNED))
        made = [describe_thread(doc, titles.get(doc, ""), found) for doc, found in group_by_document(scanned).items()]
        return {"threads": sorted(made, key=lambda each: each["last"] or "", reverse=True), "days": count_days(scanned)}

    return reply_json(await caller.call(call))


def describe_settings(engine: Engine) -> dict[str, Any]:
    """The settings that the page's panel starts from."""
    search, flow = engine.settings.search, engine.settings.flow
    shown = {"search.min_relevance": search.min_relevance, "search.semantic_weight": search.semantic_weight}
    return {**shown, "flow.semantic_weight": flow.semantic_weight, "context.tokens": engine.settings.context.tokens}


def describe_thread(doc_id: str, title: str, chunks: Iterable[Chunk]) -> dict[str, Any]:
    """A thread as the page lists it."""
    first_chunks = [chunk for chunk in chunks if is_first(chunk)]
    times = sorted(chunk.at.isoformat() for chunk in first_chunks if chunk.at)
    authors = list(dict.fromkeys(read_author(chunk) for chunk in first_chunks))
    times_shown = {"first": times[0] if times else None, "last": times[-1] if times else None}
    return {"id": doc_id, "title": title, "messages": len(first_chunks), "authors": authors, **times_shown}


def group_by_document(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """The chunks of each document, in order."""
    grouped: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        grouped.setdefault(chunk.doc_id, []).append(chunk)
    return grouped


def count_days(chunks: Iterable[Chunk]) -> dict[str, int]:
    """How many messages each day has, by date."""
    counts: dict[str, int] = {}
    for day in sorted(chunk.at.date().isoformat() for chunk in chunks if chunk.at and is_first(chunk)):
        counts[day] = counts.get(day, 0) + 1
    return counts


def is_first(chunk: Chunk) -> bool:
    """Whether a chunk begins a message; a long one has several."""
    return chunk.id.endswith("_chunk_0") or "_chunk_" not in chunk.id


def read_author(chunk: Chunk) -> str:
    """Who wrote the message of a chunk."""
    return str(chunk.meta.get("author") or "")
