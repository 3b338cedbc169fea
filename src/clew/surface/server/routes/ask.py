"""The paths that answer and that judge answers: ask, check, feedback."""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from clew.client.replies import AnswerReply, CheckReply, FeedbackListReply, FeedbackReply
from clew.core.errors import NotFound
from clew.core.events import EventStream
from clew.core.trace import record
from clew.engine import Engine
from clew.engine.opened import resolve_document
from clew.query.search.strategies import no_strategy_error
from clew.surface.server.bodies import AskBody, CheckBody, FeedbackBody, build_filter
from clew.surface.server.call import Caller, Calling, document_replies, reply_json
from clew.surface.server.errors import NotAllowed
from clew.surface.server.events import EVENTS_SCHEMA, format_answer_event, reply_events
from clew.surface.to_json import answer_to_json

router = APIRouter(prefix="/v1", tags=["answers"], responses=document_replies(404))


@router.post("/ask", responses={200: {"model": AnswerReply, "content": EVENTS_SCHEMA}})
async def ask(body: AskBody, caller: Calling) -> Response:
    """Answer a question with checked citations; with `stream`, as server-sent events.

    Events: `token` (what a model writes, as it comes and unchecked), `step_start` and `step` (of an agent: what it
    wrote before is not its answer), `sentence` (each once it is checked), `verdict` (of each sentence), `citation`,
    and at the end `answer`, or `error`. An answer that is incomplete is followed by an `error`.
    """
    if body.stream:
        engine = await caller.call(lambda engine: check_question(body, engine), pool=caller.server.answers)
        return reply_events(_stream_answer(caller, body, engine))

    def call(engine: Engine) -> dict[str, Any]:
        with record("ask") as trace:
            if body.agent:
                answer = engine.agent(body.query, **build_agent_arguments(body, engine))
            else:
                answer = engine.ask(body.query, **build_ask_arguments(body, engine))
        return answer_to_json(answer, trace=trace)

    return reply_json(await caller.call(call, pool=caller.server.answers))


@router.post("/check", responses={200: {"model": CheckReply}})
async def check(body: CheckBody, caller: Calling) -> Response:
    """Whether the citations of a past answer still match the documents."""
    citations = [each.build() for each in body.citations]
    checked = await caller.call(lambda engine: engine.check(citations, where=build_filter(body.where, engine)))
    return reply_json({"stands": all(each.standing == "stands" for each in checked), "citations": checked})


@router.post("/feedback", status_code=201, responses={201: {"model": FeedbackReply}})
async def add_feedback(body: FeedbackBody, caller: Calling) -> Response:
    """Say whether an answer was good, or that a result was opened; it is kept for who may write, unless read-only."""
    if caller.server.config.read_only:
        raise NotAllowed("this server is read-only and keeps no feedback; send it to one that is not")
    collection = caller.choose_collection()
    await caller.call(lambda engine: body.opened and resolve_document(engine.opened, body.opened))  # NotFound
    given = {**body.model_dump(), "caller": caller.access.caller}
    kept = await caller.run(lambda: caller.server.engines.get(collection).feedback(**given))
    return reply_json({**kept, "collection": collection}, status=201)


@router.get("/feedback", responses={200: {"model": FeedbackListReply}})
async def list_feedback(caller: Calling) -> Response:
    """The last thousand judgements and openings; they quote questions, so this needs the right to write."""
    caller.access.check_write()
    collection = caller.choose_collection()
    kept = await caller.call(lambda engine: engine.list_feedback(), write=True)
    return reply_json({"feedback": [{**each, "collection": collection} for each in kept]})


def build_ask_arguments(body: AskBody, engine: Engine) -> dict[str, Any]:
    """What `Engine.ask` takes besides the question."""
    if body.person:
        check_language_model(engine)
    return {**body.build_arguments(engine), "tokens": body.tokens, "person": body.person}


def build_agent_arguments(body: AskBody, engine: Engine) -> dict[str, Any]:
    """What `Engine.agent` takes besides the question."""
    check_language_model(engine)
    given = body.build_arguments(engine)
    return {name: given[name] for name in ("strategy", "where", "history", "settings")}


def check_language_model(engine: Engine) -> None:
    """Raises NotFound if the server has no language model."""
    if engine.opened.llm is None:
        raise NotFound("this server has no language model (llm.name); leave out person and agent")


def check_question(body: AskBody, engine: Engine) -> Engine:
    """The engine; raises what is wrong with the question, before a stream begins that could only break off."""
    arguments = build_agent_arguments(body, engine) if body.agent else build_ask_arguments(body, engine)
    known = engine.strategies
    if arguments["strategy"] not in (None, *known):
        raise no_strategy_error(arguments["strategy"], known)
    return engine


def open_stream(body: AskBody, engine: Engine) -> EventStream:
    """The events of the answer to a question."""
    if body.agent:
        return engine.agent_stream(body.query, **build_agent_arguments(body, engine))
    return engine.ask_stream(body.query, **build_ask_arguments(body, engine))


async def _stream_answer(caller: Caller, body: AskBody, engine: Engine) -> AsyncIterator[str]:
    async with caller.server.streams.open(lambda: open_stream(body, engine)) as events:
        async for event in events:
            for text in format_answer_event(event):
                yield text
