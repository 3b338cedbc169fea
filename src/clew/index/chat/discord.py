"""Discord exports: the JSON files of DiscordChatExporter, each a channel or a part of one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.core.errors import MalformedFile, SourceError
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile, open_json_scanner, read_until_failure

_MESSAGE_TYPES = frozenset({"Default", "Reply", "0", "19"})  # the exporter writes unknown types as numbers
_USER_MENTION = re.compile(r"<@!?(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")


def is_discord_export(file: ExportFile) -> bool:
    """Return whether a file is an exported channel, judging by the header before its messages."""
    try:
        return "channel" in _read_export_header(file)
    except MalformedFile:
        return False


def read_discord_export(files: Sequence[ExportFile], notes: n.ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """Yield each channel with its messages; a Discord thread becomes a channel named parent/thread."""
    of: dict[str, list[ExportFile]] = {}
    names: dict[str, str] = {}
    for file in files:
        heads = (_read_export_header(each) for each in (file,))
        head = next(read_until_failure(file, heads, notes, kind="discord"), None)
        if not head:
            if head is not None:
                notes.add_failure(SourceError(file.uri, "is not an exported channel of Discord; export it again"))
            continue
        channel = n.as_object_or_empty(head.get("channel"))
        key = n.pick_first_name(channel.get("id"), channel.get("name")) or file.stem
        name = n.pick_first_name(channel.get("name")) or file.stem
        if "thread" in n.as_text_or_empty(channel.get("type")).lower() and (
            above := n.pick_first_name(channel.get("category"))
        ):
            name = f"{above}/{name}"
        names[key] = name
        of.setdefault(key, []).append(file)
    for key, name in n.disambiguate_names(names).items():
        found: dict[str, Message] = {}
        for file in of[key]:
            messages = _read_messages(file, channel=name, notes=notes)
            for message in read_until_failure(file, messages, notes, kind="discord"):
                notes.count_event(n.REPEATED if found.get(message.id) == message else n.REPLACED, message.id in found)
                found[message.id] = message
        yield name, n.sort_messages_by_time(found.values())


def _read_export_header(file: ExportFile) -> dict[str, Any]:
    """Read the header of a file, with guild and channel; empty if it is not an exported channel."""
    head: dict[str, Any] = {}
    with open_json_scanner(file, lenient=True) as scanner:
        if scanner.peek_character() != "{":
            return {}
        for key in scanner.iter_keys():
            if key == "messages":
                return (
                    head
                    if n.as_object_or_empty(head.get("guild")) and n.as_object_or_empty(head.get("channel"))
                    else {}
                )
            if not head and key != "guild":  # an exported channel begins with its guild; read no other JSON further
                return {}
            head[key] = scanner.read_value()
    return {}


def _read_messages(file: ExportFile, *, channel: str, notes: n.ExportNotes) -> Iterator[Message]:
    with open_json_scanner(file) as scanner:
        for key in scanner.iter_keys():
            if key == "messages":
                for row in scanner.iter_objects():
                    if row is None or not n.pick_first_name(row.get("id")):
                        notes.count_event(n.UNREADABLE)
                    elif str(row.get("type", "Default")) not in _MESSAGE_TYPES:
                        notes.count_event(n.NOTICES)
                    elif message := _parse_message(row, channel=channel, notes=notes):
                        yield message
                    else:
                        notes.count_event(n.EMPTY)


def _parse_message(row: Mapping[str, Any], *, channel: str, notes: n.ExportNotes) -> Message | None:
    """Parse the message of a row; None if it has no text."""
    text = _compose_message_text(row)
    if not text:
        return None
    author = n.as_object_or_empty(row.get("author"))
    at = n.parse_iso_time(row.get("timestamp"), notes)
    notes.count_event(n.EDITED, bool(row.get("timestampEdited")))
    notes.count_event(n.UNDATED, at is None)
    return Message(
        text,
        author=n.pick_first_name(author.get("nickname"), author.get("name"), author.get("id")),
        at=at,
        id=n.pick_first_name(row.get("id")),
        channel=channel,
        reply_to=n.pick_first_name(n.as_object_or_empty(row.get("reference")).get("messageId")) or None,
        role="bot" if author.get("isBot") is True else "user",
    )


def _compose_message_text(row: Mapping[str, Any]) -> str:
    people = {
        n.pick_first_name(one.get("id")): n.pick_first_name(one.get("nickname"), one.get("name"))
        for one in n.as_object_list(row.get("mentions"))
    }
    content = _USER_MENTION.sub(
        lambda match: f"@{people.get(match[1]) or match[1]}", n.as_text_or_empty(row.get("content"))
    )
    content = _EMOJI.sub(r"\1", content)
    embeds = (_format_embed(embed, content) for embed in n.as_object_list(row.get("embeds")))
    files = (
        n.format_attachment_placeholder("file", n.pick_first_name(file.get("fileName")))
        for file in n.as_object_list(row.get("attachments"))
    )
    stickers = (
        n.format_attachment_placeholder("sticker", n.pick_first_name(sticker.get("name")))
        for sticker in n.as_object_list(row.get("stickers"))
    )
    return n.clean_message_text(n.join_nonempty_lines(content, *embeds, *files, *stickers))


def _format_embed(embed: Mapping[str, Any], content: str) -> str:
    """Format an embed; only its title if it previews a link in the message."""
    title, address = n.pick_first_name(embed.get("title")), n.as_text_or_empty(embed.get("url"))
    if address and address in content:
        return n.format_attachment_placeholder("link", title) if title else ""
    fields = (
        ": ".join(filter(None, (n.as_text_or_empty(field.get(key)) for key in ("name", "value"))))
        for field in n.as_object_list(embed.get("fields"))
    )
    return n.join_nonempty_lines(
        f"{title} ({address})" if title and address else title, n.as_text_or_empty(embed.get("description")), *fields
    )
