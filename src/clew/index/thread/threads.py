"""Threading, the second step of the write path of chats: the messages of a channel become threads.

A message states its parent in `reply_to`; otherwise `infer_reply_parents` guesses it. A reply to a reply belongs to the
thread of the first message.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta

from clew.core.errors import SettingsError
from clew.core.settings import ThreadConfig
from clew.core.thread import (
    Thread,
    extract_messages,
    find_awaited_messages,
    find_guessed_replies,
    get_message_text,
    join_messages,
    make_thread_title,
)
from clew.core.time import EARLIEST, assume_utc, to_timestamp
from clew.core.types import Document, Message
from clew.index.thread.untangle import infer_reply_parents

MAX_GAP = timedelta(hours=12)  # the longest time between a guessed reply and its parent: a night


def find_reply_parents(
    messages: Sequence[Message],
    *,
    config: ThreadConfig,
    before: Sequence[Message] = (),
    awaited: Set[str] = frozenset(),
) -> list[Message | None]:
    """Find the stated or inferred parent of each message; None if it starts a thread.

    A stated `reply_to` wins. If its parent is missing, the first reply starts a thread that other replies to the same
    parent join. An inferred parent is never later than its reply, nor more than MAX_GAP earlier. No parent is inferred
    for a message that another one states as its parent; `awaited` are ids of further such messages.
    """
    everything = [*before, *messages]
    answered = {message.reply_to for message in everything} | awaited
    positions = {message.id: position for position, message in enumerate(everything)}
    stand_ins: dict[str, Message] = {}  # by the id of a missing parent: the first reply to it
    guesses = infer_reply_parents(messages, before=before) if config.untangle else [None] * len(messages)
    parents: list[Message | None] = []
    for own, (message, guess) in enumerate(zip(messages, guesses, strict=True), len(before)):
        stated = positions.get(message.reply_to) if message.reply_to else None
        if stated is not None and stated < own:
            parents.append(everything[stated])
        elif message.reply_to and stated is None:
            parents.append(stand_ins.get(message.reply_to))
            stand_ins.setdefault(message.reply_to, message)
        elif message.reply_to or message.id in answered or guess is None:
            parents.append(None)
        else:
            is_apart = _exceeds_time_gap(everything[guess], message)
            parents.append(None if is_apart else everything[guess])
    return parents


def build_threads(channel: str, messages: Sequence[Message], *, config: ThreadConfig) -> list[Thread]:
    """Build the threads of a channel in the order of their first messages."""
    check_messages(messages)
    roots: dict[str, str] = {}  # by message id: the first message of its thread
    grouped: dict[str, list[Message]] = {}
    guessed: dict[str, set[str]] = {}
    known = {message.id for message in messages}
    awaits: dict[str, dict[str, str]] = {}
    messages = _move_parents_before_replies(messages)
    for message, parent in zip(messages, find_reply_parents(messages, config=config), strict=True):
        root = roots.get(parent.id, parent.id) if parent else message.id
        roots[message.id] = root
        reply_to = parent.id if parent else None
        if reply_to != message.reply_to:
            guessed.setdefault(root, set()).add(message.id)
        if message.reply_to and message.reply_to not in known:
            awaits.setdefault(root, {})[message.id] = message.reply_to
        grouped.setdefault(root, []).append(replace(message, reply_to=reply_to))
    return [
        Thread(root, channel, tuple(group), guessed=guessed.get(root, frozenset()), awaits=awaits.get(root, {}))
        for root, group in grouped.items()
    ]


def remove_messages_from_thread(document: Document, ids: Set[str]) -> Document | None:
    """Return a thread without some messages; None if none is left. Their replies become replies to their parents."""
    messages = extract_messages(document)
    parents = {message.id: message.reply_to for message in messages}
    remaining = []
    for message in messages:
        if message.id not in ids:
            parent = message.reply_to
            while parent is not None and parent in ids:
                parent = parents[parent]
            remaining.append(replace(message, reply_to=parent))
    return replace_thread_messages(document, remaining) if remaining else None


def find_latest_message_time(messages: Iterable[Message]) -> datetime:
    """Find the time of the latest message; EARLIEST if none has a time."""
    return max((assume_utc(message.at) for message in messages if message.at), default=EARLIEST)


def add_later_stored_messages(document: Document, stored: Document, *, until: datetime) -> Document:
    """Add to an exported thread the stored messages that are later than the export, or have no time."""
    exported = {section.id for section in document.sections}
    later = [
        message
        for message in extract_messages(stored)
        if message.id not in exported and (message.at is None or assume_utc(message.at) > until)
    ]
    return replace_thread_messages(document, [*extract_messages(document), *later], more=stored) if later else document


def find_deleted_messages(stored: Document, *, exported_ids: Set[str], until: datetime) -> set[str]:
    """Find the deleted messages of a stored thread: not later than the export, but missing from it."""
    return {
        message.id
        for message in extract_messages(stored)
        if message.id not in exported_ids and message.at is not None and assume_utc(message.at) <= until
    }


def replace_thread_messages(
    document: Document, messages: Sequence[Message], *, more: Document | None = None
) -> Document:
    """Return a thread's document with its messages replaced; some may come from another document (`more`).

    A generated title is generated again. The summary is removed, since it described the old text.
    """
    channel = str(document.meta.get("channel", ""))
    both = (document, more or document)
    text, sections = join_messages(
        messages,
        guessed=set().union(*map(find_guessed_replies, both)),
        awaits={key: value for each in reversed(both) for key, value in find_awaited_messages(each).items()},
    )
    opening = get_message_text(document, document.sections[0])
    title = (
        make_thread_title(channel, messages[0].text)
        if document.title == make_thread_title(channel, opening)
        else document.title
    )
    return replace(document, text=text, sections=sections, title=title, summary="", summary_by="", hash="")


def sort_messages_as_sent(messages: Iterable[Message]) -> list[Message]:
    """Sort messages by time (stable), each after its parent. One without a time stays after its predecessor."""
    keyed: list[tuple[float, Message]] = []
    moment = -math.inf
    for message in messages:
        moment = to_timestamp(message.at) if message.at else moment
        keyed.append((moment, message))
    keyed.sort(key=lambda pair: pair[0])  # a stable sort
    return _move_parents_before_replies([message for _, message in keyed])


def check_messages(messages: Iterable[Message]) -> None:
    """Raise SettingsError for an invalid Message, or one without a channel."""
    for message in messages:
        if not isinstance(message, Message):
            raise SettingsError(f"messages must be Message objects; got a {type(message).__name__}")
        if not message.channel:
            raise SettingsError(f"message {message.id!r} has no channel; set Message.channel")


def explain_id_clash(message: str, *, home: str, channel: str) -> str:
    """Explain why a message with the id of a message of another channel is refused."""
    hint = f"make ids unique, for example {channel}/{message}"
    return f"a message of #{home} has the same id as {message} of #{channel}; {hint}"


def _exceeds_time_gap(earlier: Message, later: Message) -> bool:
    """Return whether two messages are out of order, or more than MAX_GAP apart."""
    if earlier.at is None or later.at is None:
        return False
    return not timedelta(0) <= assume_utc(later.at) - assume_utc(earlier.at) <= MAX_GAP


def _move_parents_before_replies(messages: Sequence[Message]) -> list[Message]:
    """Return the messages in order, except that a parent given after its reply moves to just before the reply."""
    known = {message.id: message for message in messages}
    ordered: dict[str, Message] = {}
    for message in messages:
        chain: dict[str, Message] = {}
        current: Message | None = message
        while current is not None and current.id not in ordered and current.id not in chain:
            chain[current.id] = current
            current = known.get(current.reply_to) if current.reply_to else None
        ordered.update(reversed(chain.items()))
    return list(ordered.values())
