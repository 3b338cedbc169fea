"""The paths of documents: upload, add, plan, list, read, chunks, links, drop."""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, File, HTTPException, Path, Query, UploadFile
from starlette.responses import Response

from clew.client.replies import (
    ChunksReply,
    DocumentReply,
    DocumentsReply,
    DroppedReply,
    JobReply,
    LinksReply,
    PlanReply,
    ReceiptReply,
    ReportReply,
)
from clew.core.filter import Filter
from clew.core.types import Chunk
from clew.engine import Engine
from clew.engine.opened import resolve_document
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.server.document_bodies import DocumentsBody, EraseBody, SourcesBody

router = APIRouter(prefix="/v1", tags=["documents"], responses=document_replies(404, 409))
MAX_FILES = 100
DocumentPath = Annotated[str, Path(min_length=1, max_length=2000, description="Id or address of a document.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(pattern=r"^[0-9]{1,12}$", description="`next` of the reply before.")]
Repeated = Annotated[list[Annotated[str, Query(max_length=500)]], Query(max_length=100)]


@router.post("/documents", status_code=202, responses={202: {"model": JobReply}})
async def upload(
    files: Annotated[list[UploadFile], File(min_length=1, max_length=MAX_FILES)], caller: Calling
) -> Response:
    """Upload files; their names become their addresses, and a file of a name that is there replaces it.

    They are on the disk and queued when the reply comes; `/v1/jobs/{id}` tells how far they are.
    """
    collection = caller.choose_collection()
    uploads = caller.server.uploads

    def call(engine: Engine) -> Any:
        folder = uploads.save(collection, ((file.filename or "upload", file.file) for file in files))
        return uploads.enqueue(engine, folder)

    return reply_json(await caller.call(call, write=True, create=True), status=202)


@router.post("/add", status_code=202, responses={202: {"model": JobReply}})
async def add(body: SourcesBody, caller: Calling) -> Response:
    """Queue web addresses to be read and added."""
    job = await caller.call(lambda engine: engine.enqueue_add(*body.sources), write=True, create=True)
    return reply_json(job, status=202)


@router.post("/plan", responses={200: {"model": PlanReply}})
async def plan(body: SourcesBody, caller: Calling) -> Response:
    """What adding these addresses would do, and what it would cost; nothing is stored."""
    return reply_json(await caller.call(lambda engine: engine.plan(*body.sources), write=True, create=True))


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
    kind: Repeated = [],  # noqa: B006 (FastAPI makes one for each request)
    channel: Repeated = [],  # noqa: B006
    author: Repeated = [],  # noqa: B006
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


@router.get("/documents/{document:path}/chunks", responses={200: {"model": ChunksReply}})
async def chunks(document: DocumentPath, caller: Calling, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The chunks of a document, in order."""
    start = int(cursor or 0)

    def call(engine: Engine) -> dict[str, Any]:
        found = engine.opened.store.chunks(resolve_document(engine.opened, document))
        more = len(found) > start + limit
        return {
            "chunks": [_chunk_to_json(each) for each in found[start : start + limit]],
            "next": str(start + limit) if more else None,
        }

    return reply_json(await caller.call(call))


@router.get("/documents/{document:path}/links", responses={200: {"model": LinksReply}})
async def links(document: DocumentPath, caller: Calling) -> Response:
    """The documents that a document names, and the threads that name it."""
    return reply_json(await caller.call(lambda engine: engine.links(document)))


@router.get("/documents/{document:path}", responses={200: {"model": DocumentReply}})
async def read(document: DocumentPath, caller: Calling) -> Response:
    """A document with its whole text, as far as the key sees it."""
    return reply_json(await caller.call(lambda engine: engine.read(document)))


@router.delete("/documents/{document:path}/chunks", include_in_schema=False)
@router.delete("/documents/{document:path}/links", include_in_schema=False)
async def refuse_drop(document: DocumentPath) -> Response:  # noqa: ARG001
    """Chunks and links are no documents: the path below would take them for one."""
    raise HTTPException(405, headers={"allow": "GET"})


@router.delete("/documents/{document:path}", responses={200: {"model": DroppedReply}})
async def drop(document: DocumentPath, caller: Calling) -> Response:
    """Remove a document by id, address, folder or pattern."""
    return reply_json({"dropped": await caller.call(lambda engine: engine.drop(document), write=True)})


@router.post("/erase", responses={200: {"model": ReceiptReply}})
async def erase(body: EraseBody, caller: Calling) -> Response:
    """Remove documents, all that an author wrote, or a channel, with everything that was made of it; the receipt.

    `complete` says whether all was done and nothing of it was found in what is stored. With `dry_run` it only counts.
    """
    asked = body.model_dump()
    call = caller.call(lambda engine: engine.erase(**asked), write=True, pool=caller.server.answers)
    return reply_json(await call)


def _chunk_to_json(chunk: Chunk) -> dict[str, Any]:
    names = ("id", "index", "text", "headings", "start", "end", "context", "at", "meta")
    return {name: getattr(chunk, name) for name in names}
