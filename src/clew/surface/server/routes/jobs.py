"""The paths of jobs and collections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.core import requests as q
from clew.core.errors import NotFound
from clew.core.filter import EVERYTHING
from clew.engine import Engine
from clew.surface.server.call import Build, Caller, document_replies, reply_json, serve
from clew.surface.server.errors import job_to_reply
from clew.surface.server.events import format_event, reply_events
from clew.surface.to_json import dump_json, status_to_json, to_json
from clew.surface.verbs import call_verb

router = APIRouter(tags=["jobs and collections"], responses=document_replies(404, 409))
POLL_SECONDS = 0.5
Follow = Annotated[bool, Query(description="Send the job as server-sent events until it is finished.")]


async def list_jobs(caller: Caller, _: Build[q.Jobs]) -> Response:
    """List the jobs, with files by the names that were sent."""
    found = await caller.call(lambda engine: engine.jobs(), write=True)
    return reply_json({"jobs": [job_to_reply(each, caller.server.places) for each in found]})


async def show_job(caller: Caller, build: Build[Any], *, follow: bool = False) -> Response:
    """Return a job as it is now, or once it is cancelled; with `follow`, live, an event for each change."""

    async def look() -> dict[str, Any]:
        found = await caller.call(lambda engine: call_verb(engine, build(engine)), write=True)
        return job_to_reply(found, caller.server.places) | {"is_finished": found.is_finished}

    async def watch(shown: dict[str, Any]) -> AsyncIterator[str]:
        last = ""
        while True:
            is_finished, text = shown.pop("is_finished"), dump_json(shown)
            if text != last:
                yield format_event("job", text)
            if is_finished:
                return
            last = text
            await asyncio.sleep(POLL_SECONDS)
            shown = await look()

    shown = await look()
    if follow:
        return reply_events(watch(shown))
    del shown["is_finished"]
    return reply_json(shown)


async def collections(caller: Caller, _: Build[q.Collections]) -> Response:
    """Return the collections that the key opens."""
    return reply_json({"collections": await caller.run(lambda: list_collections(caller))})


async def drop_collection(caller: Caller, build: Build[q.DropCollection]) -> Response:
    """Remove a collection, even one that cannot be opened."""
    name = build(None).name  # type: ignore[arg-type]  # a name needs no engine
    caller.access.check_write()
    chosen = caller.access.choose_collection(name, name)
    dropped = await caller.server.answers.run(lambda: caller.server.drop_collection(chosen))
    return reply_json({"dropped": dropped.collection, "left": dropped.left})


async def status(caller: Caller, _: Build[q.Status]) -> Response:
    """Return the counts of a collection, as far as the key sees it, without the address of the store."""
    start = caller.server.start

    def call(engine: Engine) -> dict[str, Any]:
        is_whole = engine.opened.boundary == EVERYTHING
        shown = status_to_json(engine.status(), invocation=start, is_whole=is_whole)
        return {**shown, "collection": caller.choose_collection(), "path": ""}

    return reply_json(await caller.call(call))


def list_collections(caller: Caller) -> list[dict[str, Any]]:
    """List the collections of the server that a caller may open."""
    access = caller.access
    try:
        found = Engine.collections(caller.server.start.path)
    except NotFound:
        return []
    seen = [to_json(each) for each in found if access.collections is None or each.name in access.collections]
    if access.is_whole:
        return seen
    hidden = dict.fromkeys(("documents", "chunks", "created", "updated", "bytes"))
    return [{**each, **hidden, "problem": ""} for each in seen]


serve(router, q.Jobs, list_jobs)
serve(router, q.Job, show_job, own={"follow": (Follow, False)}, streams=True)
serve(router, q.CancelJob, show_job)
serve(router, q.Collections, collections)
serve(router, q.DropCollection, drop_collection)
serve(router, q.Doctor, write=True, pool="answers")  # it sees every row
serve(router, q.Status, status)
