"""The paths of one document: read, chunks, links, drop.

A document is named in the path, or as `id` in the query string, which takes any id: in a path one that ends in
`/chunks` or `/links` would be taken for another request.
"""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from starlette.responses import Response

from clew.client.replies import ChunksReply, DocumentReply, DroppedDocumentsReply, LinksReply
from clew.core.errors import NotFound
from clew.core.types import Chunk, DocumentRecord
from clew.engine import Engine
from clew.engine.names import find_named_records
from clew.engine.opened import Opened, resolve_document
from clew.engine.sections import resolve_document_or_sections
from clew.index.read.sections import get_source_uri
from clew.surface.server.call import Caller, Calling, Cursor, Limit, document_replies, reply_json

router = APIRouter(prefix="/v1", tags=["documents"], responses=document_replies(404, 409))
ABOUT = "Id or address of a document."
PathId = Annotated[str, Path(min_length=1, max_length=2000, description=ABOUT)]
QueryId = Annotated[str, Query(alias="id", min_length=1, max_length=2000, description=ABOUT)]
IsPattern = Annotated[
    bool, Query(description="The name is a folder, or a pattern such as `notes/*.md`: all that it stands for goes.")
]
IsDryRun = Annotated[bool, Query(description="Remove nothing; `documents` names what would go.")]


@router.get("/documents/{document:path}/chunks", responses={200: {"model": ChunksReply}})
async def chunks(document: PathId, caller: Calling, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The chunks of a document, in order."""
    return await _reply_chunks(document, caller, limit, cursor)


@router.get("/document/chunks", responses={200: {"model": ChunksReply}})
async def chunks_by_id(document: QueryId, caller: Calling, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The chunks of a document, in order."""
    return await _reply_chunks(document, caller, limit, cursor)


@router.get("/documents/{document:path}/links", responses={200: {"model": LinksReply}})
async def links(document: PathId, caller: Calling) -> Response:
    """The documents that a document names, and the threads that name it."""
    return reply_json(await caller.call(lambda engine: engine.links(document)))


@router.get("/document/links", responses={200: {"model": LinksReply}})
async def links_by_id(document: QueryId, caller: Calling) -> Response:
    """The documents that a document names, and the threads that name it."""
    return reply_json(await caller.call(lambda engine: engine.links(document)))


@router.get("/documents/{document:path}", responses={200: {"model": DocumentReply}})
async def read(document: PathId, caller: Calling) -> Response:
    """A document with its whole text, as far as the key sees it."""
    return reply_json(await caller.call(lambda engine: engine.read(document)))


@router.get("/document", responses={200: {"model": DocumentReply}})
async def read_by_id(document: QueryId, caller: Calling) -> Response:
    """A document with its whole text, as far as the key sees it."""
    return reply_json(await caller.call(lambda engine: engine.read(document)))


@router.delete("/documents/{document:path}/chunks", include_in_schema=False)
@router.delete("/documents/{document:path}/links", include_in_schema=False)
async def refuse_drop(document: PathId) -> Response:  # noqa: ARG001
    """Chunks and links are no documents: the path below would take them for one."""
    raise HTTPException(405, headers={"allow": "GET"})


@router.delete("/documents/{document:path}", responses={200: {"model": DroppedDocumentsReply}})
async def drop(document: PathId, caller: Calling, pattern: IsPattern = False, dry_run: IsDryRun = False) -> Response:
    """Remove one document, by its id or address; with `pattern`, all that a folder or pattern stands for."""
    return await _drop(document, caller, pattern=pattern, dry_run=dry_run)


@router.delete("/document", responses={200: {"model": DroppedDocumentsReply}})
async def drop_by_id(
    document: QueryId, caller: Calling, pattern: IsPattern = False, dry_run: IsDryRun = False
) -> Response:
    """Remove one document, by its id or address; with `pattern`, all that a folder or pattern stands for."""
    return await _drop(document, caller, pattern=pattern, dry_run=dry_run)


async def _drop(document: str, caller: Caller, *, pattern: bool, dry_run: bool) -> Response:
    def call(engine: Engine) -> dict[str, Any]:
        records = _find_records(engine.opened, document, pattern=pattern)
        addresses = list(dict.fromkeys(get_source_uri(record) or record.id for record in records))
        dropped = 0 if dry_run else engine.opened.store.drop([record.id for record in records])
        return {"dropped": dropped, "documents": addresses, "dry_run": dry_run}

    return reply_json(await caller.call(call, write=True))


def _find_records(opened: Opened, name: str, *, pattern: bool) -> list[DocumentRecord]:
    """The records of what is to be removed; NotFound where a folder or pattern is given and not said to be one."""
    records = find_named_records(opened, [name])
    if not pattern:
        try:
            resolve_document_or_sections(opened, name)
        except NotFound:
            raise NotFound(
                f"{name!r} is no document, and stands for {len(records):,} of them; pattern=true removes them all, and "
                "with dry_run=true lists them"
            ) from None
    return records


async def _reply_chunks(document: str, caller: Caller, limit: int, cursor: str | None) -> Response:
    start = int(cursor or 0)

    def call(engine: Engine) -> dict[str, Any]:
        found = engine.opened.store.chunks(resolve_document(engine.opened, document))
        more = len(found) > start + limit
        return {
            "chunks": [_chunk_to_json(each) for each in found[start : start + limit]],
            "next": str(start + limit) if more else None,
        }

    return reply_json(await caller.call(call))


def _chunk_to_json(chunk: Chunk) -> dict[str, Any]:
    names = ("id", "index", "text", "headings", "start", "end", "context", "at", "meta")
    return {name: getattr(chunk, name) for name in names}
