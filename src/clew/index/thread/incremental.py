"""Incremental threading: each new message joins its thread, costs one embedding, and changes no other message.

A message already stored is skipped; an edited one replaces the stored one. A reply to a missing message waits, and
joins the thread of that message when it arrives. Messages given together are sorted by time. A message that cannot be
stored, or has the id of a message of another channel, is reported, and the rest is stored. A message that cannot be
embedded is stored without a vector, which stays pending.

Other processes may write to the same threads: an edit is written only if its threads have the revision that was read,
else it is planned again.
"""

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic

import numpy as np

from clew.core.errors import ConcurrentChange, DriverFailed, NotFound
from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import Embedder, WritableStore
from clew.core.report import Report, SourceFailure
from clew.core.settings import Settings, ThreadConfig
from clew.core.stored import SLICE
from clew.core.thread import Waiting, fill_in_message, make_first_chunk_id
from clew.core.time import to_iso
from clew.core.types import Chunk, Document, Message, Vector
from clew.index.add.embed import embed_texts
from clew.index.chunk.messages import chunk_messages
from clew.index.thread.draft import Draft, Entry, PlannedEdit, plan_edit
from clew.index.thread.threads import check_messages, explain_id_clash, find_reply_parents, sort_messages_as_sent

RECENT_CHUNKS = 100  # latest chunks of a channel that are searched for parents


