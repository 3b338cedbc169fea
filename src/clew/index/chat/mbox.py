"""Mailboxes: many mails in one file, put into channels by mailing list and threaded by what they answer.

The file is read twice: once for the heads, which are kept, and then a mail at a time in the order of time.
"""

import email
import email.policy
import email.utils
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.message import EmailMessage

from clew.core.errors import SourceError
from clew.core.ids import digest
from clew.core.types import Message
from clew.index.chat.quotes import body_of
from clew.index.chat.tidy import EMPTY, REPEATED, UNDATED, UNREADABLE, Notes, aware, name_of, natural
from clew.index.chat.tree import Part
from clew.index.read.guard import sealed

MAX_MAIL = 100_000_000  # bytes of one mail with what is attached
MAX_HEAD = 1_000_000
LONGEST_LINE = 1_000_000
TOO_LARGE = f"mails of more than {MAX_MAIL // 1_000_000} MB"
_BEGIN = re.compile(rb"From \S.*\b\d{1,2}:\d{2}\b")
_FIELD = re.compile(rb"[!-9;-~]+:|>From ")
_ID = re.compile(r"<([^<>\s]+)>")
_LIST = re.compile(r"<([^<>\s]+)>|^\s*([\w.-]+)\s*$")
_REPLY = re.compile(r"(?:re|aw|sv|antw|r|rif|ref)(?:\[\d+\])?\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Head:
    """What is kept of a mail while the others are read: where it stands, what it is and what it answers."""

    start: int
    size: int
    id: str
    at: datetime | None
    answers: tuple[str, ...]


def is_mbox(part: Part) -> bool:
    """Whether a file begins as a mailbox does: a line From, then the fields of a head."""
    with part.open() as file:
        first, second = file.readline(2000), file.readline(2000)
    return bool(_BEGIN.match(first.rstrip())) and bool(_FIELD.match(second))


def mbox(part: Part, notes: Notes) -> Iterator[tuple[str, Iterator[Message]]]:
    """Each mailing list, or the mailbox, with its mails; ids are their Message-IDs."""
    channels: dict[str, list[_Head]] = {}
    known: set[str] = set()
    for channel, head in _heads(part, notes):
        if head.id in known:
            notes.note(REPEATED)
            continue
        known.add(head.id)
        channels.setdefault(channel or part.stem, []).append(head)
    for channel in sorted(channels):
        yield channel, _mails(part, _in_order(channels[channel]), channel=channel, known=known, notes=notes)


def _heads(part: Part, notes: Notes) -> Iterator[tuple[str, _Head]]:
    """The channel and head of each mail: a line From behind a blank one, with the field of a head below it."""
    with part.open() as file:
        start = place = 0
        head = bytearray()
        in_head, blank = True, True
        envelope = b""  # a line that begins a mail if the next one is a field
        for line in iter(lambda: file.readline(LONGEST_LINE), b""):
            if envelope and _FIELD.match(line):
                before = place - len(envelope)
                if before > start:
                    yield from _head(bytes(head), start, before - start, notes)
                start, head, in_head = before, bytearray(envelope), True
            envelope = line if blank and _BEGIN.match(line) else b""
            if in_head and not envelope and len(head) < MAX_HEAD:
                head += line
            blank = not line.strip()
            in_head = in_head and not blank
            place += len(line)
        if place > start:
            yield from _head(bytes(head), start, place - start, notes)


def _head(data: bytes, start: int, size: int, notes: Notes) -> Iterator[tuple[str, _Head]]:
    envelope, _, rest = data.partition(b"\n")
    fields = email.message_from_bytes(rest, policy=email.policy.compat32)
    if not any(key in fields for key in ("From", "Subject", "Date", "Message-ID")):
        notes.note(UNREADABLE)
        return
    if size > MAX_MAIL:
        notes.note(TOO_LARGE)
        return
    own = _ID.search(_field(fields, "Message-ID"))
    answers = (*_ID.findall(_field(fields, "In-Reply-To")), *reversed(_ID.findall(_field(fields, "References"))))
    listed = _LIST.search(_field(fields, "List-Id"))
    at = _moment(_field(fields, "Date"), envelope, notes)
    name = own[1] if own else digest("mail", *(_field(fields, key) for key in ("From", "Date", "Subject")))[:16]
    yield (listed[1] or listed[2] if listed else ""), _Head(start, size, name, at, tuple(dict.fromkeys(answers)))


def _field(fields: "email.message.Message[str, str]", key: str) -> str:
    return str(fields.get(key, "")).replace("\n", " ")


def _moment(date: str, envelope: bytes, notes: Notes) -> datetime | None:
    """When a mail was sent; where its date cannot be read, when it was put into the mailbox."""
    arrived = re.search(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d{2}:\d{2}:\d{2} \d{4}", envelope)
    for text, form in ((date, ""), (arrived[0].decode() if arrived else "", "%a %b %d %H:%M:%S %Y")):
        try:
            if text:
                found = datetime.strptime(text, form) if form else email.utils.parsedate_to_datetime(text)
                return aware(found, notes).astimezone(UTC)
        except (ValueError, OverflowError, TypeError):
            continue
    notes.note(UNDATED)
    return None


def _in_order(heads: list[_Head]) -> list[_Head]:
    """By time, then by id; one without a time stays behind the one it stands after."""
    keyed, last = [], (datetime.min.replace(tzinfo=UTC), "")
    for head in heads:
        last = (head.at, natural(head.id)) if head.at else last
        keyed.append((last, head.at is None, head.start, head))
    return [head for *_, head in sorted(keyed, key=lambda each: each[:3])]


def _mails(part: Part, heads: list[_Head], *, channel: str, known: set[str], notes: Notes) -> Iterator[Message]:
    with part.open() as file:
        for head in heads:
            file.seek(head.start)
            try:
                with sealed(part.uri, what="mail"):
                    message = _mail(file.read(head.size), head, channel=channel, known=known, uri=part.uri)
            except SourceError:  # one broken mail among thousands is counted
                notes.note(UNREADABLE)
                continue
            notes.note(EMPTY, message is None)
            if message is not None:
                yield message


def _mail(data: bytes, head: _Head, *, channel: str, known: set[str], uri: str) -> Message | None:
    """The message of a mail; the one that begins a thread says what it is about first. None where it says nothing."""
    mail = email.message_from_bytes(data.partition(b"\n")[2], policy=email.policy.default)
    subject = name_of(_shown(mail, "Subject"))
    answers = [answer for answer in head.answers if answer != head.id]
    is_reply = bool(answers) or _REPLY.match(subject) is not None
    text = body_of(mail, uri=uri, is_reply=is_reply)
    if not text and (is_reply or not subject):
        return None
    name, address = email.utils.parseaddr(_shown(mail, "From"))
    return Message(
        text if is_reply or not subject else f"{subject}\n\n{text}".strip(),
        author=name_of(name, address),
        at=head.at,
        id=head.id,
        channel=channel,
        reply_to=next((answer for answer in answers if answer in known), answers[0] if answers else None),
    )


def _shown(mail: EmailMessage, key: str) -> str:
    """A field of the head, decoded; empty where it is broken beyond reading."""
    try:
        return str(mail.get(key, ""))
    except (MessageError, ValueError, LookupError, AttributeError, IndexError, TypeError):
        return ""
