"""Second on the write path of chats: the messages of a channel become threads.

Replies say what they answer; of a message that says nothing, `link` finds it out. A reply to a reply belongs to the
thread of the first message.
"""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from clew.core.errors import SettingsError
from clew.core.settings import ThreadConfig
from clew.core.thread import Thread, guessed_in, message_text, messages_in, title_of, written
from clew.core.types import Document, Message
from clew.index.thread.untangle import untangle


def linked(
    messages: Sequence[Message], *, config: ThreadConfig, before: Sequence[Message] = ()
) -> list[Message | None]:
    """For each message the one that it answers, or None where it opens a thread.

    What a message itself says counts; where it answers one that is not here, it opens a thread, and the others that
    answer the same one join it. Found links do not reach over a longer silence than `gap_hours`, nor to what was said
    later.
    """
    whole = [*before, *messages]
    places = {message.id: place for place, message in enumerate(whole)}
    stand_ins: dict[str, Message] = {}  # of a message that is not here: the first that answers it
    found = untangle(messages, before=before) if config.untangle else [None] * len(messages)
    answered: list[Message | None] = []
    for own, (message, guess) in enumerate(zip(messages, found, strict=True), len(before)):
        said = places.get(message.reply_to) if message.reply_to else None
        if said is not None and said < own:
            answered.append(whole[said])
        elif message.reply_to and said is None:
            answered.append(stand_ins.get(message.reply_to))
            stand_ins.setdefault(message.reply_to, message)
        elif message.reply_to or guess is None or _far(whole[guess], message, config.gap_hours):
            answered.append(None)
        else:
            answered.append(whole[guess])
    return answered


def threads(channel: str, messages: Sequence[Message], *, config: ThreadConfig) -> list[Thread]:
    """The threads of a channel in the order of their first messages."""
    check_messages(messages)
    root: dict[str, str] = {}
    grouped: dict[str, list[Message]] = {}
    guessed: dict[str, set[str]] = {}
    messages = _after_what_they_answer(messages)
    for message, answered in zip(messages, linked(messages, config=config), strict=True):
        opener = root.get(answered.id, answered.id) if answered else message.id
        root[message.id] = opener
        reply = answered.id if answered else None
        if reply != message.reply_to:
            guessed.setdefault(opener, set()).add(message.id)
        grouped.setdefault(opener, []).append(replace(message, reply_to=reply))
    return [
        Thread(opener, channel, tuple(group), guessed=guessed.get(opener, frozenset()))
        for opener, group in grouped.items()
    ]


def without(document: Document, ids: Set[str]) -> Document | None:
    """A thread without some of its messages, None where none is left; what answered one answers what that did."""
    said = messages_in(document)
    answers = {message.id: message.reply_to for message in said}
    left = []
    for message in said:
        if message.id not in ids:
            reply = message.reply_to
            while reply is not None and reply in ids:
                reply = answers[reply]
            left.append(replace(message, reply_to=reply))
    return rewritten(document, left) if left else None


def last_said(messages: Iterable[Message]) -> datetime:
    """The time of the latest message, before all times where none has one."""
    return max((_zoned(message.at) for message in messages if message.at), default=datetime.min.replace(tzinfo=UTC))


def kept_on(document: Document, stored: Document, *, until: datetime) -> Document:
    """A thread as an export has it, with what was said in it later than all that the export holds, or at no time."""
    here = {section.id for section in document.sections}
    later = [
        message
        for message in messages_in(stored)
        if message.id not in here and (message.at is None or _zoned(message.at) > until)
    ]
    return rewritten(document, [*messages_in(document), *later], guessed=guessed_in(stored)) if later else document


def deleted(stored: Document, *, held: Set[str], until: datetime) -> set[str]:
    """The messages of a thread that an export holds no more, though it holds what was said as late."""
    return {
        message.id
        for message in messages_in(stored)
        if message.id not in held and message.at is not None and _zoned(message.at) <= until
    }


def rewritten(document: Document, messages: Sequence[Message], *, guessed: Set[str] = frozenset()) -> Document:
    """A thread's document with these messages; a title that said how it begins says it still."""
    channel = str(document.meta.get("channel", ""))
    text, sections = written(messages, guessed=guessed | guessed_in(document))
    opening = message_text(document, document.sections[0])
    title = title_of(channel, messages[0].text) if document.title == title_of(channel, opening) else document.title
    return replace(document, text=text, sections=sections, title=title, hash="")


def as_sent(messages: Iterable[Message]) -> list[Message]:
    """The messages by time, those of one time as they are given, and none before the one that it answers.

    One without a time stays behind the one before it.
    """
    keyed: list[tuple[float, Message]] = []
    moment = -math.inf
    for message in messages:
        moment = _zoned(message.at).timestamp() if message.at else moment
        keyed.append((moment, message))
    keyed.sort(key=lambda pair: pair[0])  # a stable sort
    return _after_what_they_answer([message for _, message in keyed])


def check_messages(messages: Iterable[Message]) -> None:
    """Refuses what is no message, and messages that say nowhere where they were written."""
    for message in messages:
        if not isinstance(message, Message):
            raise SettingsError(f"a {type(message).__name__} is given where a Message is expected")
        if not message.channel:
            raise SettingsError("All messages must have channelId: give each Message a channel")
        for name in ("text", "author", "id", "channel", "reply_to"):
            value = getattr(message, name)
            if not isinstance(value, str) and (name, value) != ("reply_to", None):
                raise SettingsError(f"the {name} of a message is {value!r}, which is no text; give it as one")
        if not isinstance(message.at, datetime | None):
            raise SettingsError(f"the time of the message {message.id} is {message.at!r}; give a datetime, or None")


def same_id(message: str, *, home: str, channel: str) -> str:
    """Why a message is refused whose id one of another channel has, and what to do about it."""
    hint = f"give each an id of its own, such as {channel}/{message}"
    return f"a message of #{home} has the same id as {message} of #{channel}; {hint}"


def _far(earlier: Message, later: Message, hours: float) -> bool:
    if earlier.at is None or later.at is None:
        return False
    return not timedelta(0) <= _zoned(later.at) - _zoned(earlier.at) <= timedelta(hours=hours)


def _after_what_they_answer(messages: Sequence[Message]) -> list[Message]:
    """The messages as they are, but each that stands before the one it answers behind it."""
    known = {message.id: message for message in messages}
    placed: dict[str, Message] = {}
    for message in messages:
        chain: dict[str, Message] = {}
        at: Message | None = message
        while at is not None and at.id not in placed and at.id not in chain:
            chain[at.id] = at
            at = known.get(at.reply_to) if at.reply_to else None
        placed.update(reversed(chain.items()))
    return list(placed.values())


def _zoned(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
