"""Slack exports: a folder or zip with tables of users and channels, and a folder per channel with a file per day."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile, ExportTree, json_starts_with, open_json_scanner
from clew.index.read.guard import wrap_library_errors

_ANGLE_MARKUP = re.compile(r"<([^<>\n]+)>")
_CHANNEL_TABLES = ("channels.json", "groups.json", "mpims.json", "dms.json")
TABLES = ("users.json", *_CHANNEL_TABLES)
_PRIVATE_MARKS = ("is_private", "is_group", "is_mpim", "is_im")  # set by programs that list all conversations alike
_PRIVATE_IDS = ("D", "G")  # prefixes of the ids of direct conversations and private channels
_MAX_LOOKED_AT, _MAX_CHARS = 10, 1_000_000  # files checked in a folder (some may be broken), and characters of each
_DAY_FILE = re.compile(r"\d{4}-\d{2}-\d{2}\.json", re.IGNORECASE)
_TIMESTAMP = re.compile(r'"ts"\s*:\s*"\d+\.\d+"')  # every entry of a day has one; found in broken JSON too
# Messages of people and bots; every other subtype is a notice by Slack.
_MESSAGE_SUBTYPES = frozenset(
    (
        *("", "bot_message", "me_message", "thread_broadcast", "reply_broadcast", "file_share", "file_comment"),
        *("file_mention",),
    )
)


@dataclass(frozen=True, slots=True)
class WorkspaceNames:
    """The names of the users and channels of a workspace, by id."""

    users: Mapping[str, str]
    channels: Mapping[str, str]


def message_to_text(row: Mapping[str, Any], names: WorkspaceNames) -> str:
    """Return the text of a message (or of its blocks), followed by its attachments and files."""
    text = resolve_slack_markup(n.as_text_or_empty(row.get("text")), names)
    if not text.strip():
        text = "".join(_format_block(block, names) for block in n.as_object_list(row.get("blocks")))
    cards = [
        _format_attachment_card(card, names, beside=bool(text.strip()))
        for card in n.as_object_list(row.get("attachments"))
    ]
    files = [
        n.format_attachment_placeholder("file", n.pick_first_name(file.get("name"), file.get("title")))
        for file in _iter_attached_files(row)
    ]
    return n.clean_message_text(n.join_nonempty_lines(text, *cards, *files))


def resolve_slack_markup(text: str, names: WorkspaceNames) -> str:
    """Resolve markup in angle brackets and decode entities."""

    def resolve(match: re.Match[str]) -> str:
        target, _, label = match[1].partition("|")
        kind, name = target[:1], target[1:]
        if kind == "@":
            return f"@{names.users.get(name) or label.removeprefix('@') or name}"
        if kind == "#":
            return f"#{label.removeprefix('#') or names.channels.get(name) or name}"
        if kind == "!":
            # <!here>, <!subteam^S1|@team> and <!date^1700000000^{date}^link|14 November>
            return label or f"@{name.partition('^')[0]}"
        address = target.removeprefix("mailto:")
        return f"{label} ({address})" if label and label not in (target, address, _strip_scheme(address)) else address

    return unescape(_ANGLE_MARKUP.sub(resolve, text))


def _strip_scheme(address: str) -> str:
    """Remove the scheme from a URL, as Slack shows one that was typed without."""
    return re.sub(r"^https?://", "", address)


def _iter_attached_files(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    single = n.as_object_or_empty(row.get("file"))  # exports before 2018 have at most one
    for file in n.as_object_list(row.get("files")) or ([single] if single else []):
        if file.get("mode") not in ("tombstone", "hidden_by_limit"):
            yield file


def _format_attachment_card(card: Mapping[str, Any], names: WorkspaceNames, *, beside: bool) -> str:
    """Format an attachment: the whole text if a bot wrote it, only the title of a link or message preview."""
    title = resolve_slack_markup(n.as_text_or_empty(card.get("title")), names)
    if beside and (card.get("from_url") or card.get("original_url") or card.get("is_msg_unfurl")):
        return n.format_attachment_placeholder("link", n.pick_first_name(title))
    fields = (
        ": ".join(
            filter(
                None, (resolve_slack_markup(n.as_text_or_empty(field.get(key)), names) for key in ("title", "value"))
            )
        )
        for field in n.as_object_list(card.get("fields"))
    )
    body = n.join_nonempty_lines(
        *(resolve_slack_markup(n.as_text_or_empty(card.get(key)), names) for key in ("pretext", "title", "text")),
        *fields,
    )
    return body or resolve_slack_markup(n.as_text_or_empty(card.get("fallback")), names)


def _format_block(block: Mapping[str, Any], names: WorkspaceNames) -> str:
    """Format a block and its elements."""
    kind = block.get("type")
    if kind == "user":
        user_id = n.as_text_or_empty(block.get("user_id"))
        return f"@{names.users.get(user_id) or user_id}"
    if kind == "channel":
        channel_id = n.as_text_or_empty(block.get("channel_id"))
        return f"#{names.channels.get(channel_id) or channel_id}"
    if kind == "link":
        label, address = n.as_text_or_empty(block.get("text")), n.as_text_or_empty(block.get("url"))
        return f"{label} ({address})" if label and label != address else address
    if kind == "emoji":
        return f":{n.as_text_or_empty(block.get('name'))}:"
    own = block.get("text")
    inner = own if isinstance(own, str) else n.as_text_or_empty(n.as_object_or_empty(own).get("text"))
    text = resolve_slack_markup(inner, names) if kind != "text" else inner
    parts = (*n.as_object_list(block.get("elements")), *n.as_object_list(block.get("fields")))
    text += "".join(_format_block(part, names) for part in parts)
    # Text and markup are inline; sections, lists and headers are separate lines.
    return text if kind in ("text", "mrkdwn", "plain_text") else f"{text}\n"


@dataclass(frozen=True, slots=True)
class _Channel:
    """A channel or direct conversation; if it is not public, with its restriction and its members' user ids."""

    id: str
    name: str
    restriction: str = ""
    access: frozenset[str] | None = None


