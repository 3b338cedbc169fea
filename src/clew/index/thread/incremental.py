"""Incremental threading: each new message joins its thread, costs one embedding, and changes no other.

A message that is stored already is skipped; an edited or corrected one replaces itself. One that answers a message that
has not come yet waits for it, and joins it when it comes. Messages given together are sorted as they were sent. One
that cannot be stored, or has the id of a message of another channel, is reported, and the rest is stored. One that
cannot be embedded is stored with its words, and its vector is pending.

Others may write to the same threads: an edit is written only if its threads are as they were read, else it is planned
again from the stored ones.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed, NotFound
from clew.core.protocols import Embedder, WritableStore
from clew.core.report import Report, SourceFailure
from clew.core.settings import Settings
from clew.core.stored import SLICE
from clew.core.thread import fill_in_message, make_first_chunk_id
from clew.core.types import Chunk, Document, Message, Vector
from clew.index.add.embed import embed_texts
from clew.index.chunk.messages import chunk_messages
from clew.index.thread.draft import Draft, PlannedEdit, plan_edit
from clew.index.thread.plan import ThreadPlanner
from clew.index.thread.threads import check_messages, explain_id_clash

MAX_ATTEMPTS = 200  # to write a thread that others write to at the same time; each fails because another succeeded
MAX_FAILURES = 3  # texts in a row that the model may fail at
MAX_PAUSE = 0.05  # seconds between two attempts, at most


@dataclass(slots=True)
class _Outcome:
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    chunks: int = 0


def add_messages(
    messages: Iterable[Message], *, store: WritableStore, embedder: Embedder, settings: Settings
) -> Report:
    """Add new and changed messages to their threads; the report says which were added, changed or failed."""
    started = monotonic()
    everything = list(messages)
    check_messages(everything)
    latest: dict[tuple[str, str], Message] = {}  # the last of two versions, with what only the first one states
    for message in everything:
        key = (message.channel, message.id)
        latest[key] = fill_in_message(message, latest[key]) if key in latest else message
    given, unencodable = _split_encodable([message for message in latest.values() if message.text.strip()])
    stored = _find_stored(given, store)
    given, clashing = _split_id_clashes(given, stored)
    writer = ThreadWriter(store, embedder, settings)
    outcome = writer.write_messages(given, stored)
    refused = [*unencodable, *clashing]
    done = len(outcome.added) + len(outcome.changed) + len(refused)
    return Report(
        added=tuple(outcome.added),
        changed=tuple(outcome.changed),
        skipped=len(latest) - done,
        failed=tuple(refused),
        noted=tuple(
            SourceFailure(message_id, f"words alone find it, until `clew backfill` makes its vector: {reason}")
            for message_id, reason in writer.failed.items()
        ),
        chunks=outcome.chunks,
        embedded=len(writer.vectors) - len(writer.failed),
        seconds=monotonic() - started,
    )


def drop_messages(ids: Sequence[str], *, store: WritableStore, embedder: Embedder, settings: Settings) -> int:
    """Remove messages from their threads, all or none; return how many. NotFound if one of them is not stored."""
    writer = ThreadWriter(store, embedder, settings)
    threads = _find_threads(ids, store)
    if missing := [message_id for message_id in ids if message_id not in threads]:
        hint = "`clew search --json` shows the id of each message that it finds"
        raise NotFound(f"there is no message {missing[0]!r} in this collection; {hint}")
    for _ in attempts():
        by_thread: dict[str, list[str]] = {}
        for message_id, doc_id in threads.items():
            by_thread.setdefault(doc_id, []).append(message_id)
        try:
            return writer.drop(by_thread)
        except (ConcurrentChange, NotFound) as error:
            conflict = error
            threads = _find_threads(ids, store)  # another process may have removed some of them, or moved them
    raise conflict


def attempts() -> Iterator[int]:
    """Yield the numbers of the attempts of concurrent writes, with a pause of random length between them."""
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(MAX_PAUSE, 0.001 * 2**attempt)))
        yield attempt


def _find_stored(messages: Iterable[Message], store: WritableStore) -> dict[str, Chunk]:
    """Find the first chunks of messages, and of those that they answer, by id."""
    ids = {each for message in messages for each in (message.id, message.reply_to) if each}
    return store.chunks_by_id([make_first_chunk_id(each) for each in ids])


def _find_threads(ids: Sequence[str], store: WritableStore) -> dict[str, str]:
    """Find the ids of the threads that messages are in, by message."""
    stored = store.chunks_by_id([make_first_chunk_id(message_id) for message_id in ids])
    chunks = {message_id: stored.get(make_first_chunk_id(message_id)) for message_id in ids}
    return {message_id: chunk.doc_id for message_id, chunk in chunks.items() if chunk}


def _split_encodable(messages: Sequence[Message]) -> tuple[list[Message], list[SourceFailure]]:
    """Return the messages that can be encoded as UTF-8, and failures for those with an unpaired surrogate."""
    encodable: list[Message] = []
    failures: list[SourceFailure] = []
    for message in messages:
        try:
            f"{message.text}{message.author}{message.channel}{message.id}{message.reply_to}".encode()
        except UnicodeEncodeError:
            name = message.id.encode(errors="replace").decode()
            failures.append(SourceFailure(name, 'it has an unpaired surrogate; decode it with errors="replace"'))
        else:
            encodable.append(message)
    return encodable, failures


def _split_id_clashes(
    messages: Sequence[Message], stored: Mapping[str, Chunk]
) -> tuple[list[Message], list[SourceFailure]]:
    """Return the messages with an id of their own, and failures for those whose id a message of another channel has."""
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


class ThreadWriter:
    """Plans, embeds and writes changes of threads.

    `vectors` are by text, nan where the model failed, and `failed` says why, by message id.
    """

    def __init__(self, store: WritableStore, embedder: Embedder, settings: Settings) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._reach = max(1, settings.threads.before)
        self.vectors: dict[str, Vector] = {}
        self.failed: dict[str, str] = {}

    def write_messages(self, messages: Sequence[Message], stored: Mapping[str, Chunk]) -> _Outcome:
        """Write new and changed messages. Messages that others removed meanwhile stay removed."""
        outcome = _Outcome()
        pending = {message.id: message for message in messages}
        known = {message.id for message in messages if make_first_chunk_id(message.id) in stored}
        planner = ThreadPlanner(self._store, self._settings.threads, reach=self._reach)
        conflict: Exception | None = None
        for attempt in attempts():
            if attempt:
                stored = _find_stored(pending.values(), self._store)
                pending = {
                    key: each for key, each in pending.items() if key not in known or make_first_chunk_id(key) in stored
                }
            try:
                plans = planner.plan(list(pending.values()), stored)
                edits = [[self._plan_edit(draft) for draft in plan.drafts] for plan in plans]
            except (ConcurrentChange, NotFound) as error:
                conflict = error
                continue
            self._embed_texts(edits)
            conflict = None
            pending = {}
            for plan, planned in zip(plans, edits, strict=True):
                try:
                    self._write(planned)
                except DriverFailed as error:
                    if not isinstance(error, ConcurrentChange) and not _find_threads(
                        [message.id for message in plan.added], self._store
                    ):
                        raise
                    conflict = error  # another process has changed the thread, or added the message elsewhere
                    pending |= {message.id: message for message in (*plan.added, *plan.changed)}
                else:
                    outcome.added += [message.id for message in plan.added]
                    outcome.changed += [message.id for message in plan.changed]
                    outcome.chunks += sum(len(each.chunks) for each in planned)
            if not pending:
                return _sort_outcome(outcome, messages)
        if conflict:
            raise conflict
        return _sort_outcome(outcome, messages)

    def drop(self, by_thread: Mapping[str, Sequence[str]]) -> int:
        """Remove messages, given by thread, in one transaction; return how many were there."""
        drafts = []
        dropped = 0
        for doc_id, ids in by_thread.items():
            draft = Draft(doc_id, "")
            draft.load(self._store, ids, reach=self._reach)
            assert draft.part
            draft.channel = str(draft.part.document.meta.get("channel", ""))
            dropped += draft.drop(ids)
            drafts.append(draft)
        planned = [self._plan_edit(draft) for draft in drafts if draft.removed]
        self._embed_texts([planned])
        self._write(planned)
        return dropped

    def _plan_edit(self, draft: Draft) -> PlannedEdit:
        return plan_edit(draft, store=self._store, chunk=self._chunk, reach=self._reach)

    def _embed_texts(self, edits: Iterable[Iterable[PlannedEdit]]) -> None:
        """Embed the new texts, together or, where that fails, one by one; after three failures in a row no more."""
        texts = {text: key for group in edits for each in group for text, key in each.list_new_texts().items()}
        wanted, failures, reason = [text for text in texts if text not in self.vectors], 0, ""
        for at in range(0, len(wanted), SLICE):
            batch = wanted[at : at + SLICE]
            try:
                self.vectors |= embed_texts(batch, self._embedder)
                continue
            except DriverFailed as error:
                reason = str(error)
            for text in batch:
                try:
                    if failures < MAX_FAILURES:
                        self.vectors |= embed_texts([text], self._embedder)
                        failures = 0
                        continue
                except DriverFailed as error:
                    failures, reason = failures + 1, str(error)
                self.vectors[text] = np.full(self._embedder.dim, np.nan, np.float32)
                self.failed[texts[text]] = reason

    def _write(self, planned: Sequence[PlannedEdit]) -> None:
        dim, language = self._embedder.dim, self._settings.ingestion.language
        if planned:
            self._store.edit_threads([e.build_edit(self.vectors, dim=dim, language=language) for e in planned])

    def _chunk(self, document: Document, positions: Sequence[int]) -> list[Chunk]:
        ingestion, threads = self._settings.ingestion, self._settings.threads
        return chunk_messages(document, positions, config=ingestion, threads=threads, count=self._embedder.count)


def _sort_outcome(outcome: _Outcome, messages: Sequence[Message]) -> _Outcome:
    """Return the outcome with its messages in the order in which they were given."""
    places = {message.id: place for place, message in enumerate(messages)}
    for ids in (outcome.added, outcome.changed):
        ids.sort(key=lambda message_id: places[message_id])
    return outcome
