"""Drafts: the changes of a stored thread, and the edit that writes them.

A draft holds the messages around a change, not the whole thread. The edit also writes messages whose embedded context
includes a changed message: its replies and the few messages that follow it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clew.core.errors import ConcurrentChange
from clew.core.protocols import WritableStore
from clew.core.thread import (
    Thread,
    ThreadEdit,
    ThreadPart,
    extract_messages,
    find_awaited_messages,
    find_guessed_replies,
    get_message_text,
    join_messages,
    make_thread_title,
    make_thread_uri,
)
from clew.core.types import Chunk, Document, Message, Vector
from clew.index.chunk.build import count_chunk_terms

ChunkMessages = Callable[[Document, Sequence[int]], list[Chunk]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of a draft, with its number in the thread. Its `reply_to` is in this thread."""

    number: int
    message: Message
    guessed: bool = False
    awaits: str | None = None


@dataclass(slots=True)
class Draft:
    """A thread being changed: the loaded part (None for a new thread), and its messages after the change, by id."""

    doc_id: str
    channel: str
    part: ThreadPart | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    removed: list[int] = field(default_factory=list)
    last: int = -1  # the greatest message number
    is_whole: bool = False  # whether the part has all messages of the stored thread
    name: str = ""  # of a new thread; default: the id of its first message

    def load(self, store: WritableStore, ids: Iterable[str], *, reach: int) -> None:
        """Load the part around these messages; raise ConcurrentChange if the thread changed since the last load."""
        assert not self.touched
        part = self._read_part(store, ids, reach)
        self.part, self.last, self.entries = part, part.last, _list_entries(part)

    def load_rest(self, store: WritableStore, *, reach: int) -> None:
        """Load all other messages of the thread, keeping the changes so far."""
        if self.part is None or self.is_whole:
            return
        ids = [section.id for section in store.document(self.doc_id).sections]
        part = self._read_part(store, ids, reach)
        for message_id, entry in _list_entries(part).items():
            if message_id not in self.touched and entry.number not in self.removed:
                self.entries[message_id] = entry
        self.part, self.is_whole = part, True

    def _read_part(self, store: WritableStore, ids: Iterable[str], reach: int) -> ThreadPart:
        part = store.thread_part(self.doc_id, list(ids), reach=reach)
        if self.part is not None and part.revision != self.part.revision:
            raise ConcurrentChange(f"the thread {self.doc_id!r} changed while it was read; try again")
        return part

    def append(self, message: Message, *, guessed: bool = False, awaits: str | None = None) -> None:
        """Add a message at the end."""
        self.put(Entry(self.last + 1, message, guessed, awaits))

    def prepend(self, message: Message, *, awaits: str | None = None) -> None:
        """Add a message at the beginning."""
        first = min((entry.number for entry in self.entries.values()), default=0)
        self.put(Entry(min(first, self.part.first if self.part else 0) - 1, message, awaits=awaits))

    def put(self, entry: Entry) -> None:
        """Add or replace a message."""
        self.last = max(self.last, entry.number)
        self.entries[entry.message.id] = entry
        self.touched.add(entry.message.id)

    def take(self, message_id: str) -> Entry:
        """Remove and return a message, with the thread's access labels if it has none. Its replies stay."""
        entry = self.entries.pop(message_id)
        self.touched.discard(message_id)
        if self.part is None:  # a new thread: nothing is stored
            return entry
        self.removed.append(entry.number)
        access = self.part.document.access if entry.message.access is None else entry.message.access
        return replace(entry, message=replace(entry.message, access=access))

    def drop(self, ids: Iterable[str]) -> int:
        """Remove messages, making their replies replies to their parents; return how many were removed.

        Replies to a message that waits for its parent wait for that parent too.
        """
        gone = {message_id: self.entries[message_id] for message_id in ids if message_id in self.entries}
        for message_id in gone:
            self.take(message_id)
        for entry in list(self.entries.values()):
            parent, guessed, awaits = entry.message.reply_to, entry.guessed, entry.awaits
            while parent in gone:
                above = gone[parent]
                awaits = awaits if guessed else above.awaits
                parent, guessed = above.message.reply_to, guessed or above.guessed
            if parent != entry.message.reply_to:
                message = replace(entry.message, reply_to=parent)
                self.put(replace(entry, message=message, guessed=guessed and parent is not None, awaits=awaits))
        return len(gone)

    def find_subtree(self, message_id: str) -> list[str]:
        """List a message and its direct and indirect replies, in order, without replies that wait for a parent."""
        found = {message_id}
        ordered = sorted(self.entries.values(), key=lambda entry: entry.number)
        size = 0
        while size != len(found):
            size = len(found)
            found |= {entry.message.id for entry in ordered if entry.awaits is None and entry.message.reply_to in found}
        return [entry.message.id for entry in ordered if entry.message.id in found]

    @property
    def is_append(self) -> bool:
        """Whether the only change is messages added at the end."""
        end = self.part.last if self.part else -1
        return not self.removed and all(self.entries[each].number > end for each in self.touched)

    def build_document(self) -> Document:
        """Build the document of the part after the change."""
        ordered = sorted(self.entries.values(), key=lambda entry: entry.number)
        messages = [entry.message for entry in ordered]
        guessed = {entry.message.id for entry in ordered if entry.guessed}
        awaits = {entry.message.id: entry.awaits for entry in ordered if entry.awaits is not None}
        if self.part is None:
            thread = Thread(self.name or messages[0].id, self.channel, tuple(messages), guessed=guessed, awaits=awaits)
            return replace(thread.document(), id=self.doc_id)
        text, sections = join_messages(messages, guessed=guessed, awaits=awaits)
        document = self.part.document
        first, title, uri = document.sections[0], document.title, document.uri
        if messages and title == make_thread_title(self.channel, get_message_text(document, first)):
            title = make_thread_title(self.channel, messages[0].text)
        is_secret_gone = first.access is not None and first.id not in self.entries  # hide even its id from others
        if messages and is_secret_gone and uri == make_thread_uri(self.channel, first.id):
            uri = make_thread_uri(self.channel, messages[0].id)
        made = replace(document, text=text, sections=sections, title=title, uri=uri)
        return replace(made, summary="", summary_by="", hash="")

    def find_affected_positions(self, document: Document, *, reach: int) -> list[int]:
        """Find the changed messages, their replies, and the messages after a change or removal."""
        ids = [section.id for section in document.sections]
        numbers = [self.entries[each].number for each in ids]
        before = {m.id: (m.text, m.access) for m in extract_messages(self.part.document)} if self.part else {}
        changed = [*self.removed]  # and messages with another text or access, not just another parent
        for entry in self.entries.values():
            if before.get(entry.message.id) != (entry.message.text, entry.message.access):
                changed.append(entry.number)
        affected = {position for position, each in enumerate(ids) if each in self.touched}
        for number in changed:
            start = bisect_right(numbers, number)
            affected.update(range(start, min(start + 2 * reach, len(numbers))))
        level = {ids[position] for position in affected if ids[position] in self.touched}
        for _ in range(reach):
            level = {each for each in ids if self.entries[each].message.reply_to in level}
            affected |= {position for position, each in enumerate(ids) if each in level}
        return sorted(affected)


