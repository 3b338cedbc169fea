"""The work on one plan: drafts of the threads that messages join, and what moves from one to another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clew.core.errors import ConcurrentChange
from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import Store
from clew.core.thread_edit import Waiting
from clew.core.types import Message
from clew.index.thread.draft import Draft, Entry


@dataclass(slots=True)
class Plan:
    """Threads that change together, and the messages that they change for."""

    drafts: list[Draft] = field(default_factory=list)
    added: list[Message] = field(default_factory=list)
    changed: list[Message] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new message, the thread that it joins, and the messages there and elsewhere that wait for it."""

    message: Message
    doc_id: str
    parent: str | None
    guessed: bool
    awaits: str | None
    waiting: Sequence[Waiting]


class DraftSet:
    """The drafts of one plan, and which of them belong together."""

    def __init__(self, store: Store, reach: int) -> None:
        self._store, self._reach = store, reach
        self._drafts: dict[str, Draft] = {}
        self._named: dict[str, set[str]] = {}
        self._plans: dict[str, Plan] = {}

    def open(self, doc_id: str, channel: str, ids: Iterable[str] | None) -> Draft:
        """The draft of a thread, with the part around some messages; None: of a new thread."""
        draft = self._drafts[doc_id] = Draft(doc_id, channel)
        self._plans[doc_id] = Plan([draft])
        self._named[doc_id] = set(ids or ())
        if ids is not None:
            draft.load(self._store, self._named[doc_id], reach=self._reach)
        return draft

    def list_plans(self) -> list[Plan]:
        """The plans that change anything."""
        plans = {id(plan): plan for plan in self._plans.values()}
        for plan in plans.values():
            plan.drafts = [draft for draft in plan.drafts if draft.touched or draft.removed]
        return [plan for plan in plans.values() if plan.drafts]

    def add(self, arrival: Arrival) -> None:
        """Puts a new message into its thread; those that wait for it become its answers, and come to it."""
        draft, plan = self._drafts[arrival.doc_id], self._plans[arrival.doc_id]
        message = replace(arrival.message, reply_to=arrival.parent)
        waits_here = [each for each in arrival.waiting if each.doc_id == arrival.doc_id]
        if arrival.parent is None and draft.part is not None and not draft.touched and not draft.removed:
            first = next(iter(draft.entries))
            self._named[arrival.doc_id].add(first)  # those after it are embedded with the new one
            draft.load(self._store, self._named[arrival.doc_id], reach=self._reach)
        if arrival.parent is None and draft.part is not None:
            draft.prepend(message, awaits=arrival.awaits)
        else:
            draft.append(message, guessed=arrival.guessed, awaits=arrival.awaits)
        plan.added.append(arrival.message)
        for waiting in waits_here:
            self._answer(draft, waiting.message, message.id)
        for waiting in arrival.waiting:
            source = self._drafts[waiting.doc_id]
            if source is not draft and waiting.message in source.entries:
                self._move(source, draft, self._load_subtree(source, waiting.message))
                self._answer(draft, waiting.message, message.id)

    def change(self, message: Message, doc_id: str, replies: Mapping[str, str], store: Store) -> None:
        """Replaces a stored message by one with the same id, if anything of it differs."""
        drafts = (self._drafts[doc_id], *self._drafts.values())  # it may have moved with one that came
        draft = next((each for each in drafts if message.id in each.entries), None)
        if draft is None:  # another process has moved or dropped it
            raise ConcurrentChange(f"the message {message.id!r} is no longer in the thread {doc_id!r}; try again")
        entry = draft.entries[message.id]
        new = _apply_edit(message, entry)
        target = draft
        stated = message.reply_to if message.reply_to != message.id else None
        if stated is not None and stated not in (entry.awaits, None if entry.guessed else entry.message.reply_to):
            if stated in replies:
                target = self._drafts[replies[stated]]
                if target is not draft or stated not in draft.find_subtree(message.id):
                    text = replace(new.message, reply_to=stated)
                    new = replace(new, message=text, guessed=False, awaits=None)
            else:
                waiting = store.waiting_messages([stated], message.channel).get(stated, [])
                new = replace(new, message=replace(new.message, reply_to=None), guessed=False, awaits=stated)
                target = self._find_home(draft, message, waiting)
        if new == entry:
            return
        if target is not draft:
            self._move(draft, target, self._load_subtree(draft, message.id))
            new = replace(new, number=target.entries[message.id].number)
        target.put(new)
        self._plans[target.doc_id].changed.append(message)

    def _find_home(self, draft: Draft, message: Message, waiting: Sequence[Waiting]) -> Draft:
        """The thread for a message that answers a missing one: of others that wait for it, or one of its own."""
        for each in waiting:
            if each.message != message.id:
                return self._drafts.get(each.doc_id) or self.open(each.doc_id, message.channel, [each.message])
        is_first = draft.part is not None and draft.entries[message.id].number == draft.part.first
        doc_id = make_document_id(f"thread:{message.channel}/{message.id}")
        if is_first or doc_id == draft.doc_id:
            return draft
        if doc_id in self._drafts:
            return self._drafts[doc_id]
        is_there = any(True for _ in self._store.documents(Filter(documents=frozenset({doc_id}))))
        return self.open(doc_id, message.channel, [] if is_there else None)

    def _answer(self, draft: Draft, message_id: str, parent: str) -> None:
        """Makes a message that waited the answer to the one that came."""
        if entry := draft.entries.get(message_id):
            message = replace(entry.message, reply_to=parent)
            draft.put(Entry(entry.number, message))

    def _load_subtree(self, draft: Draft, message_id: str) -> list[str]:
        """A message and all that answer it; the part of the thread is read again around all of them."""
        if draft.part is None or draft.touched or draft.removed:
            return draft.find_subtree(message_id)
        whole = Draft(draft.doc_id, draft.channel)
        ids = [section.id for section in self._store.document(draft.doc_id).sections]
        whole.load(self._store, ids, reach=self._reach)
        subtree = whole.find_subtree(message_id)
        self._named[draft.doc_id].update(subtree)
        draft.load(self._store, self._named[draft.doc_id], reach=self._reach)
        return subtree

    def _move(self, source: Draft, target: Draft, ids: Sequence[str]) -> None:
        """Moves messages to the end of another thread; both change together."""
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
    """A stored message with its edit applied; what the edit does not say stays: author, time, parent, access."""
    old = entry.message
    new = replace(
        message,
        author=message.author or old.author,
        at=message.at or old.at,
        reply_to=old.reply_to,
        access=old.access if message.access is None else message.access,
        role=old.role,
    )
    is_same_text = message.text.strip() == old.text.strip()
    return replace(entry, message=replace(new, text=old.text) if is_same_text else new)
