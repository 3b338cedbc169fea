"""The work on one plan: drafts of the threads that messages join, and what moves from one to another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from clew.core.errors import ConcurrentChange
from clew.core.filter import Filter
from clew.core.ids import make_document_id
from clew.core.protocols import Store
from clew.core.thread import fill_in_message
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
        draft = self._drafts[arrival.doc_id]
        if arrival.parent is not None:  # it may have moved with one that came before
            draft = self._find_draft(arrival.parent, arrival.doc_id)
        message = replace(arrival.message, reply_to=arrival.parent)
        if arrival.parent is None and draft.part is not None:
            if draft.touched or draft.removed:
                draft.load_rest(self._store, reach=self._reach)
            else:
                first = next(iter(draft.entries))
                self._named[draft.doc_id].add(first)  # those after it are embedded with the new one
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

    def change(self, message: Message, doc_id: str, replies: Mapping[str, str], store: Store) -> None:
        """Replaces a stored message by one with the same id, if anything of it differs."""
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
        """The draft that has a message now, which may have moved out of the thread that it is stored in."""
        drafts = (self._drafts[doc_id], *self._drafts.values())
        if draft := next((each for each in drafts if message_id in each.entries), None):
            return draft
        # another process has moved or dropped it
        raise ConcurrentChange(f"the message {message_id!r} is no longer in the thread {doc_id!r}; try again")

    def _find_home(self, draft: Draft, message: Message, awaited: str, waiting: Sequence[Waiting]) -> Draft:
        """The thread for a message that answers a missing one: of others that wait for it, or one of its own."""
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
        """A draft without messages, named after one; with a number if others have stayed in the thread of that name."""
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
        """Whether a message would answer one that answers it."""
        draft.load_rest(self._store, reach=self._reach)
        return parent in draft.find_subtree(message_id)

    def _attach(self, entry: Entry, source: Draft, target: Draft) -> None:
        """Gives a message another parent, or one to wait for, in a thread that it moves to with the answers to it."""
        message = entry.message
        parent = target.entries.get(message.reply_to) if message.reply_to else None
        source.load_rest(self._store, reach=self._reach)
        for other in list(source.entries.values()):
            if other.awaits is not None and other.message.reply_to == message.id:  # waited for the same message
                source.put(replace(other, message=replace(other.message, reply_to=None), guessed=False))
        if source is not target or (parent is not None and parent.number > entry.number):  # it follows what it answers
            self._move(source, target, source.find_subtree(message.id))
        target.put(replace(entry, number=target.entries[message.id].number))

    def _move(self, source: Draft, target: Draft, ids: Sequence[str]) -> None:
        """Moves messages to the end of a thread; both change together."""
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
    new = replace(fill_in_message(message, old), reply_to=old.reply_to, role=old.role)
    is_same_text = message.text.strip() == old.text.strip()
    return replace(entry, message=replace(new, text=old.text) if is_same_text else new)
