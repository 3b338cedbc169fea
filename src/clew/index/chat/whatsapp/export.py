"""WhatsApp: the text of one chat, in the form that the phone and its language gave it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePath

from clew.core.errors import SourceError
from clew.core.ids import digest
from clew.core.types import Message
from clew.index.chat.tidy import (
    DELETED,
    EDITED,
    EMPTY,
    MEDIA,
    NOTICES,
    UNDATED,
    UTC_ASSUMED,
    Notes,
    bracketed,
    in_order,
    tidy,
)
from clew.index.chat.tree import Part
from clew.index.chat.whatsapp.dates import HEADER, Written, order_of, written

ORDER_ASSUMED = "dates whose day and month could not be told apart"
_LOOK = 60  # lines in which a chat shows itself
_LONGEST = 10_000
_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF])
_SPACES = {0x202F: " ", 0xA0: " "}
_NAMED = re.compile(r"whatsapp.*?\s(?:with|mit|con|com|avec|met|med|z|-|–)\s+(.+)", re.IGNORECASE)
_CHAT = "_chat.txt"
# A notice may have a colon in it, behind what is no name. Its verbs are small; Added Value Ltd may be somebody.
_NO_NAME = re.compile(r"[\"“”«»]|\b(?:changed|created|added|removed|pinned|security code|end-to-end)\b")
_OMITTED = re.compile(
    r"(?:(?P<name>\S.*?\.\w{2,5})\s*•?.*?)?\b(?:image|video|audio|sticker|GIF|document|Contact card)( message)? omitted"
)
_PLACEHOLDER = re.compile(r"<\w[^<>\n:/=]{0,40}\s[^<>\n:/=]{1,40}>")  # <Media omitted>, in any language
_ATTACHED = re.compile(
    r"<(?:attached|Anhang|adjunto|pièce jointe|allegato|anexo|anexado|bijlage|bijgevoegd)\s?:\s*([^<>\n]+)>"
    r"|^(\S.*?\.\w{2,5}) \((?:file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato"
    r"|arquivo anexado|bestand bijgevoegd)\)$",
    re.MULTILINE | re.IGNORECASE,
)
_EDITED = re.compile(
    r"\s*<(?:This message was edited|Diese Nachricht wurde bearbeitet\.?|Se editó este mensaje\.?)>\s*$"
)
_DELETED = re.compile(
    r"(?:This message was deleted|You deleted this message( as admin .*)?|This message was deleted by admin .*"
    r"|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|Eliminaste este mensaje"
    r"|Ce message a été supprimé|Vous avez supprimé ce message|Questo messaggio è stato eliminato"
    r"|Mensagem apagada|Esta mensagem foi apagada|Dit bericht is verwijderd|Je hebt dit bericht verwijderd)\.?",
    re.IGNORECASE,
)
_OWN = re.compile(r"(?:Location|POLL|Standort|Ubicación)\b")  # what the app writes and a person says all the same


def is_whatsapp(part: Part) -> bool:
    """Whether a text begins as a chat does: a date, a time, a name and a colon, not in the form of a log."""
    with part.text(at_sight=True) as file:
        shown = islice(iter(lambda: file.readline(_LONGEST), ""), _LOOK)
        seen = [(line, HEADER.match(_bare(line))) for line in shown]
    first = next((match for line, match in seen if line.strip()), None)
    if first is None:
        return False
    is_named = part.name.rpartition("/")[2] == _CHAT or _NAMED.search(part.stem) is not None
    begun = [(line, match) for line, match in seen if match]
    return any(_author(_bare(line)[match.end() :])[0] for line, match in begun) and (
        is_named or all(written(match).is_list for _, match in begun)
    )


def channel_of(part: Part, *, place: PurePath) -> str:
    """What the chat is called: by its file, or, where that says nothing, by the zip or folder that it stands in."""
    for name in (part.stem, place.stem, place.parent.name):
        if match := _NAMED.search(name):
            return match[1].strip()
    if part.name.rpartition("/")[2] != _CHAT:
        return part.stem
    return place.parent.name or "chat" if place.name == _CHAT else place.stem


def whatsapp(part: Part, *, channel: str, notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """The chat with its messages.

    The text has no ids: one is made of the moment, the place among the messages of that moment, and what was said, so
    that it stays when the chat grows.
    """
    with part.text() as file:
        entries = list(_entries(file))
    if not entries:
        raise SourceError(part.uri, "is not a WhatsApp chat that can be read: no line begins with a date and a time")
    order, is_found = order_of([when for when, _ in entries])
    messages = []
    nth: Counter[str] = Counter()
    for when, body in entries:
        author, text = _author(body)
        text = _said(text, author=author, notes=notes)
        if not text:
            continue
        at = when.moment(order)
        notes.note(UTC_ASSUMED if at else UNDATED)
        notes.note(ORDER_ASSUMED, at is not None and not is_found)
        moment = at.strftime("%Y-%m-%dT%H:%M:%S") if at else "undated"
        nth[moment] += 1
        name = digest("whatsapp", author, text)[:8]
        messages.append(
            Message(text, author=author, at=at, id=f"{channel}/{moment}.{nth[moment]}.{name}", channel=channel)
        )
    yield channel, in_order(messages)


def _entries(lines: Iterable[str]) -> Iterator[tuple[Written, str]]:
    """Each entry with when it was written; a line that begins with no date goes on with the one before."""
    when: Written | None = None
    body: list[str] = []
    for line in lines:
        bare = _bare(line)
        if match := HEADER.match(bare):
            if when is not None:
                yield when, "\n".join(body)
            when, body = written(match), [bare[match.end() :]]
        else:
            body.append(line.rstrip("\n"))
    if when is not None:
        yield when, "\n".join(body)


def _author(body: str) -> tuple[str, str]:
    """The name before the colon and what was said; no name where it is a notice of the app."""
    name, colon, text = body.partition(":")
    name = name.translate(_MARKS).strip().removeprefix("~").strip()
    if (
        not colon
        or "\n" in name
        or not name
        or len(name) > 100
        or _NO_NAME.search(name)
        or text[:1] not in ("", " ", "\n", "\u200e")
    ):
        return "", body
    return name, text.removeprefix(" ")


def _said(text: str, *, author: str, notes: Notes) -> str:
    """What a person said, empty and noted where that is nothing."""
    own = text.lstrip("\u200f\u202a").startswith("\u200e")  # the app marks what it writes itself
    text = tidy(text.translate(_MARKS))
    if not author:
        notes.note(NOTICES)
        return ""
    if _EDITED.search(text):
        text = _EDITED.sub("", text)
        notes.note(EDITED)
    if _DELETED.fullmatch(text):
        notes.note(DELETED)
        return ""
    if match := _OMITTED.fullmatch(text):
        notes.note(MEDIA)
        return bracketed("file", match["name"]) if match["name"] else ""
    if _PLACEHOLDER.fullmatch(text):
        notes.note(MEDIA)
        return ""
    is_file = bool(_ATTACHED.search(text))
    if own and not is_file and not _OWN.match(text):
        notes.note(NOTICES)
        return ""
    text = _ATTACHED.sub(lambda match: bracketed("file", (match[1] or match[2]).strip()), text)
    if text in ("", "null"):
        notes.note(EMPTY)
        return ""
    return text


def _bare(line: str) -> str:
    """The line as its date can be read: without marks before it, its narrow spaces made plain."""
    stripped = line.rstrip("\r\n").lstrip("\u200e\u200f\u202a\ufeff ")
    head, rest = stripped[:48], stripped[48:]
    return head.translate(_SPACES) + rest
