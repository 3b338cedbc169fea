"""The paths of the page's conversations: chats kept with the collection, which `clew chat --session` continues.

They belong to who has the machine: a server with keys has several users, and offers none of them.
"""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from clew.core import requests as q
from clew.engine import Engine
from clew.surface.server.call import Build, Caller, Calling, reply_json, serve
from clew.surface.server.errors import NotAllowed
from clew.surface.server.routes.ask import STREAM, describe_messages, reply_answer

PATH = "/v1/page/chats"
router = APIRouter(include_in_schema=False)


def keeps_chats(caller: Caller) -> bool:
    """Whether the server has one user, who may write."""
    return caller.access.is_whole and caller.access.can_write and not caller.access.has_key


@router.get(PATH)
async def chats(caller: Calling) -> Response:
    """The chats kept with the collection, and what was said in them."""
    if not keeps_chats(caller):
        return reply_json({"chats": []})

    def call(engine: Engine) -> list[dict[str, Any]]:
        names = [name for name in engine.sessions.list_sessions() if not name.startswith("unnamed ")]
        return [{"name": name, "messages": describe_messages(engine, name)} for name in names]

    return reply_json({"chats": await caller.call(call)})


async def ask(caller: Caller, build: Build[q.Chat], **_: Any) -> Response:
    """The answer to the next question of a chat, as the events of `/v1/ask`."""
    check_keeps_chats(caller)
    return await reply_answer(caller, build, stream=True)


async def drop(caller: Caller, build: Build[q.DropSession]) -> Response:
    """Forget a chat."""
    check_keeps_chats(caller)
    return reply_json({"dropped": await caller.call(lambda engine: engine.sessions.drop(build(engine).session))})


def check_keeps_chats(caller: Caller) -> None:
    """Raises NotAllowed unless the server has one user."""
    if not keeps_chats(caller):
        raise NotAllowed("a server with keys keeps no chats; ask at /v1/ask with the history of the conversation")


serve(router, q.Chat, ask, path=PATH + "/{session}", own={"stream": STREAM})
serve(router, q.DropSession, drop, path=PATH + "/{session}")
