"""Slack: a folder or zip with the tables of users and channels, and a folder a channel with a file for each day."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat.scan import is_json, scanned
from clew.index.chat.slack.text import Names, said
from clew.index.chat.tidy import (
    DELETED,
    EDITED,
    EMPTY,
    NOTICES,
    REPEATED,
    UNDATED,
    UNREADABLE,
    Notes,
    from_epoch,
    in_order,
    name_of,
    rows,
    table,
    words,
)
from clew.index.chat.tree import NotSpelled, Part, Tree

_TABLES = ("channels.json", "groups.json", "mpims.json", "dms.json")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
# What people or programs say; every other subtype is a notice of Slack itself.
_SAID = frozenset(
    {
        "",
        "bot_message",
        "me_message",
        "thread_broadcast",
        "reply_broadcast",
        "file_share",
        "file_comment",
        "file_mention",
    }
)


def slack_root(tree: Tree) -> Tree | None:
    """The folder that the tables of an export stand in: the tree's own, or the only one below; None where none does."""
    for root in tree.roots():
        parts = root.parts()
        tables = [parts[name] for name in (*_TABLES, "users.json") if name in parts]
        if not tables or not all(is_json(part, "[") for part in tables):
            continue
        if ("users.json" in parts and len(tables) > 1) or any(_has_days(root, name) for name in root.names()):
            return root
    return None


def slack(root: Tree, notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """Each channel with its messages; ids are the channel's own and the message's time stamp."""
    users: dict[str, str] = {}
    channels: dict[str, tuple[str, str]] = {}  # of a folder: the id and the name of its channel
    parts = root.parts()
    for row in _table(parts, "users.json"):
        profile = table(row.get("profile"))
        shown = (profile.get("display_name"), profile.get("real_name"), row.get("real_name"), row.get("name"))
        users[words(row.get("id"))] = name_of(*shown, row.get("id"))
    for file in _TABLES:
        for row in _table(parts, file):
            key, name = name_of(row.get("id")), name_of(row.get("name"), row.get("id"))
            members = row.get("members")
            if file == "dms.json" and isinstance(members, list):
                name = ", ".join(sorted(users.get(member, member) for member in members if isinstance(member, str)))
            channels[key if file == "dms.json" else name] = (key, name or key)
    names = Names(users, dict(channels.values()))
    for folder in root.names():
        _, name = channels.get(folder, (folder, folder))
        yield name, _channel(root, folder, name=name, names=names, notes=notes)


def _channel(root: Tree, folder: str, *, name: str, names: Names, notes: Notes) -> list[Message]:
    """The messages of a channel as they stood last: edits applied, what was deleted left out."""
    found: dict[str, Message | None] = {}  # by time stamp; None where it says nothing
    gone: set[str] = set()
    for file, part in root.parts(folder).items():
        if _DAY.fullmatch(file):
            with scanned(part) as scanner:
                for row in scanner.rows():
                    _place(table(row), found, gone, name=name, names=names, notes=notes)
    notes.update({DELETED: len(gone)} if gone else {})
    return in_order(message for stamp, message in found.items() if message is not None and stamp not in gone)


def _place(
    row: Mapping[str, Any],
    found: dict[str, Message | None],
    gone: set[str],
    *,
    name: str,
    names: Names,
    notes: Notes,
) -> None:
    """Puts an entry where it belongs: among the messages, over the one it edits, or among what was deleted."""
    is_edit = row.get("subtype") == "message_changed"
    if is_edit:
        row = table(row.get("message"))
    stamp, subtype = words(row.get("ts")), words(row.get("subtype"))
    if subtype == "message_deleted":
        gone.add(words(row.get("deleted_ts")) or words(table(row.get("previous_message")).get("ts")) or stamp)
    elif subtype == "tombstone":
        gone.add(stamp)
    elif not stamp:
        notes.note(UNREADABLE)
    elif subtype not in _SAID:
        notes.note(NOTICES)
    elif stamp in found and not is_edit:  # a reply that was sent to the channel too stands in both
        notes.note(REPEATED)
    else:
        found[stamp] = _message(row, stamp, name=name, names=names, notes=notes)
        notes.note(EDITED, is_edit or "edited" in row)


def _message(row: Mapping[str, Any], stamp: str, *, name: str, names: Names, notes: Notes) -> Message | None:
    """The message of an entry, None where it says nothing."""
    text = said(row, names)
    if not text:
        notes.note(EMPTY)
        return None
    at = from_epoch(stamp)
    notes.note(UNDATED, at is None)
    first = words(row.get("thread_ts"))
    return Message(
        text,
        author=_author(row, names),
        at=at,
        id=f"{name}/{stamp}",
        channel=name,
        reply_to=f"{name}/{first}" if first and first != stamp else None,
        role="bot" if row.get("subtype") == "bot_message" or row.get("bot_id") else "user",
    )


def _author(row: Mapping[str, Any], names: Names) -> str:
    user = words(row.get("user"))
    if known := names.users.get(user):
        return known
    profile, bot = table(row.get("user_profile")), table(row.get("bot_profile"))
    shown = (profile.get("display_name"), profile.get("real_name"), profile.get("name"))
    return name_of(row.get("username"), bot.get("name"), *shown, user, row.get("bot_id"))


def _table(parts: Mapping[str, Part], name: str) -> list[Mapping[str, Any]]:
    if name not in parts:
        return []
    with scanned(parts[name]) as scanner:
        if scanner.peek() != "[":
            raise SourceError(parts[name].uri, "is not a table of a Slack export: it holds no list; export it again")
        return rows([row for row in scanner.rows() if row])


def _has_days(root: Tree, folder: str) -> bool:
    """Whether a folder holds days of messages, seen by the first of them."""
    day = next((part for name, part in root.parts(folder).items() if _DAY.fullmatch(name)), None)
    if day is None or not is_json(day, "["):
        return False
    try:
        with scanned(day, at_sight=True) as scanner:
            first = next(scanner.rows(), None)
    except NotSpelled:  # cut short in its first entry: that is said when it is read
        return True
    return first is None or "ts" in first or "type" in first
