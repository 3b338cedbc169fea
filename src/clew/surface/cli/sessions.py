"""A conversation that is kept by its name beside the collection: what was said, and the numbers of its documents."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.core.errors import SettingsError, SourceError
from clew.core.types import Message

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.surface.settings.load import Invocation

TURNS = 40  # messages that are kept of a conversation; the oldest are forgotten
HERE = "this conversation"  # what a conversation without a name is called inside
_NAME = re.compile(r"\w[\w.-]{0,99}")


@dataclass(slots=True)
class Talk:
    """A conversation under way: the session that numbers its documents, and its messages."""

    session: str
    turns: list[Message] = field(default_factory=list)

    def said(self, question: str, answer: str) -> None:
        """Notes a question and its answer."""
        self.turns = [*self.turns, Message(question), Message(answer, role="assistant")][-TURNS:]


@contextmanager
def talk(engine: "Engine", start: "Invocation", name: str | None) -> Iterator[Talk]:
    """The conversation of a name as it was left, written down again after the block; a new one without a name."""
    if name is None:
        yield Talk(HERE)
        return
    file = _file(start, name)
    kept = _read(file) if file.is_file() else {"documents": [], "turns": []}
    engine.sessions.set_document_index(name, kept["documents"])
    now = Talk(name, [Message(turn["text"], role=turn["role"]) for turn in kept["turns"]])
    try:
        yield now
    finally:
        numbers = engine.sessions.numbers(name)
        shape = {
            "documents": sorted(numbers, key=lambda each: numbers[each]),
            "turns": [{"role": turn.role, "text": turn.text} for turn in now.turns],
        }
        file.parent.mkdir(exist_ok=True)
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(shape, ensure_ascii=False), encoding="utf-8")
        beside.replace(file)


def _file(start: "Invocation", name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--session is {name!r}; it must be a plain name of letters, digits, dots and dashes")
    folder = Path(start.path) / start.collection
    if "://" in start.path or not folder.is_dir():
        raise SettingsError("--session keeps a conversation beside its collection, which must be in a folder")
    return folder / "sessions" / f"{name}.json"


def _read(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        texts = [*kept["documents"], *(turn[name] for turn in kept["turns"] for name in ("role", "text"))]
        sound = all(isinstance(each, str) for each in texts)
    except (OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise SourceError(str(file), "is no conversation that Clew kept; remove it to begin anew")
    return {"documents": kept["documents"], "turns": kept["turns"]}
