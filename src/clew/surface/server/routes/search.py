"""The paths that search: search, search-many, context, explain, why-not."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from clew.client.replies import ContextReply, ExplainReply, SearchManyReply, SearchReply, WhyNotReply
from clew.core.filter import Filter
from clew.core.trace import record
from clew.engine import Engine
from clew.surface.search_reply import search_with_reason
from clew.surface.server.bodies import ContextBody, QueryBody, SearchBody, SearchManyBody, WhyNotBody, build_time
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.to_json import context_to_json, hits_to_json

router = APIRouter(prefix="/v1", tags=["search"], responses=document_replies(404))
# Everything, and yet a part: such an engine answers for the collection alone, not for the files of this machine.
COLLECTION_ONLY = Filter(any_of=(Filter(),))


@router.post("/search", responses={200: {"model": SearchReply}})
async def search(body: SearchBody, caller: Calling) -> Response:
    """Find the most relevant chunks."""

    def call(engine: Engine) -> dict[str, Any]:
        arguments = body.build_arguments(engine)
        arguments |= {"channel": body.channel, "now": build_time("now", body.now), "group_by": body.group_by}
        return search_with_reason(engine, body.build_query(), **arguments)

    return reply_json(await caller.call(call))


@router.post("/search-many", responses={200: {"model": SearchManyReply}})
async def search_many(body: SearchManyBody, caller: Calling) -> Response:
    """Find the most relevant chunks for each of several questions; their embeddings are made in one batch."""

    def call(engine: Engine) -> dict[str, Any]:
        found = engine.search_many(body.queries, **body.build_arguments(engine))
        return {"results": [{"hits": hits_to_json(hits)} for hits in found]}

    return reply_json(await caller.call(call, pool=caller.server.answers))


@router.post("/context", responses={200: {"model": ContextReply}})
async def context(body: ContextBody, caller: Calling) -> Response:
    """The context for a prompt: cited passages within a token budget."""

    def call(engine: Engine) -> dict[str, Any]:
        with record("context") as trace:
            found = engine.context(
                body.build_query(),
                tokens=body.tokens,
                render=body.render,
                channel=body.channel,
                now=build_time("now", body.now),
                **body.build_arguments(engine),
            )
        return context_to_json(found, trace=trace)

    return reply_json(await caller.call(call))


@router.post("/explain", responses={200: {"model": ExplainReply}})
async def explain(body: QueryBody, caller: Calling) -> Response:
    """The stages of a search with counts and times, and every number of each hit."""
    return reply_json(
        await caller.call(lambda engine: engine.explain(body.build_query(), **body.build_arguments(engine)))
    )


@router.post("/why-not", responses={200: {"model": WhyNotReply}})
async def why_not(body: WhyNotBody, caller: Calling) -> Response:
    """Which stage lost a document, and the smallest change of a setting that finds it."""

    def call(engine: Engine) -> Any:
        return engine.within(COLLECTION_ONLY).why_not(
            body.build_query(), body.target, tokens=body.tokens, **body.build_arguments(engine)
        )

    return reply_json(await caller.call(call))
