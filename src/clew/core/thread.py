"""Threads: the messages of a conversation in order; in the engine a Document with one section per message.

A long thread is read and edited in parts, never as a whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from clew.core.filter import Meta
from clew.core.ids import make_document_id
from clew.core.text import Terms
from clew.core.types import Chunk, Document, Matrix, Message, Section

THREAD_KIND = "thread"
SEPARATOR = "\n\n"  # after each message, so that messages can be appended
_MAX_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation in one channel, its messages by time; `id` is that of the first message.

    `guessed` are the ids of messages whose `reply_to` was inferred, not marked by the author. `awaits` maps the ids of
    replies to the ids of parents that are missing.
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
        """Return the thread as a Document: the joined texts, with one section per message.

        A section has the author and time of its message; its parent is the message that it replies to.
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
    """Make a title for a thread from its channel and the beginning of its first message."""
    first = " ".join(opening.split())
    short = first if len(first) <= _MAX_TITLE_CHARS else f"{first[: _MAX_TITLE_CHARS - 1].rstrip()}…"
    return f"#{channel}: {short}"


def make_thread_uri(channel: str, first: str) -> str:
    """Make the address of a thread: its channel and the id of its first message, which may begin with the channel."""
    return first if first.startswith(f"{channel}/") else f"{channel}/{first}"


def join_messages(
    messages: Sequence[Message], *, guessed: Set[str], awaits: Mapping[str, str] | None = None
) -> tuple[str, tuple[Section, ...]]:
    """Join the texts of messages; return the text and their sections."""
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
    """Make the id of the first chunk of a message."""
    return f"{message_id}_chunk_0"


def find_guessed_replies(document: Document) -> set[str]:
    """Find the ids of the messages in a thread's document whose `reply_to` was inferred."""
    return {section.id for section in document.sections if section.guessed}


def find_awaited_messages(document: Document) -> dict[str, str]:
    """Return the ids of missing parents by the ids of their replies in a thread's document."""
    return {section.id: section.awaits for section in document.sections if section.awaits is not None}


def is_thread(document: Document) -> bool:
    """Return whether the sections of a document are messages; programs may also add plain text with this kind."""
    return document.kind == THREAD_KIND and bool(document.sections) and all(section.id for section in document.sections)


def extract_messages(document: Document) -> list[Message]:
    """Extract the messages of a thread, in order."""
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
    """Return the text of the message in a section, without the separator."""
    return document.text[section.start : section.end].removesuffix(SEPARATOR)


def fill_in_message(message: Message, old: Message) -> Message:
    """Fill in a later version of a message: author, time, reply and access stay unless it states them."""
    return replace(
        message,
        author=message.author or old.author,
        at=message.at or old.at,
        reply_to=message.reply_to or old.reply_to,
        access=old.access if message.access is None else message.access,
    )


@dataclass(frozen=True, slots=True)
class ThreadPart:
    """Some messages of a stored thread, in order, as a Document of their own.

    `numbers` are their places in the thread: greater means later, and a deletion does not renumber the others. `first`
    and `last` are the numbers of the thread's first and last message. A parent outside the part is None. `revision`
    changes with every change of the thread.
    """

    document: Document
    numbers: tuple[int, ...]
    first: int
    last: int
    revision: int


