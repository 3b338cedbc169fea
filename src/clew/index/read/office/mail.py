"""Mail (.eml): sender, recipients, date and text; attachments by name only."""

import email
import email.policy
import email.utils
from email.message import EmailMessage

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, collapse_whitespace
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.web.html import parse_html

_SHOWN_HEADERS = ("From", "To", "Cc", "Date")


def read_mail(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of an .eml file: subject as heading, address fields, and the plain text or else the HTML."""
    with wrap_library_errors(uri, format_name="mail"):
        message = email.message_from_bytes(data, policy=email.policy.default)
        if not any(key in message for key in ("From", "Subject", "Date", "To")):
            raise SourceError(uri, "is not a readable mail: it has no sender, subject or date")
        subject = collapse_whitespace(str(message.get("Subject", "")))
        people = [f"{key}: {collapse_whitespace(str(message[key]))}" for key in _SHOWN_HEADERS if message.get(key)]
        attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
        blocks = [
            SourceBlock("heading", subject or "(no subject)", level=1),
            SourceBlock("paragraph", "\n".join(people)),
            *_read_mail_body(message, uri=uri),
        ]
        if attached:
            blocks.append(SourceBlock("note", f"Attachments: {', '.join(map(collapse_whitespace, attached))}"))
        meta: dict[str, object] = {"attachments": attached} if attached else {}
        if date := _parse_date(message):
            meta["date"] = date
        return build_document(ParsedSource(blocks, subject, meta), uri=uri, name=name, source_format="eml")


def _read_mail_body(message: EmailMessage, *, uri: str) -> list[SourceBlock]:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return []
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return []
    text = decode_with_fallbacks(raw, charset=part.get_content_charset() or "")
    if part.get_content_type() == "text/html":
        return list(parse_html(text, uri=uri).blocks)
    paragraphs = [lines.strip("\n") for lines in text.replace("\r\n", "\n").split("\n\n")]
    return [
        SourceBlock("quote", "\n".join(line.lstrip("> ") for line in lines.splitlines()))
        if lines.startswith(">")
        else SourceBlock("paragraph", lines)
        for lines in paragraphs
        if lines.strip()
    ]


def _parse_date(message: EmailMessage) -> str:
    try:
        return email.utils.parsedate_to_datetime(str(message["Date"])).isoformat() if message.get("Date") else ""
    except ValueError:
        return ""