def find_slack_root(tree: ExportTree) -> ExportTree | None:
    """Find the root folder of an export: the tree itself or its only folder; None if neither is one.

    An export has tables of users and channels, or folders of days even if tables are missing or broken.
    """
    for root in tree.find_possible_roots():
        files = root.list_files()
        tables = [files[name] for name in TABLES if name in files]
        is_listed = "users.json" in files and len(tables) > 1
        if (is_listed and all(json_starts_with(file, "[") for file in tables)) or any(
            is_slack_channel(root.list_files(name)) for name in root.list_folders()
        ):
            return root
    return None


def is_day_name(name: str) -> bool:
    """Return whether a file is named like a day of a channel."""
    return _DAY_FILE.fullmatch(name) is not None


def is_slack_day(file: ExportFile) -> bool:
    """Return whether a file has the name and content of a day of a channel."""
    if not is_day_name(PurePosixPath(file.name).name):
        return False
    with file.open_text(lenient=True) as stream:
        return _TIMESTAMP.search(stream.read(_MAX_CHARS)) is not None


def is_slack_channel(files: Mapping[str, ExportFile]) -> bool:
    """Return whether a folder has a file of a day of a channel, checking a few files."""
    for name in islice(filter(is_day_name, files), _MAX_LOOKED_AT):
        with suppress(SourceError):  # reading it reports the error
            if is_slack_day(files[name]):
                return True
    return False


def read_slack_export(root: ExportTree, notes: n.ExportNotes, *, only: str = "") -> Iterator[tuple[str, list[Message]]]:
    """Yield each channel with its messages; ids are {channel}/{timestamp}. `only` is the path of one channel or day.

    Public channels have no access labels. The labels of a private channel or direct conversation are the user ids of
    its members, since names may not be unique. A folder that no table lists has no known members.
    """
    users: dict[str, str] = {}
    channels: dict[str, _Channel] = {}  # by folder
    files = root.list_files()
    for row in _read_json_table(files, "users.json"):
        profile = n.as_object_or_empty(row.get("profile"))
        shown = (profile.get("display_name"), profile.get("real_name"), row.get("real_name"), row.get("name"))
        if key := n.as_text_or_empty(row.get("id")):  # an empty id would match every message without a user
            users[key] = n.pick_first_name(*shown, key)
    for table_name in _CHANNEL_TABLES:
        for row in _read_json_table(files, table_name):
            folder, channel = _parse_channel(row, table_name, users)
            if channel.restriction or folder not in channels:
                channels[folder] = channel
    names = WorkspaceNames(users, {each.id: each.name for each in channels.values()})
    chosen, _, day = only.partition("/")
    for folder in [chosen] if only else root.list_folders():
        channel = channels.get(folder) or _Channel(folder, folder, n.UNLISTED, frozenset())
        days = [file for file in _list_day_files(root, folder, notes) if file.name.endswith(day)]
        messages = _read_channel_messages(days, channel=channel, names=names, notes=notes)
        notes.count_event(channel.restriction, channel.restriction and messages)
        yield channel.name, messages


def _parse_channel(row: Mapping[str, Any], table_name: str, users: Mapping[str, str]) -> tuple[str, _Channel]:
    """Parse a channel; return its folder and the channel."""
    key, name = n.pick_first_name(row.get("id")), n.pick_first_name(row.get("name"), row.get("id"))
    listed = row.get("members")
    members = [each for each in listed if isinstance(each, str) and each] if isinstance(listed, list) else []
    if table_name in ("mpims.json", "dms.json"):
        restriction = n.DIRECT
    else:
        is_marked = key.startswith(_PRIVATE_IDS) or any(map(row.get, _PRIVATE_MARKS))
        restriction = n.PRIVATE if is_marked or table_name == "groups.json" else ""
    folder = key if table_name == "dms.json" else name
    if table_name == "dms.json" and isinstance(listed, list):
        name = ", ".join(sorted(users.get(member, member) for member in members))
    return folder, _Channel(key, name or key, restriction, frozenset(members) if restriction else None)


