"""mbox mailboxes: one channel per mailing list, threads by In-Reply-To and References.

The file is read twice: once for the headers, which stay in memory, and then mail by mail in order of time. The text of
a reply leaves out the quoted mail, which is a message itself.
"""

import email
import email.policy
import email.utils
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.message import EmailMessage
from typing import Any, cast

from clew.core.errors import SourceError
from clew.core.ids import digest
from clew.core.time import EARLIEST
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.web.html import parse_html

MAX_MAIL_BYTES = 100_000_000  # of one mail with its attachments
MAX_HEADER_BYTES = 1_000_000
MAX_LINE_BYTES = 1_000_000
MAX_FIELD_CHARS = 10_000  # decoded of a header field: the memory needed grows with the square of its length
TOO_LARGE = f"mails of more than {MAX_MAIL_BYTES // 1_000_000} MB"
_FROM_LINE = re.compile(rb"From \S.*\b\d{1,2}:\d{2}\b")
_HEADER_FIELD = re.compile(rb"[!-9;-~]+:|>From ")
_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_LIST_ID = re.compile(r"<([^<>\s]+)>|^\s*([\w.-]+)\s*$")
_REPLY_SUBJECT = re.compile(r"(?:re|aw|sv|antw|r|rif|ref)(?:\[\d+\])?\s*:\s*", re.IGNORECASE)
_ESCAPED_FROM = re.compile(r"^>(>*From )", re.MULTILINE)
_DATE_WROTE = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu)\b.{3,300}(?:wrote|writes|schrieb.{0,120}|a écrit|escribió|ha scritto"
    r"|schreef.{0,120}|escreveu|skrev.{0,120}|napisał.{0,40})\s?:",
    re.DOTALL,
)
_NAME_WROTE = re.compile(r"\S.{0,120}\b(?:wrote|writes|schrieb|said)\s?:$")
_FORWARD_RULE = re.compile(
    r"\s*-{3,}\s*(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original)\s*-{3,}\s*|_{20,}\s*",
    re.IGNORECASE,
)
_FROM_FIELD = re.compile(r"(?:From|Von|De|Da|Van)\s?:\s.+")
_SECOND_FIELD = re.compile(r"(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden|To|An)\s?:\s.+")


