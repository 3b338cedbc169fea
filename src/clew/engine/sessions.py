"""Chat sessions: questions that are understood by the conversation before them, saved under a name if one is given.

session = engine.chat("work")
session.ask("when is soup served?")
session.ask("and who cooks it?")
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from clew.core.answer import Answer
from clew.core.errors import DriverFailed, SettingsError, SourceError
from clew.core.settings import Settings
from clew.core.trace import Trace
from clew.core.types import EVERYTHING, Filter, Message

if TYPE_CHECKING:
    from clew.engine import Engine

MAX_MESSAGES = 40  # per session; the oldest are dropped
_NAME = re.compile(r"\w[\w.-]{0,99}")


class ChatSession:
    """A conversation with a collection: its messages, and the numbers of the documents it has cited.

    With a file it is saved after every answer. If two processes continue the same session, the last to save wins.
    """

    def __init__(self, engine: "Engine", *, name: str | None = None, file: Path | None = None) -> None:
        self.name = name or f"unnamed {uuid4().hex}"  # the key of its document numbers in `engine.sessions`
        self.messages: tuple[Message, ...] = ()
        self._engine = engine
        self._file = file
        if file is not None and file.is_file():
            saved = _load_session_file(file)
            engine.sessions.set_document_index(self.name, saved["documents"])
            self.messages = tuple(Message(turn["text"], role=turn["role"]) for turn in saved["turns"])

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the documents that were shown, by document id."""
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
        settings: Settings | None = None,
    ) -> Answer:
        """The answer of `Engine.ask` to the next question of the conversation."""
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
        settings: Settings | None = None,
    ) -> Answer:
        """The answer of `Engine.agent` to the next question of the conversation."""
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
                settings=settings,
            ),
        )

    def save(self) -> None:
        """Writes the session to its file, atomically; does nothing without one."""
        if self._file is None:
            return
        numbers = self.numbers
        content = {
            "documents": sorted(numbers, key=lambda doc_id: numbers[doc_id]),
            "turns": [{"role": message.role, "text": message.text} for message in self.messages],
        }
        temporary = self._file.with_suffix(f".{uuid4().hex}.new")  # two threads may save the same session
        try:
            self._file.parent.mkdir(exist_ok=True)
            temporary.write_text(json.dumps(content), encoding="ascii")  # escapes also what UTF-8 cannot encode
            temporary.replace(self._file)
        except OSError as error:
            raise DriverFailed(f"the chat session cannot be saved to {self._file}: {error.strerror}") from error

    def _answer_and_save_turn(self, question: str, answer_it: Callable[[], Answer]) -> Answer:
        """Answers a question, adds the turn to the conversation and saves it; a failed question is not added."""
        try:
            answer = answer_it()
            turn = (Message(question), Message(answer.text, role="assistant"))
            self.messages = (*self.messages, *turn)[-MAX_MESSAGES:]
            return answer
        finally:
            self.save()


def open_chat(engine: "Engine", name: str | None = None) -> ChatSession:
    """The session saved under a name in the collection's folder, a new one if there is none; unsaved without a name."""
    if name is None:
        return ChatSession(engine)
    if not _NAME.fullmatch(name):
        raise SettingsError(f"session {name!r} is not a plain name; use letters, digits, dots and dashes, 100 at most")
    folder = engine.opened.folder
    if folder is None or not folder.is_dir():
        raise SettingsError(
            "a named session is saved in the folder of its collection, and this one has none "
            "(PostgreSQL and in-memory collections are not supported yet); leave out the name"
        )
    return ChatSession(engine, name=name, file=folder / "sessions" / f"{name}.json")


def _load_session_file(file: Path) -> dict[str, Any]:
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        texts = [*saved["documents"], *(turn[key] for turn in saved["turns"] for key in ("role", "text"))]
        valid = all(isinstance(text, str) for text in texts)
    except (OSError, ValueError, KeyError, TypeError):
        valid = False
    if not valid:
        raise SourceError(str(file), "is not a saved chat session; delete it to start a new one")
    return {"documents": saved["documents"], "turns": saved["turns"]}
