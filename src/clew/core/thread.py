"""A conversation: messages in order. Inside the engine it is a Document whose sections are the messages."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from clew.core.ids import document_id
from clew.core.types import Document, Message, Meta, Section

KIND = "thread"
BETWEEN = "\n\n"  # after each message, so that a thread grows at its end
_TITLE = 80  # characters


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation of one channel, its messages by time; `id` is that of the message that opened it.

    `guessed` are the ids of messages of which nobody said what they answer: it was found out.
    """

    id: str
    channel: str
    messages: tuple[Message, ...]
    title: str = ""
    uri: str = ""
    meta: Meta = field(default_factory=dict)
    guessed: Set[str] = frozenset()

    def document(self) -> Document:
        """The thread as a document: the messages' texts one after another, each a section that names its author.

        The parent of a section is the message that it answers.
        """
        text, sections = written(self.messages, guessed=self.guessed)
        opening = self.messages[0].text if self.messages else ""
        return Document(
            id=document_id(f"thread:{self.channel}/{self.id}"),
            text=text,
            sections=sections,
            kind=KIND,
            title=self.title or title_of(self.channel, opening),
            uri=self.uri or (self.id if self.id.startswith(f"{self.channel}/") else f"{self.channel}/{self.id}"),
            meta={**self.meta, "channel": self.channel},
        )


def title_of(channel: str, opening: str) -> str:
    """What a thread is called that has no title of its own: its channel, and how its first message begins."""
    first = " ".join(opening.split())
    short = first if len(first) <= _TITLE else f"{first[: _TITLE - 1].rstrip()}…"
    return f"#{channel}: {short}"


def written(
    messages: Sequence[Message], *, guessed: Set[str], after: Document | None = None
) -> tuple[str, tuple[Section, ...]]:
    """The text of messages, and their sections, from the start or after a thread that is there."""
    before = after.sections if after else ()
    at, places = len(after.text) if after else 0, {section.id: place for place, section in enumerate(before)}
    sections: list[Section] = []
    texts: list[str] = []
    for message in messages:
        body = message.text + BETWEEN
        parent = places.get(message.reply_to) if message.reply_to else None
        sections.append(
            Section(
                at,
                at + len(body),
                parent=parent,
                id=message.id,
                author=message.author,
                at=message.at,
                guessed=parent is not None and message.id in guessed,
            )
        )
        places[message.id] = len(places)
        texts.append(body)
        at += len(body)
    return "".join(texts), tuple(sections)


def first_chunk(message_id: str) -> str:
    """The id of the chunk that a message begins with."""
    return f"{message_id}_chunk_0"


def guessed_in(document: Document) -> set[str]:
    """The messages of a thread's document of which it was found out what they answer."""
    return {section.id for section in document.sections if section.guessed}


def is_thread(document: Document) -> bool:
    """Whether a document is a conversation whose sections are messages, not one that a program wrote as plain text."""
    return document.kind == KIND and bool(document.sections) and all(section.id for section in document.sections)


def messages_in(document: Document) -> list[Message]:
    """The messages of a thread's document, in order."""
    channel = str(document.meta.get("channel", ""))
    return [
        Message(
            text=message_text(document, section),
            author=section.author,
            at=section.at,
            id=section.id,
            channel=channel,
            reply_to=document.sections[section.parent].id if section.parent is not None else None,
        )
        for section in document.sections
    ]


def message_text(document: Document, section: Section) -> str:
    """The text of the message that a section is."""
    return document.text[section.start : section.end].removesuffix(BETWEEN)
