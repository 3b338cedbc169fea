"""The paths of the page's conversations: chats kept with the collection, which `clew chat --session` continues.

They belong to who has the machine: a server with keys has several users, and offers none of them.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from clew.core.events import FinalEvent
from clew.core.types import Message
from clew.engine import Engine
from clew.surface.server.bodies import AskBody
from clew.surface.server.call import Caller, Calling, reply_json
from clew.surface.server.errors import NotAllowed
from clew.surface.server.events import format_answer_event, reply_events
from clew.surface.server.routes.ask import build_agent_arguments, build_ask_arguments

router = APIRouter(prefix="/v1/page/chats", include_in_schema=False)
ChatName = Annotated[str, Path(max_length=100, pattern=r"^\w[\w.-]*$", description="Name of a chat.")]


def keeps_chats(caller: Caller) -> bool:
    """Whether the server has one user, who may write."""
    return caller.access.is_whole and caller.access.can_write and not caller.access.has_key


@router.get("")
async def chats(caller: Calling) -> Response:
    """The chats kept with the collection, and what was said in them."""
    if not keeps_chats(caller):
        return reply_json({"chats": []})

    def call(engine: Engine) -> list[dict[str, Any]]:
        names = [name for name in engine.sessions.list_sessions() if not name.startswith("unnamed ")]
        return [{"name": name, "messages": describe_messages(engine, name)} for name in names]

    return reply_json({"chats": await caller.call(call)})


@router.post("/{name}")
async def ask(name: ChatName, body: AskBody, caller: Calling) -> Response:
    """The answer to the next question of a chat, as the events of `/v1/ask`."""
    check_keeps_chats(caller)
    engine = await caller.call(lambda engine: engine, pool=caller.server.answers)
    return reply_events(_stream_answer(caller, body, engine, name))


@router.delete("/{name}")
async def drop(name: ChatName, caller: Calling) -> Response:
    """Forgets a chat."""
    check_keeps_chats(caller)
    return reply_json({"dropped": await caller.call(lambda engine: engine.sessions.drop(name))})


def check_keeps_chats(caller: Caller) -> None:
    """Raises NotAllowed unless the server has one user."""
    if not keeps_chats(caller):
        raise NotAllowed("a server with keys keeps no chats; ask at /v1/ask with the history of the conversation")


def describe_messages(engine: Engine, name: str) -> list[dict[str, str]]:
    """What was said in a chat, in order."""
    return [{"role": each.role, "text": each.text} for each in engine.sessions.get_messages(name)]


async def _stream_answer(caller: Caller, body: AskBody, engine: Engine, name: str) -> AsyncIterator[str]:
    def open_stream() -> Any:
        chat = engine.chat(name)
        make = engine.agent_stream if body.agent else engine.ask_stream
        given = build_agent_arguments(body, engine) if body.agent else build_ask_arguments(body, engine)
        return make(body.query, **{**given, "history": chat.messages, "session": chat.name})

    async with caller.server.streams.open(open_stream) as events:
        async for event in events:
            if isinstance(event, FinalEvent):
                said = (Message(body.query), Message(event.answer.text, role="assistant"))
                await caller.run(partial(engine.sessions.add_messages, name, said))
            for text in format_answer_event(event):
                yield text
