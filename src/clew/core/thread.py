"""Threads: a conversation is its messages in order; inside the engine it is a Document with a section per message.

A long thread is viewed and edited in parts, without being read or written as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from clew.core.filter import Meta
from clew.core.ids import make_document_id
from clew.core.text import Terms
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Matrix, Message, Section

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


@dataclass(frozen=True, slots=True)
class ThreadPart:
    """Some messages of a stored thread, in order, as a Document of these alone.

    `numbers` are their places in the thread, of which greater means later; they stay when other messages go. `first`
    and `last` are the numbers of the thread's first and last message. A parent that is not in the part is None.
    `revision` is another after every change of the thread.
    """

    document: Document
    numbers: tuple[int, ...]
    first: int
    last: int
    revision: int


@dataclass(frozen=True, slots=True)
class ThreadEdit:
    """What changes in one thread, for `Store.edit_threads`.

    `document` is a part of the thread as it will be, and `numbers` are the places of its messages. Those at `positions`
    are written, new ones too; the parent of each is in the part. `removed` are the numbers of messages that go; a
    thread that is left empty goes too. `chunks` are all chunks of the messages at `positions`, with spans in the text
    of the part. `revision` is that of the part that was read; 0: the thread is new. `is_append`: messages are added at
    the end and nothing else changes, so that title and hash stay. The summary goes, since it was made of the text
    before.
    """

    document: Document
    numbers: tuple[int, ...]
    positions: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    vectors: Matrix
    terms: tuple[Terms, ...]
    removed: tuple[int, ...] = ()
    revision: int = 0
    is_append: bool = False


class Waiting(NamedTuple):
    """A stored message that answers one that is not stored, and the thread that it is in."""

    message: str
    doc_id: str


class Head(NamedTuple):
    """Of a message its author, its time (ISO 8601), and whether it was inferred what it answers."""

    author: str
    at: str | None
    guessed: bool


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread: the ids, stored texts and parents of its messages, in order, and how to parse the rest of one.

    A parent is the place of the message that is answered; the last of equal ids has its place in `places`.
    """

    id: str
    title: str
    meta: Meta
    ids: Sequence[str]
    texts: Sequence[str]  # with the separator after each
    parents: Sequence[int | None]
    parse_section: Callable[[int], Section]
    read_heads: Callable[[], Sequence[Head]]
    places: dict[str, int] = field(init=False)
    _replies: dict[int, list[int]] = field(init=False, default_factory=dict)
    _heads: list[Head] = field(init=False, default_factory=list)
    _messages: dict[int, Message] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {message: place for place, message in enumerate(self.ids)})
        for place, parent in enumerate(self.parents):
            if parent is not None:
                self._replies.setdefault(parent, []).append(place)

    @property
    def heads(self) -> Sequence[Head]:
        """The head of every message; all are parsed at once, in less time than a few messages."""
        if not self._heads:
            self._heads.extend(self.read_heads())
        return self._heads

    @property
    def channel(self) -> str:
        """The channel of the thread."""
        return str(self.meta.get("channel", ""))

    def message(self, place: int) -> Message:
        """The message at a place."""
        if place not in self._messages:
            section, parent = self.parse_section(place), self.parents[place]
            self._messages[place] = Message(
                text=self.texts[place].removesuffix(SEPARATOR),
                author=section.author,
                at=section.at,
                id=section.id,
                channel=self.channel,
                reply_to=None if parent is None else self.ids[parent],
                access=section.access,
            )
        return self._messages[place]

    def is_guessed(self, place: int) -> bool:
        """Whether it was inferred what the message there answers."""
        return self.heads[place].guessed

    def is_in_marked_thread(self, place: int) -> bool:
        """Whether the message there is a reply, or has one, by the mark of an author and not by a guess."""
        is_reply = self.parents[place] is not None and not self.is_guessed(place)
        return is_reply or any(not self.is_guessed(reply) for reply in self._replies.get(place, ()))

    def reply_chain(self, place: int) -> Iterator[int]:
        """The places of the messages that one replies to, directly or not, the nearest first."""
        at = self.parents[place]
        while at is not None:
            yield at
            at = self.parents[at]


def view_document(document: Document) -> ThreadView:
    """The view of a thread that has been read whole."""
    sections = document.sections
    return ThreadView(
        document.id,
        document.title,
        document.meta,
        [section.id for section in sections],
        [document.text[section.start : section.end] for section in sections],
        [section.parent for section in sections],
        sections.__getitem__,
        lambda: [Head(section.author, to_iso(section.at), section.guessed) for section in sections],
    )
