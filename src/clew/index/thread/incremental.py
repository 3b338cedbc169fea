"""Incremental threading: each new message joins its thread, costs one embedding, and changes no other.

A message that is stored already is skipped; an edited one replaces itself and keeps its parent. Messages given together
are sorted as they were sent. One that cannot be embedded or stored, or has the id of a message of another channel, is
reported, and the rest is stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed
from clew.core.protocols import Embedder, Store
from clew.core.report import Report, SourceFailure
from clew.core.settings import Settings, ThreadConfig
from clew.core.thread import Thread, extract_messages, get_message_text, join_messages, make_first_chunk_id
from clew.core.types import Chunk, Document, Filter, Message, Vector
from clew.index.chunk.messages import chunk_messages
from clew.index.chunk.terms import count_chunk_terms
from clew.index.thread.threads import (
    check_messages,
    explain_id_clash,
    find_reply_parents,
    replace_thread_messages,
    sort_messages_as_sent,
)

RECENT_CHUNKS = 100  # the latest chunks of a channel, among which parents are looked for
BATCH_TEXTS = 100  # texts embedded together
MAX_ATTEMPTS = 20  # to write a thread that others write to at the same time


@dataclass(slots=True)
class _ThreadUpdate:
    """A thread that gets messages: its stored document, None for a new one, and what is new in it."""

    document: Document | None
    channel: str
    messages: list[Message] = field(default_factory=list)  # the new ones
    guessed: set[str] = field(default_factory=set)  # new ones whose parent was inferred
    edited: dict[str, Message] = field(default_factory=dict)


def add_messages(messages: Iterable[Message], *, store: Store, embedder: Embedder, settings: Settings) -> Report:
    """Adds new and edited messages to their threads; the report says which were added, edited or failed."""
    started = monotonic()
    everything = list(messages)
    check_messages(everything)
    latest = {(message.channel, message.id): message for message in everything}  # the last of two versions
    given, unencodable = _split_encodable([message for message in latest.values() if message.text.strip()])
    stored = store.chunks_by_id([make_first_chunk_id(message.id) for message in given])
    given, clashing = _split_id_clashes(given, stored)
    refused = [*unencodable, *clashing]
    added = [message for message in given if make_first_chunk_id(message.id) not in stored]
    changed = [message for message in given if _is_edited(message, stored, store)]
    writer = _ThreadWriter(store, embedder, settings)
    updates = _plan_thread_updates(added, changed, stored, store, settings.threads)
    vectors, failed = writer.embed_new_texts(updates)
    newly_failed = failed
    while newly_failed:  # the messages after a failed one must be embedded without it as context
        added = [message for message in added if message.id not in newly_failed]
        changed = [message for message in changed if message.id not in newly_failed]
        updates = _plan_thread_updates(added, changed, stored, store, settings.threads)
        more, newly_failed = writer.embed_new_texts(updates, known=vectors)
        vectors, failed = {**vectors, **more}, {**failed, **newly_failed}
    return Report(
        added=tuple(message.id for message in added),
        changed=tuple(message.id for message in changed),
        skipped=len(latest) - len(added) - len(changed) - len(failed) - len(refused),
        failed=(*refused, *(SourceFailure(message_id, reason) for message_id, reason in failed.items())),
        chunks=sum(writer.write_update(update, vectors) for update in updates),
        embedded=len(vectors),
        seconds=monotonic() - started,
    )


def _split_encodable(messages: Sequence[Message]) -> tuple[list[Message], list[SourceFailure]]:
    """The messages that can be encoded as UTF-8, and failures for those with an unpaired surrogate."""
    encodable: list[Message] = []
    failures: list[SourceFailure] = []
    for message in messages:
        try:
            f"{message.text}{message.author}{message.channel}{message.id}".encode()
        except UnicodeEncodeError:
            name = message.id.encode(errors="replace").decode()
            failures.append(SourceFailure(name, 'it has an unpaired surrogate; decode it with errors="replace"'))
        else:
            encodable.append(message)
    return encodable, failures


def _split_id_clashes(
    messages: Sequence[Message], stored: Mapping[str, Chunk]
) -> tuple[list[Message], list[SourceFailure]]:
    """The messages with an id of their own, and failures for those whose id a message of another channel has."""
    homes = {str(chunk.meta.get("message", "")): str(chunk.meta.get("channel", "")) for chunk in stored.values()}
    unique: list[Message] = []
    failures: list[SourceFailure] = []
    for message in messages:
        home = homes.setdefault(message.id, message.channel)
        if home == message.channel:
            unique.append(message)
        else:
            failures.append(SourceFailure(message.id, explain_id_clash(message.id, home=home, channel=message.channel)))
    return unique, failures


def _plan_thread_updates(
    added: Sequence[Message],
    changed: Sequence[Message],
    stored: Mapping[str, Chunk],
    store: Store,
    config: ThreadConfig,
) -> list[_ThreadUpdate]:
    """The threads that the messages belong to, each with what is new in it."""
    by_message: dict[str, _ThreadUpdate] = {}  # the update of the thread that a message is in
    updates: list[_ThreadUpdate] = []

    def open_thread(doc_id: str) -> _ThreadUpdate:
        document = store.document(doc_id)
        update = _ThreadUpdate(document, str(document.meta.get("channel", "")))
        updates.append(update)
        by_message.update((section.id, update) for section in document.sections)
        return update

    for message in changed:
        update = by_message.get(message.id) or open_thread(stored[make_first_chunk_id(message.id)].doc_id)
        update.edited[message.id] = message
    for channel in dict.fromkeys(message.channel for message in added):
        new = sort_messages_as_sent(message for message in added if message.channel == channel)
        before = _load_recent_messages(channel, new, store)
        parents = find_reply_parents(new, config=config, before=[message for message, _ in before])
        doc_ids = {message.id: doc_id for message, doc_id in before}
        for message, parent in zip(new, parents, strict=True):
            if parent is None:
                update = _ThreadUpdate(None, channel)
                updates.append(update)
            else:
                update = by_message.get(parent.id) or open_thread(doc_ids[parent.id])
            reply_to = parent.id if parent else None
            if reply_to != message.reply_to:
                update.guessed.add(message.id)
            update.messages.append(replace(message, reply_to=reply_to))
            by_message[message.id] = update
    return updates


def _load_recent_messages(channel: str, new: Sequence[Message], store: Store) -> list[tuple[Message, str]]:
    """The latest messages of a channel and the stated parents, sorted as they were sent, with their document ids.

    The store returns them in the order of writing: an edited one last, those of an export thread by thread.
    """
    parent_ids = [make_first_chunk_id(message.reply_to) for message in new if message.reply_to]
    parents = store.chunks_by_id(parent_ids) if parent_ids else {}
    doc_ids: dict[str, str] = {}
    found: list[Message] = []
    for chunk in (*parents.values(), *store.latest_chunks(channel, RECENT_CHUNKS)):
        message = _chunk_to_message(chunk)
        if message.channel == channel and chunk.id == make_first_chunk_id(message.id) and message.id not in doc_ids:
            doc_ids[message.id] = chunk.doc_id
            found.append(message)
    return [(message, doc_ids[message.id]) for message in sort_messages_as_sent(found)]


@dataclass(frozen=True, slots=True)
class _ThreadWriter:
    """Embeds and stores what is new in threads."""

    store: Store
    embedder: Embedder
    settings: Settings

    def embed_new_texts(
        self, updates: Sequence[_ThreadUpdate], *, known: Mapping[str, Vector] | None = None
    ) -> tuple[dict[str, Vector], dict[str, str]]:
        """The vectors of new texts that are not in `known`, by text, and the reasons of failures, by message id."""
        texts: dict[str, str] = {}  # the message id of each text
        for update in updates:
            chunks = self._chunk_messages(*self._build_updated_thread(update))
            same = self._find_unchanged_chunks(update, chunks)
            texts.update((chunk.embed_text, str(chunk.meta["message"])) for chunk in chunks if chunk.id not in same)
        vectors: dict[str, Vector] = {}
        failed: dict[str, str] = {}
        wanted = [text for text in texts if text not in (known or {})]
        for at in range(0, len(wanted), BATCH_TEXTS):
            batch = wanted[at : at + BATCH_TEXTS]
            try:
                vectors.update(zip(batch, self.embedder.embed(batch, role="passage"), strict=True))
            except DriverFailed:
                for text in batch:  # one bad text must not fail the others
                    try:
                        vectors[text] = self.embedder.embed([text], role="passage")[0]
                    except DriverFailed as error:
                        failed[texts[text]] = str(error)
        return vectors, failed

    def write_update(self, update: _ThreadUpdate, vectors: Mapping[str, Vector]) -> int:
        """Writes the update and returns how many chunks; a thread that others changed meanwhile is loaded again."""
        known = dict(vectors)
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._write_once(update, known)
            except ConcurrentChange as error:
                conflict = error
                self._reload_thread(update)
                if not update.messages and not update.edited:
                    return 0
                more, failed = self.embed_new_texts([update], known=known)
                if failed:
                    raise DriverFailed(next(iter(failed.values()))) from error
                known |= more
        raise conflict

    def _reload_thread(self, update: _ThreadUpdate) -> None:
        """Loads the thread again; messages that others have added are no longer new, deleted ones no longer edited."""
        update.document = self.store.document(self._build_updated_thread(update)[0].id)
        there = {section.id for section in update.document.sections}
        update.messages = [message for message in update.messages if message.id not in there]
        update.edited = {name: message for name, message in update.edited.items() if name in there}

    def _write_once(self, update: _ThreadUpdate, vectors: Mapping[str, Vector]) -> int:
        """Puts the thread if it is new or was edited, else appends to it; returns how many chunks were written."""
        document, positions = self._build_updated_thread(update)
        chunks = self._chunk_messages(document, positions)
        known = self.store.vectors(list(self._find_unchanged_chunks(update, chunks)))
        rows = [known[chunk.id] if chunk.id in known else vectors[chunk.embed_text] for chunk in chunks]
        matrix = np.stack(rows) if rows else np.empty((0, self.embedder.dim), np.float32)
        terms = [count_chunk_terms(chunk, language=self.settings.ingestion.language) for chunk in chunks]
        old = update.document
        if old is None or update.edited:
            self.store.put(document, chunks, matrix, terms, expected_text=old.text if old else "")
        else:
            record = next(self.store.documents(Filter(documents=frozenset({document.id}))))
            later = [replace(chunk, index=record.chunks + chunk.index) for chunk in chunks]
            sections = document.sections[len(old.sections) :]
            self.store.append(document.id, document.text[len(old.text) :], sections, later, matrix, terms)
        return len(chunks)

    def _find_unchanged_chunks(self, update: _ThreadUpdate, chunks: Sequence[Chunk]) -> set[str]:
        """The ids of chunks whose stored vector is still right after an edit: their embed_text is the same."""
        stored = self.store.chunks_by_id([chunk.id for chunk in chunks]) if update.edited else {}
        return {c.id for c in chunks if c.id in stored and stored[c.id].embed_text == c.embed_text}

    def _build_updated_thread(self, update: _ThreadUpdate) -> tuple[Document, range]:
        """The thread with what is new in it, and the positions of the messages that must be written."""
        old = update.document
        if old is None:
            first = update.messages[0]
            document = Thread(first.id, update.channel, tuple(update.messages), guessed=update.guessed).document()
            return document, range(len(document.sections))
        now = (
            replace_thread_messages(old, [_apply_edit(message, update) for message in extract_messages(old)])
            if update.edited
            else old
        )
        more, new = join_messages(update.messages, guessed=update.guessed, after=now)
        grown = replace(now, text=now.text + more, sections=(*now.sections, *new), hash="")
        return grown, range(0 if update.edited else len(now.sections), len(grown.sections))

    def _chunk_messages(self, document: Document, positions: Sequence[int]) -> list[Chunk]:
        ingestion, threads = self.settings.ingestion, self.settings.threads
        return chunk_messages(document, positions, config=ingestion, threads=threads, count=self.embedder.count)


def _apply_edit(message: Message, update: _ThreadUpdate) -> Message:
    """A stored message with its edit applied, if it has one: an edit keeps the parent.

    It also keeps the author and the time where the edit does not give them.
    """
    edit = update.edited.get(message.id, message)
    return replace(edit, author=edit.author or message.author, at=edit.at or message.at, reply_to=message.reply_to)


def _chunk_to_message(chunk: Chunk) -> Message:
    """The message that a first chunk belongs to."""
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
    chunk = stored.get(make_first_chunk_id(message.id))
    if chunk is None:
        return False
    if chunk.meta.get("total_chunks", 1) == 1:
        return chunk.text.strip() != message.text.strip()
    document = store.document(chunk.doc_id)
    section = next(section for section in document.sections if section.id == message.id)
    return get_message_text(document, section) != message.text
