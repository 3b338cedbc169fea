"""The paths of conversations: messages, channels, windows, styles."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from clew.client.replies import (
    ChannelsReply,
    DroppedReply,
    MessageReply,
    ProfileReply,
    ReportReply,
    StylePromptReply,
    WindowReply,
)
from clew.core.errors import SettingsError
from clew.engine import Engine
from clew.surface.server.bodies import MessagesBody, StyleBody, WindowBody, build_filter, build_messages, build_time
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.server.errors import NotPossible

router = APIRouter(prefix="/v1", tags=["conversations"], responses=document_replies(404, 409))
MessagePath = Annotated[str, Path(min_length=1, max_length=1000, description="Id of a message, or channel/id.")]
PersonPath = Annotated[str, Path(min_length=1, max_length=500, description="Author of messages.")]


@router.post("/messages", responses={200: {"model": ReportReply}})
async def add_messages(body: MessagesBody, caller: Calling) -> Response:
    """Add messages as they are sent; one that is stored already is skipped, an edited one replaces itself."""
    messages = build_messages(body.messages)
    return reply_json(await caller.add(lambda engine: engine.add_messages(messages)))


@router.get("/messages/{message:path}", responses={200: {"model": MessageReply}})
async def message(message: MessagePath, caller: Calling) -> Response:
    """One message by its id."""
    return reply_json(await caller.call(lambda engine: engine.message(message)))


@router.delete("/messages/{message:path}", responses={200: {"model": DroppedReply}})
async def drop_messages(message: MessagePath, caller: Calling) -> Response:
    """Remove one message by its id."""
    return reply_json({"dropped": await caller.call(lambda engine: engine.drop_messages(message), write=True)})


@router.get("/channels", responses={200: {"model": ChannelsReply}})
async def channels(caller: Calling) -> Response:
    """The channels that have messages."""
    return reply_json({"channels": await caller.call(lambda engine: engine.channels())})


@router.post("/window", responses={200: {"model": WindowReply}})
async def window(body: WindowBody, caller: Calling) -> Response:
    """The messages of a channel that a prompt should contain, within a token budget."""
    return reply_json(
        await caller.call(
            lambda engine: engine.window(
                body.channel,
                body.prompt,
                tokens=body.tokens,
                include_related_channels=body.include_related_channels,
                min_similarity=body.min_similarity,
                where=build_filter(body.where, engine),
                now=build_time("now", body.now),
            )
        )
    )


@router.get("/profile/{person:path}", responses={200: {"model": ProfileReply}})
async def profile(person: PersonPath, caller: Calling) -> Response:
    """How a person writes."""
    with too_few_messages_as_conflict():
        return reply_json(await caller.call(lambda engine: engine.profile(person), pool=caller.server.answers))


@router.post("/style-prompt", responses={200: {"model": StylePromptReply}})
async def style_prompt(body: StyleBody, caller: Calling) -> Response:
    """The prompt with which a model answers a message as a person would."""

    def call(engine: Engine) -> str:
        where = build_filter(body.where, engine)
        now = build_time("now", body.now)
        return engine.style_prompt(body.person, body.message, tokens=body.tokens, where=where, now=now)

    with too_few_messages_as_conflict():
        prompt = await caller.call(call, pool=caller.server.answers)
    return reply_json({"person": body.person, "message": body.message, "prompt": prompt})


@contextmanager
def too_few_messages_as_conflict() -> Iterator[None]:
    """A style that cannot be told from so few messages is no fault of the request, but of what is stored."""
    try:
        yield
    except SettingsError as error:
        raise (NotPossible(str(error)) if "scoring.style_messages" in str(error) else error) from error
