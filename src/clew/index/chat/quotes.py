"""The own text of a mail: its body without the quoted mail that it answers, which is a message of its own."""

import re
from collections.abc import Sequence
from email.message import EmailMessage

from clew.index.chat.normalise import clean_message_text, format_attachment_placeholder, pick_first_name
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.web.html import parse_html

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


def extract_mail_body(mail: EmailMessage, *, uri: str, is_reply: bool) -> str:
    """The text of a mail (of a reply, without quotes), then the names of its attachments."""
    part = mail.get_body(preferencelist=("plain", "html"))
    raw = part.get_payload(decode=True) if part is not None else None
    text = ""
    if part is not None and isinstance(raw, bytes):
        text = decode_with_fallbacks(raw, charset=part.get_content_charset() or "")
        if part.get_content_type() == "text/html":
            blocks = parse_html(text, uri=uri).blocks
            text = "\n\n".join(
                _mark_lines_as_quoted(block.text) if block.kind == "quote" else block.text for block in blocks
            )
        else:
            text = _ESCAPED_FROM.sub(r"\1", text.replace("\r\n", "\n"))
    own = clean_message_text(strip_quoted_lines(text) if is_reply else text)
    return clean_message_text("\n".join([own, *_list_attachments(mail)]))


def _list_attachments(mail: EmailMessage) -> list[str]:
    """The placeholders of named attachments; one without a name is part of the text, or a footer."""
    try:
        names = [pick_first_name(part.get_filename()) for part in mail.iter_attachments()]
    except (AttributeError, KeyError, TypeError, ValueError):  # a multipart mail without parts
        return []
    return [format_attachment_placeholder("file", name) for name in names if name]


def _mark_lines_as_quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def strip_quoted_lines(text: str) -> str:
    """The new lines of a reply: without quoted lines, their attribution ("Ann wrote:"), and the mail quoted below."""
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
    """Whether the lines begin like the header of a quoted mail: From, then Date or To."""
    filled = [line.strip() for line in lines if line.strip()]
    return len(filled) >= 2 and bool(_FROM_FIELD.fullmatch(filled[0]) and _SECOND_FIELD.fullmatch(filled[1]))


def _count_attribution_lines(lines: Sequence[str], at: int) -> int:
    """How many lines from here are the attribution of a quote: 0, 1, or 2 or 3 if it was wrapped."""
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
