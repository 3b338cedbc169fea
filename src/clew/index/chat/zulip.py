"""Zulip exports of an organisation: tables in realm.json, messages in numbered files.

The files hold the messages of all streams in the order they were sent. A temporary file groups them by stream, so that
only one stream at a time is in memory.
"""

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from tempfile import TemporaryFile
from typing import Any

from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile, ExportTree, json_starts_with, open_json_scanner, read_until_failure
from clew.index.read.web.html import parse_html

DIRECT_SKIPPED = "direct messages (never read)"
_MESSAGE_FILE = re.compile(r"messages-\d+\.json")
_TABLES = ("zerver_stream", "zerver_recipient")
_USER_TABLES = ("zerver_userprofile", "zerver_userprofile_crossrealm", "zerver_userprofile_mirrordummy")
_TEXT_FIELDS = ("id", "sender", "recipient", "subject", "content", "rendered_content")
_KEPT_FIELDS = (*_TEXT_FIELDS, "date_sent", "pub_date", "last_edit_time")
_STREAM = 2  # the type of a recipient; 1 is a person, 3 a group
_MENTION = re.compile(r"@_?\*\*([^*|\n]+)(?:\|\d+)?\*\*")
_STREAM_LINK = re.compile(r"#\*\*([^*\n]+)\*\*")
_UPLOAD = re.compile(r"!?\[([^\[\]\n]*)\]\((/user_uploads/[^)\s\[]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]+)\]\((https?://[^)\s\[]+)\)")


@dataclass(frozen=True, slots=True)
class _Realm:
    """The tables of an organisation: users, stream names by recipient id, and recipient ids of direct messages."""

    people: Mapping[int, str]
    bots: frozenset[int]
    streams: Mapping[int, str]
    direct: frozenset[int]


def find_zulip_root(tree: ExportTree) -> ExportTree | None:
    """Find the folder with realm.json and the messages; None if there is none."""
    for root in tree.find_possible_roots():
        files = root.list_files()
        if (
            "realm.json" in files
            and any(map(_MESSAGE_FILE.fullmatch, files))
            and json_starts_with(files["realm.json"], "{")
        ):
            return root
    return None


def read_zulip_export(root: ExportTree, notes: n.ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """Yield each stream with its messages, skipping direct messages: an export holds those of everyone.

    The first message of a topic begins with the topic's name; the others reply to it.
    """
    files = root.list_files()
    realm = _read_realm(files["realm.json"])
    with TemporaryFile() as spool:
        places: dict[str, array[int]] = {}  # by stream
        for name in filter(_MESSAGE_FILE.fullmatch, files):
            for row in read_until_failure(files[name], _read_message_rows(files[name], notes), notes, kind="zulip"):
                recipient = row["recipient"]
                if recipient in realm.direct:
                    notes.count_event(DIRECT_SKIPPED)
                    continue
                channel = realm.streams.get(recipient) or f"recipient {recipient}"
                places.setdefault(channel, array("q")).append(spool.tell())
                spool.write(json.dumps(row).encode() + b"\n")
        for channel, starts in places.items():
            found: dict[int, dict[str, Any]] = {}
            for start in starts:
                spool.seek(start)
                row = json.loads(spool.readline())
                notes.count_event(n.REPEATED if found.get(row["id"]) == row else n.REPLACED, row["id"] in found)
                found[row["id"]] = row
            yield channel, _rows_to_messages(found, realm, channel=channel, uri=root.uri, notes=notes)


def _read_realm(file: ExportFile) -> _Realm:
    people: dict[int, str] = {}
    bots: set[int] = set()
    streams: dict[int, str] = {}
    recipients: dict[int, tuple[int, int]] = {}
    with open_json_scanner(file) as scanner:
        for key in scanner.iter_keys():
            if key not in (*_TABLES, *_USER_TABLES) or scanner.peek_character() != "[":
                continue
            for row in scanner.iter_objects():
                each = n.as_object_or_empty(row)
                number = each.get("id")
                if not isinstance(number, int):
                    continue
                if key in _USER_TABLES:
                    people[number] = n.pick_first_name(each.get("full_name"), each.get("email"), number)
                    bots |= {number} if each.get("is_bot") is True else set()
                elif key == "zerver_stream":
                    streams[number] = n.pick_first_name(each.get("name"), number)
                else:
                    recipients[number] = (each.get("type", 0), each.get("type_id", 0))
    names = {
        str(recipient): streams.get(target) or f"stream {target}"
        for recipient, (kind, target) in recipients.items()
        if kind == _STREAM
    }
    channels = {int(key): name for key, name in n.disambiguate_names(names).items()}
    direct = frozenset(recipient for recipient, (kind, _) in recipients.items() if kind != _STREAM)
    return _Realm(people, frozenset(bots), channels, direct)


def _read_message_rows(file: ExportFile, notes: n.ExportNotes) -> Iterator[dict[str, Any]]:
    """Yield the messages of a file, reduced to the used fields."""
    with open_json_scanner(file) as scanner:
        for key in scanner.iter_keys():
            if key != "zerver_message" or scanner.peek_character() != "[":
                continue
            for row in scanner.iter_objects():
                if row is None or not isinstance(row.get("id"), int) or not isinstance(row.get("recipient"), int):
                    notes.count_event(n.UNREADABLE)
                    continue
                yield {field: row.get(field) for field in _KEPT_FIELDS}


def _rows_to_messages(
    found: Mapping[int, Mapping[str, Any]],
    realm: _Realm,
    *,
    channel: str,
    uri: str,
    notes: n.ExportNotes,
) -> list[Message]:
    topics: dict[str, int] = {}
    messages = []
    for number, row in sorted(found.items()):
        text = clean_zulip_markup(n.as_text_or_empty(row["content"])) or _extract_html_text(
            n.as_text_or_empty(row["rendered_content"]), uri=uri
        )
        if not text:
            notes.count_event(n.EMPTY)
            continue
        at = n.parse_epoch_time(row["date_sent"] if row["date_sent"] is not None else row["pub_date"])
        notes.count_event(n.UNDATED, at is None)
        notes.count_event(n.EDITED, row["last_edit_time"] is not None)
        topic = n.pick_first_name(n.as_text_or_empty(row["subject"]))
        first = topics.setdefault(topic.lower(), number)
        sender = row["sender"]
        messages.append(
            Message(
                f"{topic}\n\n{text}" if topic and first == number else text,
                author=realm.people.get(sender) or n.pick_first_name(sender),
                at=at,
                id=str(number),
                channel=channel,
                reply_to=str(first) if first != number else None,
                role="bot" if sender in realm.bots else "user",
            )
        )
    return n.sort_messages_by_time(messages)


def clean_zulip_markup(content: str) -> str:
    """Convert the mentions, stream links, uploads and links of a message to plain text."""
    text = _MENTION.sub(r"@\1", unescape(content))
    text = _STREAM_LINK.sub(r"#\1", text)
    text = _UPLOAD.sub(lambda match: f"[file: {match[1] or match[2].rpartition('/')[2]}]", text)
    return n.clean_message_text(_LINK.sub(r"\1 (\2)", text))


def _extract_html_text(html: str, *, uri: str) -> str:
    """Extract the text of a message that is stored only as HTML."""
    return n.clean_message_text("\n\n".join(block.text for block in parse_html(html, uri=uri).blocks)) if html else ""
