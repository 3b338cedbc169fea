"""Mail: who wrote to whom and when, and what; the names of attachments, not what is in them."""

import email
import email.policy
import email.utils
from email.message import EmailMessage

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import Block, Page, document, one_line
from clew.index.read.guard import sealed
from clew.index.read.web.html import page_of, spelled

_SHOWN = ("From", "To", "Cc", "Date")


def mail(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of an .eml file: its subject as the heading, the people, and the plain text or else the HTML."""
    with sealed(uri, what="mail"):
        message = email.message_from_bytes(data, policy=email.policy.default)
        if not any(key in message for key in ("From", "Subject", "Date", "To")):
            raise SourceError(uri, "is not a mail that can be read: it has no sender, subject or date")
        subject = one_line(str(message.get("Subject", "")))
        people = [f"{key}: {one_line(str(message[key]))}" for key in _SHOWN if message.get(key)]
        attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
        blocks = [
            Block("heading", subject or "(no subject)", level=1),
            Block("paragraph", "\n".join(people)),
            *_body(message, uri=uri),
        ]
        if attached:
            blocks.append(Block("note", f"Attachments: {', '.join(map(one_line, attached))}"))
        meta: dict[str, object] = {"attachments": attached} if attached else {}
        if date := _date(message):
            meta["date"] = date
        return document(Page(blocks, subject, meta), uri=uri, name=name, source_format="eml")


def _body(message: EmailMessage, *, uri: str) -> list[Block]:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return []
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return []
    text = spelled(raw, charset=part.get_content_charset() or "")
    if part.get_content_type() == "text/html":
        return list(page_of(text, uri=uri).blocks)
    paragraphs = [lines.strip("\n") for lines in text.replace("\r\n", "\n").split("\n\n")]
    return [
        Block("quote", "\n".join(line.lstrip("> ") for line in lines.splitlines()))
        if lines.startswith(">")
        else Block("paragraph", lines)
        for lines in paragraphs
        if lines.strip()
    ]


def _date(message: EmailMessage) -> str:
    try:
        return email.utils.parsedate_to_datetime(str(message["Date"])).isoformat() if message.get("Date") else ""
    except ValueError:
        return ""
