"""WhatsApp exports: the text of one chat, in the format of the phone and its language.

The order of day, month and year depends on the phone and is detected from the whole file. A number over 31 is a year,
first or last. A number over 12 is a day, not a month. If there is none, the order with fewer steps back in time wins,
since a chat runs from old to new. On a tie the format decides: a 12-hour clock with slashes means month first (as in
the United States), else day first.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import PurePath

from clew.core.errors import SourceError
from clew.core.ids import digest
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile

_AFTERNOON = frozenset({"pm", "오후", "下午", "午後"})
_HALF_OF_DAY = r"[AaPp]\.?\s?[Mm]\.?|오전|오후|上午|下午|午前|午後"
_DATE = r"(\d{1,4})\s?[./-]\s?(\d{1,2})\s?[./-]\s?(\d{1,4})\.?"
_TIME = rf"(?:({_HALF_OF_DAY})\s?)?(\d{{1,2}})[:.](\d{{2}})(?:[:.](\d{{2}}))?(?:\s?({_HALF_OF_DAY}))?"
_SEPARATOR = r"(?:[,،]\s?|\s)(?:(?:klo|à|um|at|kl\.)\s)?"
HEADER = re.compile(rf"(\[)?({_DATE})({_SEPARATOR}){_TIME}(?(1)\]\s?|\s[-–—]\s)")
_ORDERS = {"day first": (2, 1, 0), "month first": (2, 0, 1), "year first": (0, 1, 2)}
ORDER_ASSUMED = "dates read {}, as the file does not tell the order of day and month"
_SAMPLE_LINES = 60  # lines from which a chat is detected
_MAX_LINE_CHARS = 10_000
_DIRECTION_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF])
_SPACES = {0x202F: " ", 0xA0: " "}
_CHAT_NAME = re.compile(r"whatsapp.*?\s(?:with|mit|con|com|avec|met|med|z|-|–)\s+(.+)", re.IGNORECASE)
_IPHONE_FILE = "_chat.txt"
# A notice may have a colon too, after text that is not a name. Its verbs are lower-case; "Added Value Ltd" is a name.
_NOT_A_NAME = re.compile(r"[\"“”«»]|\b(?:changed|created|added|removed|pinned|security code|end-to-end)\b")
_OMITTED = re.compile(
    r"(?:(?P<name>\S[^\n]{0,200}?\.\w{2,5})[^\n]{0,60}?)?"
    r"\b(?:image|video|audio|sticker|GIF|document|Contact card)(?: message)? omitted"
)
_PLACEHOLDER = re.compile(r"<\w[^<>\n:/=]{0,40}\s[^<>\n:/=]{1,40}>")  # <Media omitted> in any language
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
_APP_WORDING = re.compile(r"(?:Location|POLL|Standort|Ubicación)\b")  # wording of the app in content sent by a person


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A date and time as written, before the order of day, month and year is known."""

    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half_of_day: str = ""
    has_slashes: bool = False
    is_chat_style: bool = False  # has a comma or brackets, unlike a log file

    def to_datetime(self, order: str) -> datetime | None:
        """Return the time in UTC, reading the date in this order; None if it is not valid."""
        year, month, day = (self.date[place] for place in _ORDERS[order])
        hour, minute, second = self.clock
        if self.half_of_day:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if self.half_of_day in _AFTERNOON else 0)
        try:
            return datetime(year + 2000 if year < 100 else year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None


def parse_date_header(match: re.Match[str]) -> WrittenDate:
    """Parse the date and time from a match of HEADER."""
    bracket, date, first, second, third, between, before, hour, minute, seconds, after = match.groups()
    half = re.sub(r"[.\s]", "", before or after or "").lower()
    is_iso = len(first) == 4 and "-" in date
    # A log file has the year first and dashes without a comma, or seconds before a dash.
    is_list = "," in between or "،" in between or (not is_iso and bool(bracket or not seconds))
    return WrittenDate(
        (int(first), int(second), int(third)),
        (int(hour), int(minute), int(seconds or 0)),
        half,
        "/" in date,
        is_list,
    )


def detect_date_order(dates: Sequence[WrittenDate]) -> tuple[str, bool]:
    """Detect the order of day, month and year in a file; return also whether it is certain, not assumed."""
    votes: Counter[str] = Counter()
    for each in dates:
        first, second, _ = each.date
        if first > 31:
            votes["year first"] += 1
        elif first > 12:
            votes["day first"] += 1
        elif second > 12:
            votes["month first"] += 1
    if votes:
        return max(_ORDERS, key=lambda order: votes[order]), True
    steps = {order: _count_backward_steps(dates, order) for order in ("day first", "month first")}
    if steps["day first"] != steps["month first"]:
        return min(steps, key=lambda order: steps[order]), True
    american = bool(dates) and all(each.half_of_day and each.has_slashes for each in dates)
    return ("month first" if american else "day first"), False


def _count_backward_steps(dates: Sequence[WrittenDate], order: str) -> int:
    """Count how often time runs backward in a file if its dates are read in this order."""
    moments = [each.to_datetime(order) for each in dates]
    return sum(later is None or earlier is None or later < earlier for earlier, later in pairwise(moments))


def is_whatsapp_export(file: ExportFile) -> bool:
    """Return whether a text begins like a chat (date, time, name and colon), not like a log file."""
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
    """Derive the name of the chat from its file name, else from its zip or folder."""
    for name in (file.stem, place.stem, place.parent.name):
        if match := _CHAT_NAME.search(name):
            return match[1].strip()
    if file.name.rpartition("/")[2] != _IPHONE_FILE:
        return file.stem
    return place.parent.name or "chat" if place.name == _IPHONE_FILE else place.stem


def read_whatsapp_export(file: ExportFile, channel: str, notes: n.ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """Yield the chat with its messages.

    The text has no ids. They are derived from the time, the position among the messages of that time, and a digest of
    author and text, so that they stay the same when the chat grows.
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
        notes.count_event(n.UTC_ASSUMED if at else n.UNDATED)
        notes.count_event(ORDER_ASSUMED.format(order), at is not None and not is_found)
        moment = at.strftime("%Y-%m-%dT%H:%M:%S") if at else "undated"
        nth[moment] += 1
        name = digest("whatsapp", author, text)[:8]
        messages.append(
            Message(text, author=author, at=at, id=f"{channel}/{moment}.{nth[moment]}.{name}", channel=channel)
        )
    yield channel, n.sort_messages_by_time(messages)


def _split_entries(lines: Iterable[str]) -> Iterator[tuple[WrittenDate, str]]:
    """Yield the time and text of each entry; a line without a date continues the previous entry."""
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
    """Split an entry at its colon into author and text; the author is empty for a notice of the app."""
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


def _clean_message(text: str, *, author: str, notes: n.ExportNotes) -> str:
    """Return the text that a person wrote; if there is none, count that in the notes and return an empty text."""
    is_by_app = text.lstrip("\u200f\u202a").startswith("\u200e")  # the app marks its own wording
    text = n.clean_message_text(text.translate(_DIRECTION_MARKS))
    if not author:
        notes.count_event(n.NOTICES)
        return ""
    if _EDITED.search(text):
        text = _EDITED.sub("", text).rstrip()
        notes.count_event(n.EDITED)
    if _DELETED.fullmatch(text):
        notes.count_event(n.DELETED)
        return ""
    if text.endswith("omitted") and (match := _OMITTED.fullmatch(text)):
        notes.count_event(n.MEDIA)
        return n.format_attachment_placeholder("file", match["name"]) if match["name"] else ""
    if _PLACEHOLDER.fullmatch(text):
        notes.count_event(n.MEDIA)
        return ""
    is_file = bool(_ATTACHED.search(text))
    if is_by_app and not is_file and not _APP_WORDING.match(text):
        notes.count_event(n.NOTICES)
        return ""
    text = _ATTACHED.sub(lambda match: n.format_attachment_placeholder("file", (match[1] or match[2]).strip()), text)
    if text in ("", "null"):
        notes.count_event(n.EMPTY)
        return ""
    return text


def _normalise_header(line: str) -> str:
    """Remove leading direction marks from a line, and use plain spaces in its date."""
    stripped = line.rstrip("\r\n").lstrip("\u200e\u200f\u202a\ufeff ")
    head, rest = stripped[:48], stripped[48:]
    return head.translate(_SPACES) + rest
