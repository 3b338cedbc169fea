"""The paths of the documents of a collection: upload, add, plan, list, erase."""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, File, Query, UploadFile
from starlette.responses import Response

from clew.client.replies import (
    DocumentsReply,
    JobReply,
    PlanReply,
    ReceiptReply,
    ReportReply,
)
from clew.core.filter import Filter
from clew.core.jobs import Job
from clew.engine import Engine
from clew.surface.server.call import Calling, Cursor, Limit, document_replies, reply_json
from clew.surface.server.document_bodies import DocumentsBody, EraseBody, SourcesBody
from clew.surface.server.job_reply import job_to_reply
from clew.surface.server.uploads import check_readable, enqueue

router = APIRouter(prefix="/v1", tags=["documents"], responses=document_replies(404, 409))
MAX_FILES = 100
FILES = f"The files, at most {MAX_FILES}; `filename` is the relative path that becomes the address of each."
Label = Annotated[str, Query(max_length=500)]
Kinds = Annotated[list[Label], Query(max_length=100, description="Kinds of documents, such as page and thread.")]
Channels = Annotated[list[Label], Query(max_length=100, description="Channels of conversations.")]
Authors = Annotated[list[Label], Query(max_length=100, description="Who wrote it.")]


@router.post("/documents", status_code=202, responses={202: {"model": JobReply}})
async def upload(
    files: Annotated[list[UploadFile], File(min_length=1, max_length=MAX_FILES, description=FILES)],
    caller: Calling,
) -> Response:
    """Upload files, at most 100 at a time; their relative paths become their addresses.

    A file whose address is there replaces it. They are on the disk and queued when the reply comes; `/v1/jobs/{id}`
    tells how far they are, and which of them failed. A file is named by `filename`, as in `filename=notes/page.md`.
    """
    caller.access.check_write()
    collection, server = caller.choose_collection(), caller.server

    def call() -> Job:
        named = ((file.filename or "", file.file) for file in files)
        with server.uploads.save(collection, named) as folder, server.uploads.queueing(collection, folder):
            with server.engines.open_or_empty(collection) as engine:
                check_readable(engine, collection, folder)
            return caller.access.call(
                server.engines, collection, lambda engine: enqueue(engine, folder), write=True, create=True
            )

    return reply_json(job_to_reply(await server.saves.run(call), server.places), status=202)


@router.post("/add", status_code=202, responses={202: {"model": JobReply}})
async def add(body: SourcesBody, caller: Calling) -> Response:
    """Queue web addresses to be read and added."""
    job = await caller.call(lambda engine: engine.enqueue_add(*body.sources), write=True, create=True)
    return reply_json(job_to_reply(job, caller.server.places), status=202)


@router.post("/plan", responses={200: {"model": PlanReply}})
async def plan(body: SourcesBody, caller: Calling) -> Response:
    """What adding these addresses would do, and what it would cost; nothing is stored."""
    return reply_json(await caller.plan(lambda engine: engine.plan(*body.sources)))


@router.post("/add-documents", responses={200: {"model": ReportReply}})
async def add_documents(body: DocumentsBody, caller: Calling) -> Response:
    """Add documents made by a program; they can be found when the reply comes."""
    documents = [each.build() for each in body.documents]
    return reply_json(await caller.add(lambda engine: engine.add_documents(documents)))


@router.get("/documents", responses={200: {"model": DocumentsReply}})
async def list_documents(
    caller: Calling,
    limit: Limit = 100,
    cursor: Cursor = None,
    kind: Kinds = [],  # noqa: B006 (FastAPI makes one for each request)
    channel: Channels = [],  # noqa: B006
    author: Authors = [],  # noqa: B006
) -> Response:
    """List the documents by address, a part at a time."""
    where = Filter(
        kinds=frozenset(kind) or None, channels=frozenset(channel) or None, authors=frozenset(author) or None
    )
    start = int(cursor or 0)

    def call(engine: Engine) -> dict[str, Any]:
        found = list(islice(engine.list(where), start, start + limit + 1))
        return {"documents": found[:limit], "next": str(start + limit) if len(found) > limit else None}

    return reply_json(await caller.call(call))


@router.post("/erase", responses={200: {"model": ReceiptReply}})
async def erase(body: EraseBody, caller: Calling) -> Response:
    """Remove documents, all that an author wrote, or a channel, with everything that was made of it; the receipt.

    `complete` says whether all was done, `undone` what was not. With `dry_run` it only counts.
    """
    asked = body.model_dump()
    call = caller.call(lambda engine: engine.erase(**asked), write=True, pool=caller.server.answers)
    return reply_json(await call)
