"""The paths that answer (alone or in a stored chat) and that judge answers: ask, sessions, check, feedback.

Chats are stored with the collection and quote it, so they need the right to write; who may only read sends the
conversation along, as `history`.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from clew.core import requests as q
from clew.core.answer import Answer
from clew.core.errors import NotFound
from clew.core.events import EventStream, FinalEvent
from clew.core.suggest import unknown_name_error
from clew.core.trace import record
from clew.core.types import Message
from clew.engine import Engine
from clew.engine.opened import resolve_document
from clew.surface.server.call import Build, Caller, document_replies, reply_json, serve
from clew.surface.server.errors import NotAllowed
from clew.surface.server.events import format_answer_event, reply_events
from clew.surface.to_json import answer_to_json
from clew.surface.verbs import call_verb, list_arguments, take_settings

router = APIRouter(tags=["answers"], responses=document_replies(404, 409))
Flag = Annotated[bool, Field(strict=True)]
EVENTS: Final = (
    "Send server-sent events as they happen: `token` (what a model writes, unchecked), `step_start` and `step` (of an "
    "agent: what it wrote before is not its answer), `sentence` (each once it is checked), `verdict` (of each "
    "sentence), `citation`; at the end `answer`, or `error`. An incomplete answer is followed by an `error`."
)
STREAM: Final = (Flag, Field(False, description=EVENTS))
AGENT: Final = (Flag, Field(False, description="Let an agent search by itself, in several steps; needs a model."))
Question = q.Ask | q.Chat


class Conversation:
    """A question with the arguments of its answer, alone or as the next turn of a stored chat."""

    def __init__(self, engine: Engine, asked: Question, *, agent: bool) -> None:
        """Check the question before a stream begins, which could only break off."""
        self.engine = engine
        self.question = asked.question
        self.chat = engine.chat(asked.session) if isinstance(asked, q.Chat) else None
        if (agent or asked.person) and engine.opened.llm is None:
            raise NotFound("this server has no language model (llm.name); leave out person and agent")
        if asked.strategy not in (None, *engine.strategies):
            raise unknown_name_error("strategy", asked.strategy or "", engine.strategies)
        plain, settings = take_settings(asked, engine.settings)
        self._verb = "agent" if agent else "ask"
        self._arguments = {"settings": settings, **list_arguments(plain, q.Agent if agent else q.Ask)}

    def answer(self) -> Answer:
        """Answer, and add the answer to the chat."""
        made: Answer = getattr(self.engine, self._verb)(**self._list_arguments())
        self.keep(made)
        return made

    def stream(self) -> EventStream:
        """Return the events of the answer; the reader calls `keep` with the last one."""
        made: EventStream = getattr(self.engine, f"{self._verb}_stream")(**self._list_arguments())
        return made

    def keep(self, answer: Answer) -> None:
        """Add the question and its answer to the chat, if it belongs to one."""
        if self.chat is not None:
            turn = (Message(self.question), Message(answer.text, role="assistant"))
            self.engine.sessions.add_messages(self.chat.name, turn)

    def _list_arguments(self) -> dict[str, Any]:
        own = {} if self.chat is None else {"history": self.chat.messages, "session": self.chat.name}
        return self._arguments | own


async def reply_answer(
    caller: Caller, build: Build[Question], *, agent: bool | None = None, stream: bool = False, write: bool = False
) -> Response:
    """Answer a question with checked citations; with `stream`, as server-sent events."""

    def prepare(engine: Engine) -> Conversation:
        asked = build(engine)
        return Conversation(engine, asked, agent=asked.agent if isinstance(asked, q.Chat) else bool(agent))

    def call(engine: Engine) -> dict[str, Any]:
        with record("chat" if write else "ask") as trace:
            answer = prepare(engine).answer()
        return answer_to_json(answer, trace=trace)

    pool = caller.server.answers
    if stream:
        return reply_events(_stream_answer(caller, await caller.call(prepare, write=write, pool=pool)))
    return reply_json(await caller.call(call, write=write, pool=pool))


async def _stream_answer(caller: Caller, asked: Conversation) -> AsyncIterator[str]:
    async with caller.server.streams.open(asked.stream) as events:
        async for event in events:
            if isinstance(event, FinalEvent) and asked.chat is not None:
                await caller.run(partial(asked.keep, event.answer))
            for text in format_answer_event(event):
                yield text


def check(engine: Engine, asked: q.Check) -> dict[str, Any]:
    """Check each citation, and whether all of them stand."""
    checked = call_verb(engine, asked)
    return {"stands": all(each.standing == "stands" for each in checked), "citations": checked}


async def add_feedback(caller: Caller, build: Build[q.Feedback]) -> Response:
    """Store feedback on an answer, also from read-only keys, unless the server is read-only."""
    if caller.server.config.read_only:
        raise NotAllowed("this server is read-only and keeps no feedback; send it to one that is not")
    collection = caller.choose_collection()

    def check_opened(engine: Engine) -> q.Feedback:
        asked = build(engine)
        if asked.opened:
            resolve_document(engine.opened, asked.opened)  # NotFound
        return asked

    asked = await caller.call(check_opened)
    engines, said_by = caller.server.engines, caller.access.caller
    kept = await caller.run(lambda: call_verb(engines.get(collection), asked, caller=said_by))
    return reply_json({**kept, "collection": collection}, status=201)


async def list_feedback(caller: Caller, _: Build[q.ListFeedback]) -> Response:
    """List the judgements; they quote questions, so this needs the right to write."""
    kept = await caller.call(lambda engine: engine.list_feedback(), write=True)
    return reply_json({"feedback": [{**each, "collection": caller.choose_collection()} for each in kept]})


def read_session(engine: Engine, asked: q.Session) -> dict[str, Any]:
    """Read the messages of a chat, and the numbers of its documents."""
    check_session(engine, asked.session)
    return {
        "session": asked.session,
        "messages": describe_messages(engine, asked.session),
        "numbers": engine.sessions.get_document_numbers(asked.session),
    }


def describe_messages(engine: Engine, name: str) -> list[dict[str, str]]:
    """Return the messages of a chat, in order."""
    return [{"role": each.role, "text": each.text} for each in engine.sessions.get_messages(name)]


def drop_session(engine: Engine, asked: q.DropSession) -> dict[str, Any]:
    """Delete a chat."""
    check_session(engine, asked.session)
    return {"dropped": engine.sessions.drop(asked.session)}


def check_session(engine: Engine, name: str) -> None:
    """Raise NotFound if no chat of that name is kept."""
    if name not in engine.sessions.list_sessions():
        raise NotFound(f"there is no chat {name!r}; GET /v1/sessions lists them")


serve(router, q.Ask, reply_answer, own={"agent": AGENT, "stream": STREAM}, streams=True)
serve(router, q.Check, run=check)
serve(router, q.Feedback, add_feedback, status=201)
serve(router, q.ListFeedback, list_feedback)
serve(router, q.Sessions, run=lambda engine, _: {"sessions": engine.sessions.list_sessions()}, write=True)
serve(router, q.Session, run=read_session, write=True)
serve(router, q.Chat, partial(reply_answer, write=True), own={"stream": STREAM}, streams=True)
serve(router, q.DropSession, run=drop_session, write=True)