@dataclass(frozen=True, slots=True)
class ThreadEdit:
    """The changes to one thread, for `Store.edit_threads`.

    `document` is a part of the thread after the edit, `numbers` the places of its messages. The messages at `positions`
    are new or changed and are written; the part must have their parents. `removed` are the numbers of messages to
    delete; a thread without messages is deleted. `chunks` are all chunks of the messages at `positions`, with spans in
    the text of the part. `revision` is that of the part that was read; 0 for a new thread. `is_append`: messages are
    only added at the end, so title and hash stay. The summary is deleted, since it describes the old text.
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
    """A stored reply whose parent is not stored, and its thread."""

    message: str
    doc_id: str


class ThreadEntry(NamedTuple):
    """A message of a thread as read from the store: its place, id, parent id and stored text."""

    place: int
    id: str
    parent: str | None
    text: str  # with the separator after it


FindEntries = Callable[[Literal["n", "message", "parent"], Collection[Any], int | None], Sequence[ThreadEntry]]
BLOCK_BITS = 7  # a thread counts its messages by blocks of 128 places …
RUN_BITS = 4  # … and reads them by runs of 16
RUN = 1 << RUN_BITS
MAX_AHEAD = 1 << BLOCK_BITS - RUN_BITS  # runs to read in one query on the way up a chain of replies
MAX_REPLIES = 128  # replies to a message that are examined


class ThreadView:
    """A lazily read thread.

    Each message has a place, a number that is greater for later messages. `places` has the place of each id that was
    read (of equal ids the last), and None for an id that is not in the thread.

    blocks: The blocks with messages, in order.
    find: Reads the messages with one of some values in a column, up to a limit.
    parse_section: Parses the rest of a message that was read, by its place.
    """

    def __init__(
        self,
        doc_id: str,
        title: str,
        meta: Meta,
        blocks: Sequence[int],
        find: FindEntries,
        parse_section: Callable[[int], Section],
    ) -> None:
        self.id, self.title, self.channel = doc_id, title, str(meta.get("channel", ""))
        self.places: dict[str, int | None] = {}
        self._blocks, self._find, self._parse_section = blocks, find, parse_section
        self._entries: dict[int, ThreadEntry] = {}
        self._parsed: dict[int, tuple[Message, bool]] = {}
        self._runs: dict[int, list[int]] = {}  # the places in each run that was read

    @property
    def bounds(self) -> tuple[int, int]:
        """The exclusive lower and upper bounds of all places."""
        return (self._blocks[0] << BLOCK_BITS) - 1, self._blocks[-1] + 1 << BLOCK_BITS

    def load(self, ids: Iterable[str | None]) -> None:
        """Read messages by id, in one query."""
        missing = {each for each in ids if each is not None and each not in self.places}
        self._keep(self._find("message", missing, None) if missing else ())
        for each in missing - self.places.keys():
            self.places[each] = None

    def load_parents(self, places: Iterable[int]) -> set[int]:
        """Read the parents of messages in one query; return their places."""
        answered = {self._entries[place].parent for place in places} - {None}
        self.load(answered)
        return {place for each in answered if (place := self.places[str(each)]) is not None}

    def load_replies(self, places: Iterable[int]) -> set[int]:
        """Read the replies to messages in one query; return their places."""
        return set(self._keep(self._find("parent", {self._entries[place].id for place in places}, None)))

    def load_near(self, places: Iterable[int]) -> None:
        """Read the messages near some places, in one query."""
        self._load_runs({place >> RUN_BITS for place in places})

    def _load_runs(self, runs: Iterable[int]) -> None:
        missing = [run for run in runs if run not in self._runs]
        self._runs.update((run, []) for run in missing)
        some = [run for run in missing if run >> BLOCK_BITS - RUN_BITS in self._blocks]
        numbers = [place for run in some for place in range(run << RUN_BITS, run + 1 << RUN_BITS)]
        for place in sorted(self._keep(self._find("n", numbers, None) if numbers else ())):
            self._runs[place >> RUN_BITS].append(place)

    def _keep(self, entries: Sequence[ThreadEntry]) -> list[int]:
        found = [entry for entry in entries if entry.place not in self._entries]
        self._entries.update((entry.place, entry) for entry in found)
        for entry in found:
            known = self.places.get(entry.id)
            self.places[entry.id] = entry.place if known is None else max(known, entry.place)
        return [entry.place for entry in entries]

    def message(self, place: int) -> Message:
        """Return the message at a place."""
        return self._parse(place)[0]

    def is_guessed(self, place: int) -> bool:
        """Return whether the parent of the message at a place was inferred."""
        return self._parse(place)[1]

    def _parse(self, place: int) -> tuple[Message, bool]:
        if place not in self._parsed:
            entry = self._entries[place]
            section, text = self._parse_section(place), entry.text.removesuffix(SEPARATOR)
            message = Message(
                text, section.author, section.at, section.id, self.channel, entry.parent, access=section.access
            )
            self._parsed[place] = message, section.guessed
        return self._parsed[place]

    def parent(self, place: int, *, ahead: int = 1) -> int | None:
        """Return the place of a message's parent; if it is unread, first read the `ahead` runs before the message."""
        answered = self._entries[place].parent
        if answered is None:
            return None
        if answered not in self.places:
            run = place >> RUN_BITS
            self._load_runs(range(run - ahead, run + 1))
            self.load([answered])
        return self.places[answered]

    def reply_chain(self, place: int) -> Iterator[int]:
        """Yield the places of a message's ancestors, the nearest first."""
        ahead, read = 1, len(self._runs)
        at = self.parent(place)
        while at is not None:
            yield at
            if len(self._runs) > read:  # read more at once as the chain gets longer
                ahead, read = min(2 * ahead, MAX_AHEAD), len(self._runs)
            at = self.parent(at, ahead=ahead)

    def is_in_marked_thread(self, place: int) -> bool:
        """Return whether the message at a place is, or has, a reply marked by an author, not inferred."""
        if self._entries[place].parent is not None and not self.is_guessed(place):
            return True
        replies = self._keep(self._find("parent", [self._entries[place].id], MAX_REPLIES))
        return any(not self.is_guessed(reply) for reply in replies)

    def step(self, place: int, by: Literal[-1, 1]) -> int | None:
        """Return the place of the next (1) or previous (-1) message; None at the end."""
        run: int | None = place >> RUN_BITS
        while run is not None:
            self._load_runs([run])
            own = self._runs[run]
            at = bisect_right(own, place) if by == 1 else bisect_left(own, place) - 1
            if 0 <= at < len(own):
                return own[at]
            run = self._find_next_run(run, by)
        return None

    def walk(self, place: int, by: Literal[-1, 1]) -> Iterator[int]:
        """Yield the places after (1) or before (-1) a place, the nearest first."""
        at = self.step(place, by)
        while at is not None:
            yield at
            at = self.step(at, by)

    def _find_next_run(self, run: int, by: int) -> int | None:
        shift = BLOCK_BITS - RUN_BITS
        block = run + by >> shift
        at = bisect_left(self._blocks, block) if by == 1 else bisect_right(self._blocks, block) - 1
        if not 0 <= at < len(self._blocks):
            return None
        if self._blocks[at] == block:
            return run + by
        return self._blocks[at] << shift if by == 1 else (self._blocks[at] + 1 << shift) - 1

    def is_whole(self, places: Collection[int]) -> bool:
        """Return whether these are the places of all messages of the thread."""
        return all(one == other for one, other in zip_longest(sorted(places), self.walk(self.bounds[0], 1)))


def view_document(document: Document) -> ThreadView:
    """Make a view of a thread that was already read whole."""
    ids = [section.id for section in document.sections]
    entries = [
        ThreadEntry(
            place,
            section.id,
            None if section.parent is None else ids[section.parent],
            document.text[section.start : section.end],
        )
        for place, section in enumerate(document.sections)
    ]

    def find(
        column: Literal["n", "message", "parent"], values: Collection[Any], limit: int | None
    ) -> list[ThreadEntry]:
        at, wanted = {"n": 0, "message": 1, "parent": 2}[column], frozenset(values)
        return [entry for entry in entries if entry[at] in wanted][:limit]

    blocks = range((len(entries) - 1 >> BLOCK_BITS) + 1)
    return ThreadView(document.id, document.title, document.meta, blocks, find, document.sections.__getitem__)
