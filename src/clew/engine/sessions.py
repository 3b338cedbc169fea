"""Chat sessions: each question is understood from the conversation before it. A named session is kept.

session = engine.chat("work")
session.ask("when is soup served?")
session.ask("and who cooks it?")
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import finalize

from clew.core.answer import Answer
from clew.core.errors import SettingsError
from clew.core.events import OnEvent
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import Settings
from clew.core.trace import Trace
from clew.core.types import Message

if TYPE_CHECKING:
    from clew.engine import Engine

_NAME = re.compile(r"\w[\w.-]{0,99}")


class ChatSession:
    """A conversation with a collection: its messages, and the numbers of the documents it has cited.

    A named session is kept with the collection until `engine.sessions.drop(name)`, and other programs may continue it.
    An unnamed session ends with this object.
    """

    def __init__(self, engine: "Engine", name: str | None = None) -> None:
        self.name = name or f"unnamed {uuid4().hex}"  # its key in `engine.sessions`
        self._engine = engine
        if name is None:
            engine.sessions.hold(self.name)
            finalize(self, engine.sessions.release, self.name).atexit = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """The last messages, oldest first."""
        return self._engine.sessions.get_messages(self.name)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the documents shown so far, by document id."""
        return self._engine.sessions.get_document_numbers(self.name)

    def ask(
        self,
        question: str,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        person: str | None = None,
        on_sentence: Callable[[str], None] | None = None,
        on_event: OnEvent | None = None,
        settings: Settings | None = None,
    ) -> Answer:
        """Answer the next question of the conversation, as `Engine.ask`."""
        return self._answer_and_save_turn(
            question,
            lambda: self._engine.ask(
                question,
                tokens=tokens,
                k=k,
                strategy=strategy,
                where=where,
                history=self.messages,
                session=self.name,
                person=person,
                on_sentence=on_sentence,
                on_event=on_event,
                settings=settings,
            ),
        )

    def agent(
        self,
        question: str,
        *,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        on_sentence: Callable[[str], None] | None = None,
        on_step: Callable[[Trace], None] | None = None,
        on_event: OnEvent | None = None,
        settings: Settings | None = None,
    ) -> Answer:
        """Answer the next question of the conversation, as `Engine.agent`."""
        return self._answer_and_save_turn(
            question,
            lambda: self._engine.agent(
                question,
                history=self.messages,
                session=self.name,
                strategy=strategy,
                where=where,
                on_sentence=on_sentence,
                on_step=on_step,
                on_event=on_event,
                settings=settings,
            ),
        )

    def _answer_and_save_turn(self, question: str, answer_it: Callable[[], Answer]) -> Answer:
        """Answer a question and add the turn to the conversation, unless answering raises."""
        answer = answer_it()
        self._engine.sessions.add_messages(self.name, (Message(question), Message(answer.text, role="assistant")))
        return answer


def open_chat(engine: "Engine", name: str | None = None) -> ChatSession:
    """Open the chat of this name, creating it if needed. A chat without a name is not kept."""
    if name is None:
        return ChatSession(engine)
    if not _NAME.fullmatch(name):
        raise SettingsError(f"session {name!r} is not a plain name; use letters, digits, dots and dashes, 100 at most")
    if engine.opened.boundary != EVERYTHING:
        raise SettingsError(
            "this engine sees a part of the collection, and named chats are kept with the whole of it; leave out the "
            "name, or ask with where= in a chat of the whole collection"
        )
    engine.sessions.keep(name)
    return ChatSession(engine, name)