class _MailPolicy(email.policy.EmailPolicy):
    """The default policy of the standard library, with header fields cut to MAX_FIELD_CHARS."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """Decode the value of a header field."""
        return super().header_fetch_parse(name, value[:MAX_FIELD_CHARS] if len(value) > MAX_FIELD_CHARS else value)


_POLICY = _MailPolicy()


@dataclass(frozen=True, slots=True)
class _MailHeader:
    """The part of each mail that stays in memory: position, id, time, and the ids it replies to."""

    start: int
    size: int
    id: str
    at: datetime | None
    answers: tuple[str, ...]


def is_mbox(file: ExportFile) -> bool:
    """Return whether a file begins like an mbox: with a From line, then a header field."""
    with file.open() as stream:
        first, second = stream.readline(2000), stream.readline(2000)
    return bool(_FROM_LINE.match(first.rstrip())) and bool(_HEADER_FIELD.match(second))


def read_mbox(file: ExportFile, notes: n.ExportNotes) -> Iterator[tuple[str, Iterator[Message]]]:
    """Yield each mailing list, or the mailbox itself, with its mails; the ids are their Message-IDs."""
    channels: dict[str, list[_MailHeader]] = {}
    known: set[str] = set()
    for channel, head in _scan_mail_headers(file, notes):
        if head.id in known:
            notes.count_event(n.REPEATED)
            continue
        known.add(head.id)
        channels.setdefault(channel or file.stem, []).append(head)
    for channel in sorted(channels):
        yield (
            channel,
            _read_mails(file, _sort_headers_by_time(channels[channel]), channel=channel, known=known, notes=notes),
        )


def _scan_mail_headers(file: ExportFile, notes: n.ExportNotes) -> Iterator[tuple[str, _MailHeader]]:
    """Yield the channel and header of each mail. A mail begins at a From line after a blank line, before a header."""
    with file.open() as stream:
        start = place = 0
        head = bytearray()
        in_head, blank = True, True
        envelope = b""  # a From line; it begins a mail if the next line is a header field
        for line in iter(lambda: stream.readline(MAX_LINE_BYTES), b""):
            if envelope and _HEADER_FIELD.match(line):
                before = place - len(envelope)
                if before > start:
                    yield from _parse_mail_header(bytes(head), start, before - start, notes)
                start, head, in_head = before, bytearray(envelope), True
            envelope = line if blank and _FROM_LINE.match(line) else b""
            if in_head and not envelope and len(head) < MAX_HEADER_BYTES:
                head += line
            blank = not line.strip()
            in_head = in_head and not blank
            place += len(line)
        if place > start:
            yield from _parse_mail_header(bytes(head), start, place - start, notes)


def _parse_mail_header(data: bytes, start: int, size: int, notes: n.ExportNotes) -> Iterator[tuple[str, _MailHeader]]:
    envelope, _, rest = data.partition(b"\n")
    fields = email.message_from_bytes(rest, policy=email.policy.compat32)
    if not any(key in fields for key in ("From", "Subject", "Date", "Message-ID")):
        notes.count_event(n.UNREADABLE)
        return
    if size > MAX_MAIL_BYTES:
        notes.count_event(TOO_LARGE)
        return
    own = _MESSAGE_ID.search(_get_header_field(fields, "Message-ID"))
    answers = (
        *_MESSAGE_ID.findall(_get_header_field(fields, "In-Reply-To")),
        *reversed(_MESSAGE_ID.findall(_get_header_field(fields, "References"))),
    )
    listed = _LIST_ID.search(_get_header_field(fields, "List-Id"))
    at = _parse_sent_time(_get_header_field(fields, "Date"), envelope, notes)
    name = (
        own[1] if own else digest("mail", *(_get_header_field(fields, key) for key in ("From", "Date", "Subject")))[:16]
    )
    yield (listed[1] or listed[2] if listed else ""), _MailHeader(start, size, name, at, tuple(dict.fromkeys(answers)))


def _get_header_field(fields: "email.message.Message[str, str]", key: str) -> str:
    return str(fields.get(key, "")).replace("\n", " ")


def _parse_sent_time(date: str, envelope: bytes, notes: n.ExportNotes) -> datetime | None:
    """Parse the time a mail was sent; if Date is unreadable, use the time of delivery on the From line."""
    arrived = re.search(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d{2}:\d{2}:\d{2} \d{4}", envelope)
    for text, form in ((date, ""), (arrived[0].decode() if arrived else "", "%a %b %d %H:%M:%S %Y")):
        try:
            if text:
                found = datetime.strptime(text, form) if form else email.utils.parsedate_to_datetime(text)
                return n.ensure_time_zone(found, notes).astimezone(UTC)
        except (ValueError, OverflowError, TypeError):
            continue
    notes.count_event(n.UNDATED)
    return None


def _sort_headers_by_time(heads: list[_MailHeader]) -> list[_MailHeader]:
    """Sort headers by time, then by id; one without a time stays after its predecessor in the file."""
    keyed, last = [], (EARLIEST, "")
    for head in heads:
        last = (head.at, n.make_natural_sort_key(head.id)) if head.at else last
        keyed.append((last, head.at is None, head.start, head))
    return [head for *_, head in sorted(keyed, key=lambda each: each[:3])]


def _read_mails(
    file: ExportFile, heads: list[_MailHeader], *, channel: str, known: set[str], notes: n.ExportNotes
) -> Iterator[Message]:
    with file.open() as stream:
        for head in heads:
            stream.seek(head.start)
            try:
                with wrap_library_errors(file.uri, format_name="mail"):
                    message = _parse_mail(stream.read(head.size), head, channel=channel, known=known, uri=file.uri)
            except SourceError:  # one broken mail among thousands is only counted
                notes.count_event(n.UNREADABLE)
                continue
            notes.count_event(n.EMPTY, message is None)
            if message is not None:
                yield message


def _parse_mail(data: bytes, head: _MailHeader, *, channel: str, known: set[str], uri: str) -> Message | None:
    """Parse the message of a mail; None if it has no text. The first mail of a thread begins with its subject."""
    mail = cast(EmailMessage, email.message_from_bytes(data.partition(b"\n")[2], policy=_POLICY))
    subject = n.pick_first_name(_decode_header_field(mail, "Subject"))
    answers = [answer for answer in head.answers if answer != head.id]
    is_reply = bool(answers) or _REPLY_SUBJECT.match(subject) is not None
    text = extract_mail_body(mail, uri=uri, is_reply=is_reply)
    if not text and (is_reply or not subject):
        return None
    name, address = email.utils.parseaddr(_decode_header_field(mail, "From"))
    return Message(
        text if is_reply or not subject else f"{subject}\n\n{text}".strip(),
        author=n.pick_first_name(name, address),
        at=head.at,
        id=head.id,
        channel=channel,
        reply_to=next((answer for answer in answers if answer in known), answers[0] if answers else None),
    )


def _decode_header_field(mail: EmailMessage, key: str) -> str:
    """Decode a header field; empty if that fails."""
    try:
        return str(mail.get(key, ""))
    except (MessageError, ValueError, LookupError, AttributeError, IndexError, TypeError):
        return ""


def extract_mail_body(mail: EmailMessage, *, uri: str, is_reply: bool) -> str:
    """Extract the text of a mail (without quotes in a reply), followed by the names of its attachments."""
    part = mail.get_body(preferencelist=("plain", "html"))
    raw = part.get_payload(decode=True) if part is not None else None
    text = ""
    if part is not None and isinstance(raw, bytes):
        text = decode_with_fallbacks(raw, charset=part.get_content_charset() or "")
        if part.get_content_type() == "text/html":
            blocks = parse_html(text, uri=uri).blocks
            text = "\n\n".join(
                re.sub("^", "> ", block.text, flags=re.MULTILINE) if block.kind == "quote" else block.text
                for block in blocks
            )
        else:
            text = _ESCAPED_FROM.sub(r"\1", text.replace("\r\n", "\n"))
    own = n.clean_message_text(strip_quoted_lines(text) if is_reply else text)
    return n.clean_message_text("\n".join([own, *_list_attachments(mail)]))


def _list_attachments(mail: EmailMessage) -> list[str]:
    """List the placeholders of named attachments; unnamed ones are parts of the text or footers."""
    try:
        names = [n.pick_first_name(part.get_filename()) for part in mail.iter_attachments()]
    except (AttributeError, KeyError, TypeError, ValueError):  # a multipart mail without parts
        return []
    return [n.format_attachment_placeholder("file", name) for name in names if name]


def strip_quoted_lines(text: str) -> str:
    """Remove from a reply the quoted lines, attributions ("Ann wrote:") and a forwarded mail at the end."""
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith((">", "|>")):
            at += 1
            continue
        if _FORWARD_RULE.fullmatch(line) and _is_mail_header(lines[at + 1 : at + 4]):
            break
        if _FROM_FIELD.fullmatch(line.strip()) and _is_mail_header(lines[at : at + 3]):
            break
        size = _count_attribution_lines(lines, at)
        at += size or 1
        if not size:
            kept.append(line)
    return "\n".join(kept)


def _is_mail_header(lines: Sequence[str]) -> bool:
    """Return whether the lines begin like the header of a quoted mail: From, then Date or To."""
    filled = [line.strip() for line in lines if line.strip()]
    return len(filled) >= 2 and bool(_FROM_FIELD.fullmatch(filled[0]) and _SECOND_FIELD.fullmatch(filled[1]))


def _count_attribution_lines(lines: Sequence[str], at: int) -> int:
    """Count the lines of the attribution of a quote at a place: 0, 1, or 2 or 3 if it was wrapped."""
    for size in (1, 2, 3):
        joined = " ".join(line.strip() for line in lines[at : at + size]).strip()
        if not joined or any(line.startswith(">") for line in lines[at : at + size]):
            return 0
        if _DATE_WROTE.fullmatch(joined) or (size == 1 and _NAME_WROTE.fullmatch(joined)):
            below = (lines[number] for number in range(at + size, len(lines)))
            following = next((line for line in below if line.strip()), "")
            if not following or following.startswith(">"):
                return size
    return 0