def _list_entries(part: ThreadPart) -> dict[str, Entry]:
    guessed, awaits = find_guessed_replies(part.document), find_awaited_messages(part.document)
    return {
        message.id: Entry(number, message, message.id in guessed, awaits.get(message.id))
        for number, message in zip(part.numbers, extract_messages(part.document), strict=True)
    }


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """A draft with its chunks; `reused` are the stored vectors of unchanged chunks, by id."""

    draft: Draft
    document: Document
    positions: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    reused: Mapping[str, Vector]

    def list_new_texts(self) -> dict[str, str]:
        """List the texts to embed, each with the id of its message."""
        return {chunk.embed_text: str(chunk.meta["message"]) for chunk in self.chunks if chunk.id not in self.reused}

    def build_edit(self, vectors: Mapping[str, Vector], *, dim: int, language: str) -> ThreadEdit:
        """Build the edit of the thread, with the vectors of new texts."""
        draft, part = self.draft, self.draft.part
        rows = [self.reused[c.id] if c.id in self.reused else vectors[c.embed_text] for c in self.chunks]
        return ThreadEdit(
            self.document,
            tuple(draft.entries[section.id].number for section in self.document.sections),
            self.positions,
            self.chunks,
            np.stack(rows) if rows else np.empty((0, dim), np.float32),
            tuple(count_chunk_terms(chunk, language=language) for chunk in self.chunks),
            removed=tuple(draft.removed),
            revision=part.revision if part else 0,
            is_append=draft.is_append,
        )


def plan_edit(draft: Draft, *, store: WritableStore, chunk: ChunkMessages, reach: int) -> PlannedEdit:
    """Plan the edit of a draft: the messages to write, and the stored vectors to reuse."""
    document = draft.build_document()
    positions = draft.find_affected_positions(document, reach=reach)
    chunks = chunk(document, positions)
    stored = store.chunks_by_id([each.id for each in chunks])
    same = {each.id for each in chunks if each.id in stored and stored[each.id].embed_text == each.embed_text}
    of_message: dict[str, bool] = {}
    for each in chunks:
        message = str(each.meta["message"])
        old = stored.get(each.id)
        is_same = old is not None and (old.text, old.context, old.meta) == (each.text, each.context, each.meta)
        of_message[message] = of_message.get(message, True) and is_same
    ids = [section.id for section in document.sections]
    written = [at for at in positions if ids[at] in draft.touched or not of_message.get(ids[at], True)]
    names = {ids[at] for at in written}
    kept = tuple(each for each in chunks if each.meta["message"] in names)
    return PlannedEdit(draft, document, tuple(written), kept, store.vectors([c.id for c in kept if c.id in same]))
