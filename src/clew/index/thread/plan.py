"""The plan of what messages change: which thread each joins, what moves with it, and the drafts that say so."""

from collections.abc import Iterable, Mapping, Sequence

from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import Store
from clew.core.settings import ThreadConfig
from clew.core.thread import make_first_chunk_id
from clew.core.time import to_iso
from clew.core.types import Chunk, Message
from clew.index.thread.draft_set import Arrival, DraftSet, Plan
from clew.index.thread.threads import find_reply_parents, sort_messages_as_sent

RECENT_CHUNKS = 100  # the latest chunks of a channel, among which parents are looked for


class ThreadPlanner:
    """Plans the changes that messages make, from what is stored now."""

    def __init__(self, store: Store, config: ThreadConfig, *, reach: int) -> None:
        self._store, self._config, self._reach = store, config, reach

    def plan(self, messages: Sequence[Message], stored: Mapping[str, Chunk]) -> list[Plan]:
        """The plans of all messages; those that are stored as they are have none."""
        homes = {message.id: stored.get(make_first_chunk_id(message.id)) for message in messages}
        added = [message for message in messages if homes[message.id] is None]
        differing = [m for m in messages if (chunk := homes[m.id]) and _may_differ(m, chunk)]
        arrivals = [arrival for channel in _list_channels(added) for arrival in self._place_channel(channel, added)]
        work = DraftSet(self._store, self._reach)
        replies = self._find_stated_parents(differing, arrivals)
        self._open_threads(work, arrivals, differing, homes, replies)
        for arrival in arrivals:
            work.add(arrival)
        for message in differing:
            chunk = homes[message.id]
            assert chunk
            work.change(message, chunk.doc_id, replies, self._store)
        return work.list_plans()

    def _place_channel(self, channel: str, added: Sequence[Message]) -> list[Arrival]:
        """Which thread each new message of a channel joins, as they were sent."""
        new = sort_messages_as_sent(message for message in added if message.channel == channel)
        own = {message.id for message in new}
        before = self._load_recent_messages(channel, new)
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

    def _load_recent_messages(self, channel: str, new: Sequence[Message]) -> list[tuple[Message, str]]:
        """The latest messages of a channel and the stated parents, sorted as they were sent, with their document ids.

        The store returns them in the order of writing: an edited one last, those of an export thread by thread.
        """
        parent_ids = [make_first_chunk_id(message.reply_to) for message in new if message.reply_to]
        parents = self._store.chunks_by_id(parent_ids) if parent_ids else {}
        doc_ids: dict[str, str] = {}
        found: list[Message] = []
        for chunk in (*parents.values(), *self._store.latest_chunks(channel, RECENT_CHUNKS)):
            message = _chunk_to_message(chunk)
            if message.channel == channel and chunk.id == make_first_chunk_id(message.id) and message.id not in doc_ids:
                doc_ids[message.id] = chunk.doc_id
                found.append(message)
        return [(message, doc_ids[message.id]) for message in sort_messages_as_sent(found)]

    def _find_stated_parents(self, changed: Sequence[Message], arrivals: Sequence[Arrival]) -> dict[str, str]:
        """The threads of the messages that changed ones say they answer, by the id of the answered one."""
        threads = {arrival.message.id: arrival.doc_id for arrival in arrivals}
        stated = [m.reply_to for m in changed if m.reply_to and m.reply_to not in threads]
        stored = self._store.chunks_by_id([make_first_chunk_id(each) for each in stated]) if stated else {}
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
        """Reads the parts of all threads that may change."""
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
    """Whether a message may differ from the stored one, as far as its first chunk says."""
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
