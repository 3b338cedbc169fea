"""Messages as they are written: each joins its thread, costs one embedding, and changes no other.

A message that was added before is skipped, one that was edited since replaces itself and answers what it did. Those
that come together are taken as they were sent. What cannot be embedded or stored, or has the id of a message of another
channel, is reported, and the rest is stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed
from clew.core.protocols import Embedder, Store
from clew.core.report import Failure, Report
from clew.core.settings import Settings, ThreadConfig
from clew.core.text import terms
from clew.core.thread import Thread, first_chunk, message_text, messages_in, written
from clew.core.types import Chunk, Document, Filter, Message, Vector
from clew.index.chunk.messages import chunks_of
from clew.index.thread.threads import as_sent, check_messages, linked, rewritten, same_id

RECENT = 100  # chunks of a channel among which an answered message is looked for
BATCH = 100  # texts that are embedded together
TRIES = 20  # how often a thread is read again that others write to at the same time


@dataclass(slots=True)
class _Growth:
    """A thread that gets messages: the document as it is, None for a new one, and what is new in it."""

    document: Document | None
    channel: str
    messages: list[Message] = field(default_factory=list)  # those that are new
    guessed: set[str] = field(default_factory=set)  # of the new ones, those that do not say what they answer
    edited: dict[str, Message] = field(default_factory=dict)


def add_messages(messages: Iterable[Message], *, store: Store, embedder: Embedder, settings: Settings) -> Report:
    """Which messages were added, which replaced themselves, and which failed; the others were there."""
    started = monotonic()
    everything = list(messages)
    check_messages(everything)
    latest = {(message.channel, message.id): message for message in everything}  # of two versions the last
    given = [message for message in latest.values() if message.text.strip()]
    given, broken = _spelled(given)
    stored = store.chunks_by_id([first_chunk(message.id) for message in given])
    given, taken = _told_apart(given, stored)
    taken = [*broken, *taken]
    added = [message for message in given if first_chunk(message.id) not in stored]
    changed = [message for message in given if _is_edited(message, stored, store)]
    writer = _Writer(store, embedder, settings)
    growths = _grown(added, changed, stored, store, settings.threads)
    vectors, failed = writer.embedded(growths)
    lost = failed
    while lost:  # what follows a message that is left out does not say it before itself
        added = [message for message in added if message.id not in lost]
        changed = [message for message in changed if message.id not in lost]
        growths = _grown(added, changed, stored, store, settings.threads)
        more, lost = writer.embedded(growths, known=vectors)
        vectors, failed = {**vectors, **more}, {**failed, **lost}
    return Report(
        added=tuple(message.id for message in added),
        changed=tuple(message.id for message in changed),
        skipped=len(latest) - len(added) - len(changed) - len(failed) - len(taken),
        failed=(*taken, *(Failure(name, reason) for name, reason in failed.items())),
        chunks=sum(writer.write(growth, vectors) for growth in growths),
        embedded=len(vectors),
        seconds=monotonic() - started,
    )


def _spelled(messages: Sequence[Message]) -> tuple[list[Message], list[Failure]]:
    """The messages that can be stored, and those that hold half of a character pair."""
    whole: list[Message] = []
    broken: list[Failure] = []
    for message in messages:
        try:
            f"{message.text}{message.author}{message.channel}{message.id}".encode()
        except UnicodeEncodeError:
            name = message.id.encode(errors="replace").decode()
            broken.append(Failure(name, 'it holds half of a character pair; decode it with errors="replace"'))
        else:
            whole.append(message)
    return whole, broken


def _told_apart(messages: Sequence[Message], stored: Mapping[str, Chunk]) -> tuple[list[Message], list[Failure]]:
    """The messages that have an id of their own, and those whose id is that of a message of another channel."""
    homes = {str(chunk.meta.get("message", "")): str(chunk.meta.get("channel", "")) for chunk in stored.values()}
    own: list[Message] = []
    taken: list[Failure] = []
    for message in messages:
        home = homes.setdefault(message.id, message.channel)
        if home == message.channel:
            own.append(message)
        else:
            taken.append(Failure(message.id, same_id(message.id, home=home, channel=message.channel)))
    return own, taken


def _grown(
    added: Sequence[Message],
    changed: Sequence[Message],
    stored: Mapping[str, Chunk],
    store: Store,
    config: ThreadConfig,
) -> list[_Growth]:
    """The threads that the messages go to, each with what is new in it."""
    homes: dict[str, _Growth] = {}  # by the id of a message that is in it
    growths: list[_Growth] = []

    def home(doc_id: str) -> _Growth:
        document = store.document(doc_id)
        growth = _Growth(document, str(document.meta.get("channel", "")))
        growths.append(growth)
        homes.update((section.id, growth) for section in document.sections)
        return growth

    for message in changed:
        growth = homes.get(message.id) or home(stored[first_chunk(message.id)].doc_id)
        growth.edited[message.id] = message
    for channel in dict.fromkeys(message.channel for message in added):
        new = as_sent(message for message in added if message.channel == channel)
        before = _recent(channel, new, store)
        answered = linked(new, config=config, before=[each[0] for each in before])
        places = {message.id: doc_id for message, doc_id in before}
        for message, parent in zip(new, answered, strict=True):
            if parent is None:
                growth = _Growth(None, channel)
                growths.append(growth)
            else:
                growth = homes.get(parent.id) or home(places[parent.id])
            reply = parent.id if parent else None
            if reply != message.reply_to:
                growth.guessed.add(message.id)
            growth.messages.append(replace(message, reply_to=reply))
            homes[message.id] = growth
    return growths


def _recent(channel: str, new: Sequence[Message], store: Store) -> list[tuple[Message, str]]:
    """The last messages of a channel and those that are answered by name, as they were sent, each with its document.

    The store has them as they were written: an edited one last, and those of an export thread by thread.
    """
    answers = [first_chunk(message.reply_to) for message in new if message.reply_to]
    named = store.chunks_by_id(answers) if answers else {}
    homes: dict[str, str] = {}
    found: list[Message] = []
    for chunk in (*named.values(), *store.latest_chunks(channel, RECENT)):
        message = _message(chunk)
        if message.channel == channel and chunk.id == first_chunk(message.id) and message.id not in homes:
            homes[message.id] = chunk.doc_id
            found.append(message)
    return [(message, homes[message.id]) for message in as_sent(found)]


@dataclass(frozen=True, slots=True)
class _Writer:
    store: Store
    embedder: Embedder
    settings: Settings

    def embedded(
        self, growths: Sequence[_Growth], *, known: Mapping[str, Vector] | None = None
    ) -> tuple[dict[str, Vector], dict[str, str]]:
        """The vectors of what is new and not known yet, by what is embedded, and why there is none, by message."""
        texts: dict[str, str] = {}  # what is embedded, and the message that it belongs to
        for growth in growths:
            chunks = self._chunks(*self._document(growth))
            same = self._unchanged(growth, chunks)
            texts.update((chunk.embed_text, str(chunk.meta["message"])) for chunk in chunks if chunk.id not in same)
        vectors: dict[str, Vector] = {}
        failed: dict[str, str] = {}
        wanted = [text for text in texts if text not in (known or {})]
        for at in range(0, len(wanted), BATCH):
            few = wanted[at : at + BATCH]
            try:
                vectors.update(zip(few, self.embedder.embed(few, role="passage"), strict=True))
            except DriverFailed:
                for text in few:  # one bad text must not keep the others out
                    try:
                        vectors[text] = self.embedder.embed([text], role="passage")[0]
                    except DriverFailed as error:
                        failed[texts[text]] = str(error)
        return vectors, failed

    def write(self, growth: _Growth, vectors: Mapping[str, Vector]) -> int:
        """How many chunks were written; a thread that others have made longer meanwhile is read again."""
        known = dict(vectors)
        for _ in range(TRIES):
            try:
                return self._written(growth, known)
            except ConcurrentChange as error:
                changed = error
                self._reread(growth)
                if not growth.messages and not growth.edited:
                    return 0
                more, failed = self.embedded([growth], known=known)
                if failed:
                    raise DriverFailed(next(iter(failed.values()))) from error
                known |= more
        raise changed

    def _reread(self, growth: _Growth) -> None:
        """Brings a thread up to date; what another has added of it is no longer new, nor edited what is gone."""
        growth.document = self.store.document(self._document(growth)[0].id)
        there = {section.id for section in growth.document.sections}
        growth.messages = [message for message in growth.messages if message.id not in there]
        growth.edited = {name: message for name, message in growth.edited.items() if name in there}

    def _written(self, growth: _Growth, vectors: Mapping[str, Vector]) -> int:
        """How many chunks were written: the thread is put if it is new or was edited, else it grows at its end."""
        document, positions = self._document(growth)
        chunks = self._chunks(document, positions)
        known = self.store.vectors(list(self._unchanged(growth, chunks)))
        rows = [known[chunk.id] if chunk.id in known else vectors[chunk.embed_text] for chunk in chunks]
        matrix = np.stack(rows) if rows else np.empty((0, self.embedder.dim), np.float32)
        words = [terms(chunk.embed_text, language=self.settings.ingestion.language) for chunk in chunks]
        old = growth.document
        if old is None or growth.edited:
            self.store.put(document, chunks, matrix, words, instead_of=old.text if old else "")
        else:
            record = next(self.store.documents(Filter(documents=frozenset({document.id}))))
            later = [replace(chunk, index=record.chunks + chunk.index) for chunk in chunks]
            sections = document.sections[len(old.sections) :]
            self.store.append(document.id, document.text[len(old.text) :], sections, later, matrix, words)
        return len(chunks)

    def _unchanged(self, growth: _Growth, chunks: Sequence[Chunk]) -> set[str]:
        """The chunks that are stored as they are; after an edit those before it, and those that do not say it."""
        stored = self.store.chunks_by_id([chunk.id for chunk in chunks]) if growth.edited else {}
        return {c.id for c in chunks if c.id in stored and stored[c.id].embed_text == c.embed_text}

    def _document(self, growth: _Growth) -> tuple[Document, range]:
        """The thread with what is new in it, and the positions of the messages that are to be written."""
        old = growth.document
        if old is None:
            first = growth.messages[0]
            document = Thread(first.id, growth.channel, tuple(growth.messages), guessed=growth.guessed).document()
            return document, range(len(document.sections))
        now = rewritten(old, [_edited(message, growth) for message in messages_in(old)]) if growth.edited else old
        more, new = written(growth.messages, guessed=growth.guessed, after=now)
        grown = replace(now, text=now.text + more, sections=(*now.sections, *new), hash="")
        return grown, range(0 if growth.edited else len(now.sections), len(grown.sections))

    def _chunks(self, document: Document, positions: Sequence[int]) -> list[Chunk]:
        ingestion, threads = self.settings.ingestion, self.settings.threads
        return chunks_of(document, positions, config=ingestion, threads=threads, count=self.embedder.count)


def _edited(message: Message, growth: _Growth) -> Message:
    """A message of a thread as it is now: an edit changes what it says, not what it answers.

    Whoever hears of an edit need not hear again who wrote the message and when.
    """
    edit = growth.edited.get(message.id, message)
    return replace(edit, author=edit.author or message.author, at=edit.at or message.at, reply_to=message.reply_to)


def _message(chunk: Chunk) -> Message:
    """The message that a chunk begins."""
    meta = chunk.meta
    return Message(
        chunk.text,
        author=str(meta.get("author", "")),
        at=chunk.at,
        id=str(meta.get("message", "")),
        channel=str(meta.get("channel", "")),
        reply_to=meta.get("reply_to"),
    )


def _is_edited(message: Message, stored: Mapping[str, Chunk], store: Store) -> bool:
    """Whether a message is stored with another text."""
    chunk = stored.get(first_chunk(message.id))
    if chunk is None:
        return False
    if chunk.meta.get("total_chunks", 1) == 1:
        return chunk.text.strip() != message.text.strip()
    document = store.document(chunk.doc_id)
    section = next(section for section in document.sections if section.id == message.id)
    return message_text(document, section) != message.text
