"""The paths of chats: conversations that the server keeps under a name, with the numbers of what they cited.

They are kept with the collection and quote it, so they need the right to write; who may only read sends the
conversation along, as `history`.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from clew.client.replies import AnswerReply, DroppedReply, SessionReply, SessionsReply
from clew.core.errors import NotFound
from clew.core.trace import record
from clew.engine import Engine
from clew.surface.server.bodies import ChatBody
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.server.routes.ask import check_language_model
from clew.surface.to_json import answer_to_json

router = APIRouter(prefix="/v1", tags=["answers"], responses=document_replies(404, 409))
SessionPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", description="Name of a chat.")]


@router.get("/sessions", responses={200: {"model": SessionsReply}})
async def sessions(caller: Calling) -> Response:
    """The names of the chats that are kept."""
    return reply_json({"sessions": await caller.call(lambda engine: engine.sessions.list_sessions(), write=True)})


@router.get("/sessions/{session}", responses={200: {"model": SessionReply}})
async def session(session: SessionPath, caller: Calling) -> Response:
    """The last messages of a chat, and the numbers of the documents it has cited."""

    def call(engine: Engine) -> dict[str, Any]:
        check_session(engine, session)
        messages = [{"role": each.role, "text": each.text} for each in engine.sessions.get_messages(session)]
        return {"session": session, "messages": messages, "numbers": engine.sessions.get_document_numbers(session)}

    return reply_json(await caller.call(call, write=True))


@router.post("/sessions/{session}", responses={200: {"model": AnswerReply}})
async def chat(session: SessionPath, body: ChatBody, caller: Calling) -> Response:
    """Answer the next question of a chat, a new one if there is none of that name; with `agent`, by an agent."""

    def call(engine: Engine) -> dict[str, Any]:
        if body.agent or body.person:
            check_language_model(engine)
        given = body.build_arguments(engine)
        kept = engine.chat(session)
        with record("chat") as trace:
            if body.agent:
                own = {name: given[name] for name in ("strategy", "where", "settings")}
                answer = kept.agent(body.query, **own)
            else:
                answer = kept.ask(body.query, tokens=body.tokens, person=body.person, **given)
        return answer_to_json(answer, trace=trace)

    return reply_json(await caller.call(call, write=True, pool=caller.server.answers))


@router.delete("/sessions/{session}", responses={200: {"model": DroppedReply}})
async def drop_session(session: SessionPath, caller: Calling) -> Response:
    """Forget a chat with its messages."""

    def call(engine: Engine) -> dict[str, Any]:
        check_session(engine, session)
        return {"dropped": engine.sessions.drop(session)}

    return reply_json(await caller.call(call, write=True))


def check_session(engine: Engine, name: str) -> None:
    """Raises NotFound if no chat of that name is kept."""
    if name not in engine.sessions.list_sessions():
        raise NotFound(f"there is no chat {name!r}; GET /v1/sessions lists them")
