"""WhatsApp exports: the text of one chat, in the format of the phone and its language."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePath

from clew.core.errors import SourceError
from clew.core.ids import digest
from clew.core.types import Message
from clew.index.chat.normalise import (
    DELETED,
    EDITED,
    EMPTY,
    MEDIA,
    NOTICES,
    UNDATED,
    UTC_ASSUMED,
    ExportNotes,
    clean_message_text,
    format_attachment_placeholder,
    sort_messages_by_time,
)
from clew.index.chat.tree import ExportFile
from clew.index.chat.whatsapp.dates import HEADER, WrittenDate, detect_date_order, parse_date_header

ORDER_ASSUMED = "dates with an ambiguous order of day and month (assumed)"
_SAMPLE_LINES = 60  # lines from which a chat is detected
_MAX_LINE_CHARS = 10_000
_DIRECTION_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF])
_SPACES = {0x202F: " ", 0xA0: " "}
_CHAT_NAME = re.compile(r"whatsapp.*?\s(?:with|mit|con|com|avec|met|med|z|-|–)\s+(.+)", re.IGNORECASE)
_IPHONE_FILE = "_chat.txt"
# A notice may have a colon too, after what is not a name. Its verbs are lower-case; "Added Value Ltd" may be a name.
_NOT_A_NAME = re.compile(r"[\"“”«»]|\b(?:changed|created|added|removed|pinned|security code|end-to-end)\b")
_OMITTED = re.compile(
    r"(?:(?P<name>\S[^\n]{0,200}?\.\w{2,5})[^\n]{0,60}?)?"
    r"\b(?:image|video|audio|sticker|GIF|document|Contact card)(?: message)? omitted"
)
_PLACEHOLDER = re.compile(r"<\w[^<>\n:/=]{0,40}\s[^<>\n:/=]{1,40}>")  # <Media omitted>, in any language
_ATTACHED = re.compile(
    r"<(?:attached|Anhang|adjunto|pièce jointe|allegato|anexo|anexado|bijlage|bijgevoegd)\s?:([^<>\n]+)>"
    r"|^(\S.*?\.\w{2,5}) \((?:file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato"
    r"|arquivo anexado|bestand bijgevoegd)\)$",
    re.MULTILINE | re.IGNORECASE,
)
_EDITED = re.compile(r"<(?:This message was edited|Diese Nachricht wurde bearbeitet\.?|Se editó este mensaje\.?)>$")
_DELETED = re.compile(
    r"(?:This message was deleted|You deleted this message( as admin .*)?|This message was deleted by admin .*"
    r"|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|Eliminaste este mensaje"
    r"|Ce message a été supprimé|Vous avez supprimé ce message|Questo messaggio è stato eliminato"
    r"|Mensagem apagada|Esta mensagem foi apagada|Dit bericht is verwijderd|Je hebt dit bericht verwijderd)\.?",
    re.IGNORECASE,
)
_APP_WORDING = re.compile(
    r"(?:Location|POLL|Standort|Ubicación)\b"
)  # wording of the app that is still content of a person


def is_whatsapp_export(file: ExportFile) -> bool:
    """Whether a text begins like a chat: date, time, name and colon, and not like a log file."""
    with file.open_text(lenient=True) as stream:
        sample = islice(iter(lambda: stream.readline(_MAX_LINE_CHARS), ""), _SAMPLE_LINES)
        seen = [(line, HEADER.match(_normalise_header(line))) for line in sample]
    first = next((match for line, match in seen if line.strip()), None)
    if first is None:
        return False
    is_named = file.name.rpartition("/")[2] == _IPHONE_FILE or _CHAT_NAME.search(file.stem) is not None
    begun = [(line, match) for line, match in seen if match]
    return any(_split_author(_normalise_header(line)[match.end() :])[0] for line, match in begun) and (
        is_named or all(parse_date_header(match).is_chat_style for _, match in begun)
    )


def derive_channel_name(file: ExportFile, *, place: PurePath) -> str:
    """The name of the chat: from its file name, else from its zip or folder."""
    for name in (file.stem, place.stem, place.parent.name):
        if match := _CHAT_NAME.search(name):
            return match[1].strip()
    if file.name.rpartition("/")[2] != _IPHONE_FILE:
        return file.stem
    return place.parent.name or "chat" if place.name == _IPHONE_FILE else place.stem


def read_whatsapp_export(file: ExportFile, *, channel: str, notes: ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """The chat with its messages.

    The text has no ids: they are made of the time, the position among the messages of that time, and a digest of author
    and text, so that they stay the same when the chat grows.
    """
    with file.open_text() as stream:
        entries = list(_split_entries(stream))
    if not entries:
        raise SourceError(file.uri, "is not a readable WhatsApp chat: no line begins with a date and a time")
    order, is_found = detect_date_order([when for when, _ in entries])
    messages = []
    nth: Counter[str] = Counter()
    for when, body in entries:
        author, text = _split_author(body)
        text = _clean_message(text, author=author, notes=notes)
        if not text:
            continue
        at = when.to_datetime(order)
        notes.count_event(UTC_ASSUMED if at else UNDATED)
        notes.count_event(ORDER_ASSUMED, at is not None and not is_found)
        moment = at.strftime("%Y-%m-%dT%H:%M:%S") if at else "undated"
        nth[moment] += 1
        name = digest("whatsapp", author, text)[:8]
        messages.append(
            Message(text, author=author, at=at, id=f"{channel}/{moment}.{nth[moment]}.{name}", channel=channel)
        )
    yield channel, sort_messages_by_time(messages)


def _split_entries(lines: Iterable[str]) -> Iterator[tuple[WrittenDate, str]]:
    """The time and text of each entry; a line without a date continues the entry before it."""
    when: WrittenDate | None = None
    body: list[str] = []
    for line in lines:
        bare = _normalise_header(line)
        if match := HEADER.match(bare):
            if when is not None:
                yield when, "\n".join(body)
            when, body = parse_date_header(match), [bare[match.end() :]]
        else:
            body.append(line.rstrip("\n"))
    if when is not None:
        yield when, "\n".join(body)


def _split_author(body: str) -> tuple[str, str]:
    """The author before the colon and the text; no author if it is a notice of the app."""
    name, colon, text = body.partition(":")
    name = name.translate(_DIRECTION_MARKS).strip().removeprefix("~").strip()
    if (
        not colon
        or "\n" in name
        or not name
        or len(name) > 100
        or _NOT_A_NAME.search(name)
        or text[:1] not in ("", " ", "\n", "\u200e")
    ):
        return "", body
    return name, text.removeprefix(" ")


def _clean_message(text: str, *, author: str, notes: ExportNotes) -> str:
    """The text that a person wrote; empty, and counted in the notes, if there is none."""
    is_by_app = text.lstrip("\u200f\u202a").startswith("\u200e")  # the app marks its own wording
    text = clean_message_text(text.translate(_DIRECTION_MARKS))
    if not author:
        notes.count_event(NOTICES)
        return ""
    if _EDITED.search(text):
        text = _EDITED.sub("", text).rstrip()
        notes.count_event(EDITED)
    if _DELETED.fullmatch(text):
        notes.count_event(DELETED)
        return ""
    if text.endswith("omitted") and (match := _OMITTED.fullmatch(text)):
        notes.count_event(MEDIA)
        return format_attachment_placeholder("file", match["name"]) if match["name"] else ""
    if _PLACEHOLDER.fullmatch(text):
        notes.count_event(MEDIA)
        return ""
    is_file = bool(_ATTACHED.search(text))
    if is_by_app and not is_file and not _APP_WORDING.match(text):
        notes.count_event(NOTICES)
        return ""
    text = _ATTACHED.sub(lambda match: format_attachment_placeholder("file", (match[1] or match[2]).strip()), text)
    if text in ("", "null"):
        notes.count_event(EMPTY)
        return ""
    return text


def _normalise_header(line: str) -> str:
    """The line without leading direction marks, and with plain spaces in its date."""
    stripped = line.rstrip("\r\n").lstrip("\u200e\u200f\u202a\ufeff ")
    head, rest = stripped[:48], stripped[48:]
    return head.translate(_SPACES) + rest
