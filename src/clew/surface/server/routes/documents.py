"""The paths of documents: upload, add, plan, list, erase; and of one document: read, chunks, links, drop.

A document is named in the path, or as `id` in the query string. The query string takes any id: in a path, an id that
ends in `/chunks` or `/links` would match another route.
"""

from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, File, HTTPException, Query, UploadFile
from starlette.responses import Response

from clew.core import requests as q
from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.jobs import Job
from clew.core.replies import JobReply
from clew.core.types import DocumentRecord
from clew.engine import Engine
from clew.engine.names import find_named_records, resolve_document_or_sections
from clew.engine.opened import Opened, resolve_document
from clew.index.read.sections import get_source_uri
from clew.surface.server.call import Build, Caller, Calling, Cursor, Limit, document_replies, reply_json, serve
from clew.surface.server.errors import job_to_reply
from clew.surface.server.uploads import check_readable, enqueue
from clew.surface.verbs import call_verb

router = APIRouter(tags=["documents"], responses=document_replies(404, 409))
MAX_FILES: Final = 100
FILES: Final = f"The files, at most {MAX_FILES}; `filename` is the relative path that becomes the address of each."
IsDryRun = Annotated[bool, Query(description="Remove nothing; `documents` names what would go.")]
PART: Final = {"limit": (Limit, 100), "cursor": (Cursor, None)}


@router.post("/v1/documents", status_code=202, responses={202: {"model": JobReply}})
async def upload(
    files: Annotated[list[UploadFile], File(min_length=1, max_length=MAX_FILES, description=FILES)],
    caller: Calling,
) -> Response:
    """Upload files, at most 100 at a time; their relative paths become their addresses.

    A file replaces the document of the same address. When the reply comes, the files are on disk and queued;
    `/v1/jobs/{id}` reports the progress and the failures. `filename` is the path of a file, as in
    `filename=notes/page.md`.
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


async def add(caller: Caller, build: Build[q.Add]) -> Response:
    """Queue web addresses."""
    job = await caller.call(lambda engine: engine.enqueue_add(*build(engine).sources), write=True, create=True)
    return reply_json(job_to_reply(job, caller.server.places), status=202)


async def plan(caller: Caller, build: Build[q.Plan]) -> Response:
    """Plan; a missing collection counts as empty."""
    return reply_json(await caller.plan(lambda engine: call_verb(engine, build(engine))))


async def list_documents(caller: Caller, build: Build[q.List], *, limit: int, cursor: str | None) -> Response:
    """Return one page of the list."""

    def call(engine: Engine) -> dict[str, Any]:
        asked = build(engine)
        given: dict[str, Any] = {
            name: frozenset(getattr(asked, name)) or None for name in ("kinds", "channels", "authors")
        }
        start = int(cursor or 0)
        return cut_part(q.List.part, list(islice(engine.list(Filter(**given)), start, start + limit + 1)), start, limit)

    return reply_json(await caller.call(call))


async def list_chunks(caller: Caller, build: Build[q.Chunks], *, limit: int, cursor: str | None) -> Response:
    """Return one page of the chunks."""

    def call(engine: Engine) -> dict[str, Any]:
        found = engine.opened.store.chunks(resolve_document(engine.opened, build(engine).document))
        start = int(cursor or 0)
        return cut_part(q.Chunks.part, found[start : start + limit + 1], start, limit)

    return reply_json(await caller.call(call))


def cut_part(name: str, found: list[Any], start: int, limit: int) -> dict[str, Any]:
    """Return the rows of a page and the next cursor; `found` has one row more if there is a next page."""
    return {name: found[:limit], "cursor": str(start + limit) if len(found) > limit else None}


async def drop(caller: Caller, build: Build[q.Drop], *, dry_run: bool) -> Response:
    """Remove one document, or with `pattern` all documents that a name matches."""

    def call(engine: Engine) -> dict[str, Any]:
        records = find_records(engine.opened, build(engine))
        addresses = list(dict.fromkeys(get_source_uri(record) or record.id for record in records))
        dropped = 0 if dry_run else engine.opened.store.drop([record.id for record in records])
        return {"dropped": dropped, "documents": addresses, "dry_run": dry_run}

    return reply_json(await caller.call(call, write=True))


def find_records(opened: Opened, asked: q.Drop) -> list[DocumentRecord]:
    """Find the records to remove; raise NotFound for a folder or pattern without `pattern`."""
    records = find_named_records(opened, [asked.document])
    if not asked.pattern:
        try:
            resolve_document_or_sections(opened, asked.document)
        except NotFound:
            raise NotFound(
                f"{asked.document!r} is no document, and stands for {len(records):,} of them; pattern=true removes "
                "them all, and with dry_run=true lists them"
            ) from None
    return records


async def refuse_drop() -> Response:
    """Refuse to drop chunks and links, which the path of a document would match."""
    raise HTTPException(405, headers={"allow": "GET"})


serve(router, q.Add, add, status=202)
serve(router, q.Plan, plan)
serve(router, q.AddDocuments, pool="answers", write=True, create=True)
serve(router, q.List, list_documents, own=PART)
serve(router, q.Erase, write=True, pool="answers")
for _end in ("chunks", "links"):
    router.add_api_route(
        f"/v1/documents/{{document:path}}/{_end}", refuse_drop, methods=["DELETE"], include_in_schema=False
    )
for _start in ("/v1/documents/{document:path}", "/v1/document"):
    serve(router, q.Chunks, list_chunks, path=f"{_start}/chunks", own=PART)
    serve(router, q.Links, path=f"{_start}/links")
    serve(router, q.Read, path=_start)
    serve(router, q.Drop, drop, path=_start, own={"dry_run": (IsDryRun, False)})
