"""What a mail says by itself: its body without the mail that it answers, which is read in its own place."""

import re
from collections.abc import Sequence
from email.message import EmailMessage

from clew.index.chat.tidy import bracketed, name_of, tidy
from clew.index.read.web.html import page_of, spelled

_ESCAPED = re.compile(r"^>(>*From )", re.MULTILINE)
_WROTE = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu)\b.{3,300}(?:wrote|writes|schrieb.{0,120}|a écrit|escribió|ha scritto"
    r"|schreef.{0,120}|escreveu|skrev.{0,120}|napisał.{0,40})\s?:",
    re.DOTALL,
)
_NAME_WROTE = re.compile(r"\S.{0,120}\b(?:wrote|writes|schrieb|said)\s?:$")
_FORWARD = re.compile(
    r"\s*-{3,}\s*(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original)\s*-{3,}\s*|_{20,}\s*",
    re.IGNORECASE,
)
_HEADED = re.compile(r"(?:From|Von|De|Da|Van)\s?:\s.+")
_NEXT = re.compile(r"(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden|To|An)\s?:\s.+")


def body_of(mail: EmailMessage, *, uri: str, is_reply: bool) -> str:
    """The text of a mail, of a reply what is new in it, then the names of what is attached."""
    part = mail.get_body(preferencelist=("plain", "html"))
    raw = part.get_payload(decode=True) if part is not None else None
    text = ""
    if part is not None and isinstance(raw, bytes):
        text = spelled(raw, charset=part.get_content_charset() or "")
        if part.get_content_type() == "text/html":
            blocks = page_of(text, uri=uri).blocks
            text = "\n\n".join(_quoted(block.text) if block.kind == "quote" else block.text for block in blocks)
        else:
            text = _ESCAPED.sub(r"\1", text.replace("\r\n", "\n"))
    own = tidy(unquoted(text) if is_reply else text)
    return tidy("\n".join([own, *_attached(mail)]))


def _attached(mail: EmailMessage) -> list[str]:
    """The names of what is attached; what has none is a part of the text, or a footer."""
    try:
        names = [name_of(part.get_filename()) for part in mail.iter_attachments()]
    except (AttributeError, KeyError, TypeError, ValueError):  # a mail that says it has parts and has none
        return []
    return [bracketed("file", name) for name in names if name]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def unquoted(text: str) -> str:
    """The lines that are new in a reply: without quoted ones, who wrote them, and the mail below."""
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith((">", "|>")):
            at += 1
            continue
        if _FORWARD.fullmatch(line) and _heads(lines[at + 1 : at + 4]):
            break
        if _HEADED.fullmatch(line.strip()) and _heads(lines[at : at + 3]):
            break
        size = _attribution(lines, at)
        at += size or 1
        if not size:
            kept.append(line)
    return "\n".join(kept)


def _heads(lines: Sequence[str]) -> bool:
    """Whether the lines are the head of a mail that was put below: from whom, and then when or to whom."""
    shown = [line.strip() for line in lines if line.strip()]
    return len(shown) >= 2 and bool(_HEADED.fullmatch(shown[0]) and _NEXT.fullmatch(shown[1]))


def _attribution(lines: Sequence[str], at: int) -> int:
    """How many lines from here say who wrote what is quoted next: none, one, or two or three that were one."""
    for size in (1, 2, 3):
        joined = " ".join(line.strip() for line in lines[at : at + size]).strip()
        if not joined or any(line.startswith(">") for line in lines[at : at + size]):
            return 0
        following = next((line for line in lines[at + size :] if line.strip()), "")
        is_one = _WROTE.fullmatch(joined) or (size == 1 and _NAME_WROTE.fullmatch(joined))
        if is_one and (not following or following.startswith(">")):
            return size
    return 0
