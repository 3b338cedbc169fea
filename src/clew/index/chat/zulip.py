"""Zulip: an organisation's export, with its tables in realm.json and its messages in numbered files.

The files hold the messages of all streams in the order they were sent. They are sorted by stream on the disk first, so
that one stream at a time is held.
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
from clew.index.chat.scan import is_json, scanned
from clew.index.chat.tidy import (
    EDITED,
    EMPTY,
    REPEATED,
    UNDATED,
    UNREADABLE,
    Notes,
    from_epoch,
    in_order,
    name_of,
    table,
    tidy,
    told_apart,
    words,
)
from clew.index.chat.tree import Part, Tree
from clew.index.read.web.html import page_of

DIRECT = "direct messages, which are read only where asked for"
_MESSAGES = re.compile(r"messages-\d+\.json")
_TABLES = ("zerver_stream", "zerver_recipient", "zerver_userprofile", "zerver_subscription")
_PEOPLE = ("zerver_userprofile", "zerver_userprofile_crossrealm", "zerver_userprofile_mirrordummy")
_WORDS = ("id", "sender", "recipient", "subject", "content", "rendered_content")
_KEPT = (*_WORDS, "date_sent", "pub_date", "last_edit_time")
_PERSON, _STREAM = 1, 2  # what a recipient may be; 3 is a group
_MENTION = re.compile(r"@_?\*\*([^*|\n]+)(?:\|\d+)?\*\*")
_PLACE = re.compile(r"#\*\*([^*\n]+)\*\*")
_UPLOAD = re.compile(r"!?\[([^\]\n]*)\]\((/user_uploads/[^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((https?://[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class _Realm:
    """The tables of an organisation: people, and of each recipient whether it is a stream and what it is called."""

    people: Mapping[int, str]
    bots: frozenset[int]
    channels: Mapping[int, str]
    direct: frozenset[int]
    persons: Mapping[int, int]  # of a recipient that is one person: who

    def channel(self, row: Mapping[str, Any]) -> str:
        """The stream or group that a message was sent to; of two people both, whoever wrote."""
        recipient = row["recipient"]
        if recipient in self.persons:
            pair = {self.persons[recipient], row["sender"]}
            return ", ".join(sorted(self.people.get(one) or name_of(one) for one in pair))
        return self.channels.get(recipient) or f"recipient {recipient}"


def zulip_root(tree: Tree) -> Tree | None:
    """The folder that realm.json and the messages stand in; None where they do not."""
    for root in tree.roots():
        parts = root.parts()
        if "realm.json" in parts and any(map(_MESSAGES.fullmatch, parts)) and is_json(parts["realm.json"], "{"):
            return root
    return None


def zulip(root: Tree, notes: Notes, *, direct: bool) -> Iterator[tuple[str, list[Message]]]:
    """Each stream with its messages; the first of a topic names it, and the others reply to that."""
    parts = root.parts()
    realm = _realm(parts["realm.json"])
    with TemporaryFile() as file:
        places: dict[tuple[str, bool], array[int]] = {}  # by channel, and whether it is a stream
        for name in filter(_MESSAGES.fullmatch, parts):
            for row in _rows(parts[name], notes):
                is_stream = row["recipient"] not in realm.direct
                if not is_stream and not direct:
                    notes.note(DIRECT)
                    continue
                places.setdefault((realm.channel(row), is_stream), array("q")).append(file.tell())
                file.write(json.dumps(row).encode() + b"\n")
        for (channel, is_stream), starts in places.items():
            found: dict[int, dict[str, Any]] = {}
            for start in starts:
                file.seek(start)
                row = json.loads(file.readline())
                notes.note(REPEATED, row["id"] in found)
                found[row["id"]] = row
            yield channel, _channel(found, realm, channel=channel, is_stream=is_stream, uri=root.uri, notes=notes)


def _realm(part: Part) -> _Realm:
    people: dict[int, str] = {}
    bots: set[int] = set()
    streams: dict[int, str] = {}
    recipients: dict[int, tuple[int, int]] = {}
    members: dict[int, set[int]] = {}
    with scanned(part) as scanner:
        for key in scanner.fields():
            if key not in (*_TABLES, *_PEOPLE) or scanner.peek() != "[":
                continue
            for row in scanner.rows():
                each = table(row)
                number = each.get("id")
                if not isinstance(number, int):
                    continue
                if key in _PEOPLE:
                    people[number] = name_of(each.get("full_name"), each.get("email"), number)
                    bots |= {number} if each.get("is_bot") is True else set()
                elif key == "zerver_stream":
                    streams[number] = name_of(each.get("name"), number)
                elif key == "zerver_recipient":
                    recipients[number] = (each.get("type", 0), each.get("type_id", 0))
                elif isinstance(each.get("recipient"), int) and isinstance(each.get("user_profile"), int):
                    members.setdefault(each["recipient"], set()).add(each["user_profile"])
    names: dict[str, str] = {}
    for recipient, (kind, target) in recipients.items():
        if kind == _STREAM:
            names[str(recipient)] = streams.get(target) or f"stream {target}"
        elif kind != _PERSON:
            names[str(recipient)] = ", ".join(sorted(people.get(one, str(one)) for one in members.get(recipient, ())))
    channels = {int(key): name for key, name in told_apart(names).items()}
    direct = frozenset(recipient for recipient, (kind, _) in recipients.items() if kind != _STREAM)
    persons = {recipient: target for recipient, (kind, target) in recipients.items() if kind == _PERSON}
    return _Realm(people, frozenset(bots), channels, direct, persons)


def _rows(part: Part, notes: Notes) -> Iterator[dict[str, Any]]:
    """The messages of a file, as far as they are used."""
    with scanned(part) as scanner:
        for key in scanner.fields():
            if key != "zerver_message" or scanner.peek() != "[":
                continue
            for row in scanner.rows():
                if row is None or not isinstance(row.get("id"), int) or not isinstance(row.get("recipient"), int):
                    notes.note(UNREADABLE)
                    continue
                yield {field: row.get(field) for field in _KEPT}


def _channel(
    found: Mapping[int, Mapping[str, Any]], realm: _Realm, *, channel: str, is_stream: bool, uri: str, notes: Notes
) -> list[Message]:
    topics: dict[str, int] = {}
    messages = []
    for number, row in sorted(found.items()):
        text = plain(words(row["content"])) or _rendered(words(row["rendered_content"]), uri=uri)
        if not text:
            notes.note(EMPTY)
            continue
        at = from_epoch(row["date_sent"] if row["date_sent"] is not None else row["pub_date"])
        notes.note(UNDATED, at is None)
        notes.note(EDITED, row["last_edit_time"] is not None)
        topic = name_of(words(row["subject"])) if is_stream else ""
        first = topics.setdefault(topic.lower(), number) if is_stream else number
        sender = row["sender"]
        messages.append(
            Message(
                f"{topic}\n\n{text}" if topic and first == number else text,
                author=realm.people.get(sender) or name_of(sender),
                at=at,
                id=str(number),
                channel=channel,
                reply_to=str(first) if first != number else None,
                role="bot" if sender in realm.bots else "user",
            )
        )
    return in_order(messages)


def plain(content: str) -> str:
    """What a message says, its mentions, streams, uploads and links spelled out."""
    text = _MENTION.sub(r"@\1", unescape(content))
    text = _PLACE.sub(r"#\1", text)
    text = _UPLOAD.sub(lambda match: f"[file: {match[1] or match[2].rpartition('/')[2]}]", text)
    return tidy(_LINK.sub(r"\1 (\2)", text))


def _rendered(html: str, *, uri: str) -> str:
    """The words of a message that is kept as HTML alone."""
    return tidy("\n\n".join(block.text for block in page_of(html, uri=uri).blocks)) if html else ""
