"""Threads: a conversation is its messages in order; inside the engine it is a Document with a section per message."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from clew.core.filter import Meta
from clew.core.ids import make_document_id
from clew.core.types import Document, Message, Section

THREAD_KIND = "thread"
SEPARATOR = "\n\n"  # after each message, so that a thread can grow at its end
_MAX_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation in one channel, its messages by time; `id` is that of the first message.

    `guessed` are the ids of messages whose `reply_to` was inferred, not marked by the author; `awaits` has the ids of
    missing messages, by those that answer them.
    """

    id: str
    channel: str
    messages: tuple[Message, ...]
    title: str = ""
    uri: str = ""
    meta: Meta = field(default_factory=dict)
    guessed: Set[str] = frozenset()
    awaits: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> Document:
        """The thread as a Document: the texts of the messages joined, each a section with its author and time.

        The parent of a section is the message that it replies to.
        """
        text, sections = join_messages(self.messages, guessed=self.guessed, awaits=self.awaits)
        opening = self.messages[0].text if self.messages else ""
        return Document(
            id=make_document_id(f"thread:{self.channel}/{self.id}"),
            text=text,
            sections=sections,
            kind=THREAD_KIND,
            title=self.title or make_thread_title(self.channel, opening),
            uri=self.uri or make_thread_uri(self.channel, self.id),
            meta={**self.meta, "channel": self.channel},
        )


def make_thread_title(channel: str, opening: str) -> str:
    """The title of a thread without one: its channel and the beginning of its first message."""
    first = " ".join(opening.split())
    short = first if len(first) <= _MAX_TITLE_CHARS else f"{first[: _MAX_TITLE_CHARS - 1].rstrip()}…"
    return f"#{channel}: {short}"


def make_thread_uri(channel: str, first: str) -> str:
    """The address of a thread: its channel and the id of its first message, which may name the channel itself."""
    return first if first.startswith(f"{channel}/") else f"{channel}/{first}"


def join_messages(
    messages: Sequence[Message], *, guessed: Set[str], awaits: Mapping[str, str] | None = None
) -> tuple[str, tuple[Section, ...]]:
    """The joined text of messages and their sections."""
    at, positions = 0, dict[str, int]()
    sections: list[Section] = []
    texts: list[str] = []
    for message in messages:
        body = message.text + SEPARATOR
        parent = positions.get(message.reply_to) if message.reply_to else None
        sections.append(
            Section(
                at,
                at + len(body),
                parent=parent,
                id=message.id,
                author=message.author,
                at=message.at,
                guessed=parent is not None and message.id in guessed,
                access=message.access,
                awaits=(awaits or {}).get(message.id),
            )
        )
        positions[message.id] = len(positions)
        texts.append(body)
        at += len(body)
    return "".join(texts), tuple(sections)


def make_first_chunk_id(message_id: str) -> str:
    """The id of the first chunk of a message."""
    return f"{message_id}_chunk_0"


def find_guessed_replies(document: Document) -> set[str]:
    """The ids of the messages in a thread's document whose `reply_to` was inferred."""
    return {section.id for section in document.sections if section.guessed}


def find_awaited_messages(document: Document) -> dict[str, str]:
    """The ids of missing messages, by those of the messages in a thread's document that answer them."""
    return {section.id: section.awaits for section in document.sections if section.awaits is not None}


def is_thread(document: Document) -> bool:
    """Whether the sections of a document are messages; a program may add a document of this kind as plain text."""
    return document.kind == THREAD_KIND and bool(document.sections) and all(section.id for section in document.sections)


def extract_messages(document: Document) -> list[Message]:
    """The messages of a thread, in order."""
    channel = str(document.meta.get("channel", ""))
    return [
        Message(
            text=get_message_text(document, section),
            author=section.author,
            at=section.at,
            id=section.id,
            channel=channel,
            reply_to=document.sections[section.parent].id if section.parent is not None else None,
            access=section.access,
        )
        for section in document.sections
    ]


def get_message_text(document: Document, section: Section) -> str:
    """The text of the message in a section, without the separator."""
    return document.text[section.start : section.end].removesuffix(SEPARATOR)


def fill_in_message(message: Message, old: Message) -> Message:
    """A later version of a message, its unstated author, time, reply and access those of the one before."""
    return replace(
        message,
        author=message.author or old.author,
        at=message.at or old.at,
        reply_to=message.reply_to or old.reply_to,
        access=old.access if message.access is None else message.access,
    )