def _read_channel_messages(
    days: Sequence[ExportFile], *, channel: _Channel, names: WorkspaceNames, notes: n.ExportNotes
) -> list[Message]:
    """Return the messages of a channel with edits applied and deleted messages removed."""
    found: dict[str, Message | None] = {}  # by timestamp; None if it has no text
    deleted: set[str] = set()
    for file in days:
        try:
            with wrap_library_errors(file.uri, format_name="slack export"), open_json_scanner(file) as scanner:
                for row in scanner.iter_objects():
                    _apply_export_entry(
                        n.as_object_or_empty(row), found, deleted, channel=channel, names=names, notes=notes
                    )
        except SourceError as error:  # read the other days
            notes.add_failure(error)
    notes.update({n.DELETED: len(deleted)} if deleted else {})
    return n.sort_messages_by_time(
        message for timestamp, message in found.items() if message is not None and timestamp not in deleted
    )


def _list_day_files(root: ExportTree, folder: str, notes: n.ExportNotes) -> list[ExportFile]:
    try:
        return [file for name, file in root.list_files(folder).items() if is_day_name(name)]
    except SourceError as error:
        notes.add_failure(error)
        return []


def _apply_export_entry(
    row: Mapping[str, Any],
    found: dict[str, Message | None],
    deleted: set[str],
    *,
    channel: _Channel,
    names: WorkspaceNames,
    notes: n.ExportNotes,
) -> None:
    """Apply an entry of the export: a new message, an edit or a deletion."""
    is_edit = row.get("subtype") == "message_changed"
    if is_edit:
        row = n.as_object_or_empty(row.get("message"))
    timestamp, subtype = n.as_text_or_empty(row.get("ts")), n.as_text_or_empty(row.get("subtype"))
    if subtype == "message_deleted":
        deleted.add(
            n.as_text_or_empty(row.get("deleted_ts"))
            or n.as_text_or_empty(n.as_object_or_empty(row.get("previous_message")).get("ts"))
            or timestamp
        )
    elif subtype == "tombstone":
        deleted.add(timestamp)
    elif not timestamp:
        notes.count_event(n.UNREADABLE)
    elif subtype not in _MESSAGE_SUBTYPES:
        notes.count_event(n.NOTICES)
    elif timestamp in found and not is_edit:  # a reply that was also sent to the channel occurs twice
        notes.count_event(n.REPEATED)
    else:
        found[timestamp] = _parse_message(row, timestamp, channel=channel, names=names, notes=notes)
        notes.count_event(n.EDITED, is_edit or "edited" in row)


def _parse_message(
    row: Mapping[str, Any], timestamp: str, *, channel: _Channel, names: WorkspaceNames, notes: n.ExportNotes
) -> Message | None:
    """Parse the message of an entry; None if it has no text."""
    text = message_to_text(row, names)
    if not text:
        notes.count_event(n.EMPTY)
        return None
    at = n.parse_epoch_time(timestamp)
    notes.count_event(n.UNDATED, at is None)
    first = n.as_text_or_empty(row.get("thread_ts"))
    return Message(
        text,
        author=_find_author_name(row, names),
        at=at,
        id=f"{channel.name}/{timestamp}",
        channel=channel.name,
        reply_to=f"{channel.name}/{first}" if first and first != timestamp else None,
        role="bot" if row.get("subtype") == "bot_message" or row.get("bot_id") else "user",
        access=channel.access,
    )


def _find_author_name(row: Mapping[str, Any], names: WorkspaceNames) -> str:
    user = n.as_text_or_empty(row.get("user"))
    if known := names.users.get(user):
        return known
    profile, bot = n.as_object_or_empty(row.get("user_profile")), n.as_object_or_empty(row.get("bot_profile"))
    shown = (profile.get("display_name"), profile.get("real_name"), profile.get("name"))
    return n.pick_first_name(row.get("username"), bot.get("name"), *shown, user, row.get("bot_id"))


def _read_json_table(files: Mapping[str, ExportFile], name: str) -> list[Mapping[str, Any]]:
    if name not in files:
        return []
    with open_json_scanner(files[name]) as scanner:
        if scanner.peek_character() != "[":
            raise SourceError(
                files[name].uri, "is not a table of a Slack export: it is not a JSON list; export it again"
            )
        return n.as_object_list([row for row in scanner.iter_objects() if row])
