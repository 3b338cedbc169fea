"""The paths of jobs and collections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from clew.client.replies import (
    CollectionsReply,
    DoctorReply,
    DroppedCollectionReply,
    JobReply,
    JobsReply,
    StatusReply,
)
from clew.core.errors import NotFound
from clew.core.filter import EVERYTHING
from clew.engine import Engine
from clew.surface.server.call import COLLECTION_NAME, Caller, Calling, document_replies, reply_json
from clew.surface.server.events import EVENTS_SCHEMA, format_event, reply_events
from clew.surface.server.job_reply import job_to_reply
from clew.surface.to_json import dump_json, status_to_json, to_json

router = APIRouter(prefix="/v1", tags=["jobs and collections"], responses=document_replies(404, 409))
POLL_SECONDS = 0.5
JobPath = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[!-~]+$", description="Id of a job.")]
NamePath = Annotated[
    str, Path(min_length=1, max_length=200, pattern=COLLECTION_NAME, description="Name of a collection.")
]
Full = Annotated[bool, Query(description="Read every document, not a sample of a large collection.")]
Follow = Annotated[bool, Query(description="Send the job as server-sent events until it is finished.")]


@router.get("/jobs", responses={200: {"model": JobsReply}})
async def jobs(caller: Calling) -> Response:
    """The jobs of a collection, the oldest first."""
    found = await caller.call(lambda engine: engine.jobs(), write=True)
    return reply_json({"jobs": [job_to_reply(each, caller.server.places) for each in found]})


@router.get("/jobs/{job}", responses={200: {"model": JobReply, "content": EVENTS_SCHEMA}})
async def job(job: JobPath, caller: Calling, follow: Follow = False) -> Response:
    """A job as it is now; with `follow`, live, an event for each change."""
    found = await caller.call(lambda engine: engine.job(job), write=True)
    return reply_events(_follow_job(caller, job)) if follow else reply_json(job_to_reply(found, caller.server.places))


@router.delete("/jobs/{job}", responses={200: {"model": JobReply}})
async def cancel_job(job: JobPath, caller: Calling) -> Response:
    """Cancel a job; what it has added stays."""
    found = await caller.call(lambda engine: engine.cancel_job(job), write=True)
    return reply_json(job_to_reply(found, caller.server.places))


@router.get("/collections", responses={200: {"model": CollectionsReply}})
async def collections(caller: Calling) -> Response:
    """The collections that the key opens; of one that it sees in part, the name."""
    return reply_json({"collections": await caller.run(lambda: list_collections(caller))})


@router.delete("/collections/{name}", responses={200: {"model": DroppedCollectionReply}})
async def drop_collection(name: NamePath, caller: Calling) -> Response:
    """Remove a collection with all its documents, jobs, saved chats, uploads and feedback, for good."""
    caller.access.check_write()
    chosen = caller.access.choose_collection(name, name)
    dropped = await caller.server.answers.run(lambda: caller.server.drop_collection(chosen))
    return reply_json({"dropped": dropped.collection, "left": dropped.left})


@router.get("/doctor", responses={200: {"model": DoctorReply}})
async def doctor(caller: Calling, full: Full = False) -> Response:
    """What is wrong with what is stored; it sees every row, so it needs the right to write. It repairs nothing."""
    return reply_json(
        await caller.call(lambda engine: engine.doctor(full=full), write=True, pool=caller.server.answers)
    )


@router.get("/status", responses={200: {"model": StatusReply}})
async def status(caller: Calling) -> Response:
    """The counts of a collection, as far as the key sees it."""
    start = caller.server.start

    def call(engine: Engine) -> dict[str, Any]:
        is_whole = engine.opened.boundary == EVERYTHING
        shown = status_to_json(engine.status(), invocation=start, is_whole=is_whole)
        return {**shown, "collection": caller.choose_collection(), "path": ""}  # where the store is, is not told

    return reply_json(await caller.call(call))


def list_collections(caller: Caller) -> list[dict[str, Any]]:
    """The collections of the server that a caller may open."""
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


async def _follow_job(caller: Caller, job_id: str) -> AsyncIterator[str]:
    """An event for each change of a job, until it is finished."""
    last = ""
    while True:
        found = await caller.call(lambda engine: engine.job(job_id), write=True)
        shown = dump_json(job_to_reply(found, caller.server.places))
        if shown != last:
            yield format_event("job", shown)
            last = shown
        if found.is_finished:
            return
        await asyncio.sleep(POLL_SECONDS)
