"""A stored thread of which only those messages are parsed that are asked for: a window shows few of many."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clew.core.filter import Meta
from clew.core.thread import SEPARATOR
from clew.core.time import to_iso
from clew.core.types import Document, Message, Section


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