@dataclass(slots=True)
class Plan:
    """Threads that change in one transaction, and the messages that change them."""

    drafts: list[Draft] = field(default_factory=list)
    added: list[Message] = field(default_factory=list)
    changed: list[Message] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new message, the thread it joins, and the messages in any thread that wait for it."""

    message: Message
    doc_id: str
    parent: str | None
    guessed: bool
    awaits: str | None
    waiting: Sequence[Waiting]


class DraftSet:
    """All drafts of an operation, grouped into plans."""

    def __init__(self, store: WritableStore, reach: int) -> None:
        self._store, self._reach = store, reach
        self._drafts: dict[str, Draft] = {}
        self._named: dict[str, set[str]] = {}
        self._plans: dict[str, Plan] = {}

    def open(self, doc_id: str, channel: str, ids: Iterable[str] | None) -> Draft:
        """Open the draft of a thread, loading the part around the messages `ids`; None for a new thread."""
        draft = self._drafts[doc_id] = Draft(doc_id, channel)
        self._plans[doc_id] = Plan([draft])
        self._named[doc_id] = set(ids or ())
        if ids is not None:
            draft.load(self._store, self._named[doc_id], reach=self._reach)
        return draft

    def list_plans(self) -> list[Plan]:
        """List the plans with changes."""
        plans = {id(plan): plan for plan in self._plans.values()}
        for plan in plans.values():
            plan.drafts = [draft for draft in plan.drafts if draft.touched or draft.removed]
        return [plan for plan in plans.values() if plan.drafts]

    def add(self, arrival: Arrival) -> None:
        """Add a new message to its thread; messages that wait for it become its replies and join the thread."""
        draft = self._drafts[arrival.doc_id]
        if arrival.parent is not None:  # the parent may have moved with an earlier arrival
            draft = self._find_draft(arrival.parent, arrival.doc_id)
        message = replace(arrival.message, reply_to=arrival.parent)
        if arrival.parent is None and draft.part is not None:
            if draft.touched or draft.removed:
                draft.load_rest(self._store, reach=self._reach)
            else:
                first = next(iter(draft.entries))
                self._named[draft.doc_id].add(first)  # the messages after it get the new one as context
                draft.load(self._store, self._named[draft.doc_id], reach=self._reach)
            draft.prepend(message, awaits=arrival.awaits)
        else:
            draft.append(message, guessed=arrival.guessed, awaits=arrival.awaits)
        self._plans[draft.doc_id].added.append(arrival.message)
        for waiting in arrival.waiting:
            source = self._find_draft(waiting.message, waiting.doc_id)
            entry = source.entries[waiting.message]
            answer = Entry(entry.number, replace(entry.message, reply_to=message.id))
            if source is draft and draft.entries[message.id].number < entry.number:
                draft.put(answer)
                continue
            if source is draft and self._is_circle(draft, waiting.message, message.id):
                answer = replace(answer, message=replace(entry.message, reply_to=None))
            self._attach(answer, source, draft)

    def change(self, message: Message, doc_id: str, replies: Mapping[str, str], store: WritableStore) -> None:
        """Replace a stored message by one with the same id, if it differs."""
        draft = self._find_draft(message.id, doc_id)
        entry = draft.entries[message.id]
        new = _apply_edit(message, entry)
        target = draft
        stated = message.reply_to if message.reply_to != message.id else None
        if stated is not None and stated not in (entry.awaits, None if entry.guessed else entry.message.reply_to):
            if stated in replies:
                home = self._find_draft(stated, replies[stated])
                if home is not draft or not self._is_circle(draft, message.id, stated):
                    text = replace(new.message, reply_to=stated)
                    new, target = replace(new, message=text, guessed=False, awaits=None), home
            else:
                waiting = store.waiting_messages([stated], message.channel).get(stated, [])
                new = replace(new, message=replace(new.message, reply_to=None), guessed=False, awaits=stated)
                target = self._find_home(draft, message, stated, waiting)
        if new == entry:
            return
        if (new.message.reply_to, new.awaits) == (entry.message.reply_to, entry.awaits):
            draft.put(new)
        else:
            self._attach(new, draft, target)
        self._plans[target.doc_id].changed.append(message)

    def _find_draft(self, message_id: str, doc_id: str) -> Draft:
        """Find the draft that has a message now; it may have moved out of its stored thread."""
        drafts = (self._drafts[doc_id], *self._drafts.values())
        if draft := next((each for each in drafts if message_id in each.entries), None):
            return draft
        # another process has moved or dropped it
        raise ConcurrentChange(f"the message {message_id!r} is no longer in the thread {doc_id!r}; try again")

    def _find_home(self, draft: Draft, message: Message, awaited: str, waiting: Sequence[Waiting]) -> Draft:
        """Find the thread for a reply to a missing message: the thread of others that wait for it, else its own."""
        for each in waiting:
            if each.doc_id not in self._drafts:
                self.open(each.doc_id, message.channel, [each.message])
            self._drafts[each.doc_id].load_rest(self._store, reach=self._reach)
        for home in self._drafts.values():
            others = (entry.message for entry in home.entries.values() if entry.awaits == awaited)
            if any(other.id != message.id and other.channel == message.channel for other in others):
                return home
        draft.load_rest(self._store, reach=self._reach)
        if len(draft.find_subtree(message.id)) == len(draft.entries):
            return draft
        return self._open_new(message)

    def _open_new(self, message: Message) -> Draft:
        """Open an empty draft named after a message, with a number if another thread has that name."""
        names = (f"{message.id}~{number}" if number > 1 else message.id for number in count(1))
        while True:
            name = next(names)
            doc_id = make_document_id(f"thread:{message.channel}/{name}")
            if draft := self._drafts.get(doc_id):
                draft.load_rest(self._store, reach=self._reach)
                if not draft.entries:
                    return draft
            elif not any(True for _ in self._store.documents(Filter(documents=frozenset({doc_id})))):
                draft = self.open(doc_id, message.channel, None)
                draft.name = name
                return draft

    def _is_circle(self, draft: Draft, message_id: str, parent: str) -> bool:
        """Return whether the parent is itself a direct or indirect reply to the message."""
        draft.load_rest(self._store, reach=self._reach)
        return parent in draft.find_subtree(message_id)

    def _attach(self, entry: Entry, source: Draft, target: Draft) -> None:
        """Give a message another (or missing) parent in the target thread, moving it there with its replies."""
        message = entry.message
        parent = target.entries.get(message.reply_to) if message.reply_to else None
        source.load_rest(self._store, reach=self._reach)
        for other in list(source.entries.values()):
            if other.awaits is not None and other.message.reply_to == message.id:  # waited for the same message
                source.put(replace(other, message=replace(other.message, reply_to=None), guessed=False))
        if source is not target or (parent is not None and parent.number > entry.number):  # a reply follows its parent
            self._move(source, target, source.find_subtree(message.id))
        moved = target.entries[message.id]
        access = moved.message.access if message.access is None else message.access
        target.put(replace(entry, number=moved.number, message=replace(message, access=access)))

    def _move(self, source: Draft, target: Draft, ids: Sequence[str]) -> None:
        """Move messages to the end of another thread, joining the plans of both."""
        for message_id in ids:
            entry = source.take(message_id)
            target.append(entry.message, guessed=entry.guessed, awaits=entry.awaits)
        one, other = self._plans[source.doc_id], self._plans[target.doc_id]
        if one is not other:
            other.drafts += one.drafts
            other.added += one.added
            other.changed += one.changed
            self._plans.update((draft.doc_id, other) for draft in one.drafts)


def _apply_edit(message: Message, entry: Entry) -> Entry:
    """Apply an edit to a stored message. Role and parent stay, and author, time and access if the edit has none."""
    old = entry.message
    new = replace(fill_in_message(message, old), reply_to=old.reply_to, role=old.role)
    is_same_text = message.text.strip() == old.text.strip()
    return replace(entry, message=replace(new, text=old.text) if is_same_text else new)


class ThreadPlanner:
    """A planner of the changes that messages make to stored threads."""

    def __init__(self, store: WritableStore, config: ThreadConfig, *, reach: int) -> None:
        self._store, self._config, self._reach = store, config, reach

    def plan(self, messages: Sequence[Message], stored: Mapping[str, Chunk]) -> list[Plan]:
        """Return the plans for all changes.

        stored: The first chunks of the messages and of their parents, if stored.
        """
        homes = {message.id: stored.get(make_first_chunk_id(message.id)) for message in messages}
        added = [message for message in messages if homes[message.id] is None]
        differing = [m for m in messages if (chunk := homes[m.id]) and _may_differ(m, chunk)]
        channels = _list_channels(added)
        arrivals = [arrival for channel in channels for arrival in self._place_channel(channel, added, stored)]
        work = DraftSet(self._store, self._reach)
        replies = self._find_stated_parents(differing, arrivals, stored)
        self._open_threads(work, arrivals, differing, homes, replies)
        for arrival in arrivals:
            work.add(arrival)
        for message in differing:
            chunk = homes[message.id]
            assert chunk
            work.change(message, chunk.doc_id, replies, self._store)
        return work.list_plans()

    def _place_channel(self, channel: str, added: Sequence[Message], stored: Mapping[str, Chunk]) -> list[Arrival]:
        """Choose the thread of each new message of a channel, in the order they were sent."""
        new = sort_messages_as_sent(message for message in added if message.channel == channel)
        own = {message.id for message in new}
        before = self._load_recent_messages(channel, new, stored)
        doc_ids = {message.id: doc_id for message, doc_id in before}
        missing = {m.reply_to for m in new if m.reply_to and m.reply_to not in own and m.reply_to not in doc_ids}
        waiting = self._store.waiting_messages([*own, *missing], channel)
        recent = [message for message, _ in before]
        parents = find_reply_parents(new, config=self._config, before=recent, awaited=waiting.keys())
        fresh = {message.id: make_document_id(f"thread:{channel}/{message.id}") for message in new}
        there = {record.id for record in self._store.documents(Filter(documents=frozenset(fresh.values())))}
        arrivals = []
        for message, parent in zip(new, parents, strict=True):
            reply_to = parent.id if parent else None
            awaits = message.reply_to if message.reply_to in missing else None
            if parent is None and awaits and waiting.get(awaits):  # others wait for the same message
                first = waiting[awaits][0]
                reply_to, doc_ids[first.message] = first.message, first.doc_id
            if reply_to is not None:
                home = doc_ids[reply_to]
            elif message.id in waiting and fresh[message.id] not in there:
                home = waiting[message.id][0].doc_id
            else:
                home = fresh[message.id]
            doc_ids[message.id] = home
            is_guess = reply_to is not None and reply_to != message.reply_to
            arrivals.append(Arrival(message, home, reply_to, is_guess, awaits, waiting.get(message.id, ())))
        return arrivals

    def _load_recent_messages(
        self, channel: str, new: Sequence[Message], stored: Mapping[str, Chunk]
    ) -> list[tuple[Message, str]]:
        """Load the latest messages of a channel and the stated parents, in order of sending, with their document ids.

        They must be sorted: the store returns them in the order of writing.
        """
        answered = [stored.get(make_first_chunk_id(message.reply_to)) for message in new if message.reply_to]
        doc_ids: dict[str, str] = {}
        found: list[Message] = []
        for chunk in (*filter(None, answered), *self._store.latest_chunks(channel, RECENT_CHUNKS)):
            message = _chunk_to_message(chunk)
            if message.channel == channel and chunk.id == make_first_chunk_id(message.id) and message.id not in doc_ids:
                doc_ids[message.id] = chunk.doc_id
                found.append(message)
        return [(message, doc_ids[message.id]) for message in sort_messages_as_sent(found)]

    def _find_stated_parents(
        self, changed: Sequence[Message], arrivals: Sequence[Arrival], stored: Mapping[str, Chunk]
    ) -> dict[str, str]:
        """Find the threads of the stated parents of changed messages, by the id of the parent."""
        threads = {arrival.message.id: arrival.doc_id for arrival in arrivals}
        stated = [m.reply_to for m in changed if m.reply_to and m.reply_to not in threads]
        channels = {message.reply_to: message.channel for message in changed}
        for message_id in stated:
            chunk = stored.get(make_first_chunk_id(message_id))
            if chunk and chunk.meta.get("channel") == channels[message_id]:
                threads[message_id] = chunk.doc_id
        return threads

    def _open_threads(
        self,
        work: DraftSet,
        arrivals: Sequence[Arrival],
        changed: Sequence[Message],
        homes: Mapping[str, Chunk | None],
        replies: Mapping[str, str],
    ) -> None:
        """Open drafts of all threads that may change."""
        named: dict[str, set[str]] = {}
        channels: dict[str, str] = {}
        for arrival in arrivals:
            channels[arrival.doc_id] = arrival.message.channel
            named.setdefault(arrival.doc_id, set()).update([arrival.parent] if arrival.parent else [])
            for waiting in arrival.waiting:
                named.setdefault(waiting.doc_id, set()).add(waiting.message)
                channels[waiting.doc_id] = arrival.message.channel
        for message in changed:
            chunk = homes[message.id]
            if chunk:
                named.setdefault(chunk.doc_id, set()).add(message.id)
                channels[chunk.doc_id] = message.channel
            if message.reply_to is not None and message.reply_to in replies:
                named.setdefault(replies[message.reply_to], set()).add(message.reply_to)
                channels[replies[message.reply_to]] = message.channel
        there = {record.id for record in self._store.documents(Filter(documents=frozenset(named)))} if named else set()
        for doc_id, ids in named.items():
            work.open(doc_id, channels[doc_id], ids if doc_id in there else None)


def _list_channels(messages: Iterable[Message]) -> list[str]:
    return list(dict.fromkeys(message.channel for message in messages))


def _may_differ(message: Message, chunk: Chunk) -> bool:
    """Return whether a message may differ from the stored one, judging by its first chunk."""
    meta = chunk.meta
    if meta.get("total_chunks", 1) > 1 or chunk.text.strip() != message.text.strip():
        return True
    if message.reply_to is not None and (meta.get("reply_to") != message.reply_to or meta.get("guessed")):
        return True
    if message.access is not None and sorted(message.access) != meta.get("access"):
        return True
    is_other_author = bool(message.author) and message.author != meta.get("author", "")
    return is_other_author or (message.at is not None and to_iso(message.at) != to_iso(chunk.at))


def _chunk_to_message(chunk: Chunk) -> Message:
    """Return the message of a first chunk, with the text of that chunk only."""
    meta = chunk.meta
    return Message(
        chunk.text,
        author=str(meta.get("author", "")),
        at=chunk.at,
        id=str(meta.get("message", "")),
        channel=str(meta.get("channel", "")),
        reply_to=meta.get("reply_to"),
    )


MAX_ATTEMPTS = 200  # to write a thread under contention; an attempt fails only because another writer succeeded
MAX_FAILURES = 3  # consecutive texts that the model may fail to embed
MAX_PAUSE = 0.05  # seconds between two attempts, at most


@dataclass(slots=True)
class _Outcome:
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    chunks: int = 0


def add_messages(
    messages: Iterable[Message], *, store: WritableStore, embedder: Embedder, settings: Settings
) -> Report:
    """Add new and changed messages to their threads."""
    started = monotonic()
    everything = list(messages)
    check_messages(everything)
    latest: dict[tuple[str, str], Message] = {}  # the last version, with fields that only an earlier one states
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
    """Remove messages from their threads, all or none; return how many. NotFound if one is not stored."""
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
            threads = _find_threads(ids, store)  # another process may have removed or moved messages
    raise conflict


def attempts() -> Iterator[int]:
    """Yield the numbers of the attempts of a concurrent write, with exponential random backoff."""
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(MAX_PAUSE, 0.001 * 2**attempt)))
        yield attempt


def _find_stored(messages: Iterable[Message], store: WritableStore) -> dict[str, Chunk]:
    """Find the first chunks of messages and of their parents, by id."""
    ids = {each for message in messages for each in (message.id, message.reply_to) if each}
    return store.chunks_by_id([make_first_chunk_id(each) for each in ids])


def _find_threads(ids: Sequence[str], store: WritableStore) -> dict[str, str]:
    """Find the thread ids of messages, by message id."""
    stored = store.chunks_by_id([make_first_chunk_id(message_id) for message_id in ids])
    chunks = {message_id: stored.get(make_first_chunk_id(message_id)) for message_id in ids}
    return {message_id: chunk.doc_id for message_id, chunk in chunks.items() if chunk}


def _split_encodable(messages: Sequence[Message]) -> tuple[list[Message], list[SourceFailure]]:
    """Return the messages that can be encoded as UTF-8, and failures for the others."""
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
    """Return the messages with a unique id, and failures for those with the id of a message of another channel."""
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
    """A writer that plans, embeds and writes changes of threads.

    `vectors` are by text, nan if the model failed; `failed` has the reasons by message id.
    """

    def __init__(self, store: WritableStore, embedder: Embedder, settings: Settings) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._reach = max(1, settings.threads.before)
        self.vectors: dict[str, Vector] = {}
        self.failed: dict[str, str] = {}

    def write_messages(self, messages: Sequence[Message], stored: Mapping[str, Chunk]) -> _Outcome:
        """Write new and changed messages. Messages that another process removed meanwhile stay removed."""
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
        """Remove messages, given by thread, in one transaction; return how many were stored."""
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
        """Embed the new texts in batches; retry a failed batch text by text, up to MAX_FAILURES failures in a row."""
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
    """Sort the messages of the outcome in place as they were given, and return it."""
    places = {message.id: place for place, message in enumerate(messages)}
    for ids in (outcome.added, outcome.changed):
        ids.sort(key=lambda message_id: places[message_id])
    return outcome
