"""Discord: the JSON files of DiscordChatExporter, each a channel or a stretch of one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.core.types import Message
from clew.index.chat.scan import scanned
from clew.index.chat.tidy import (
    EDITED,
    EMPTY,
    NOTICES,
    REPEATED,
    UNDATED,
    UNREADABLE,
    Notes,
    bracketed,
    from_iso,
    in_order,
    lines,
    name_of,
    rows,
    table,
    tidy,
    told_apart,
    words,
)
from clew.index.chat.tree import NotSpelled, Part

_SAID = frozenset({"Default", "Reply", "0", "19"})  # a type that the exporter does not know stands as its number
_PERSON = re.compile(r"<@!?(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")


def is_discord(part: Part) -> bool:
    """Whether a file has the shape of an exported channel, seen by what stands before its messages."""
    try:
        return "channel" in _head(part)
    except NotSpelled:
        return False


def discord(parts: Sequence[Part], notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """Each channel with its messages; a thread is a channel of its own, named below the one it belongs to."""
    of: dict[str, list[Part]] = {}
    names: dict[str, str] = {}
    for part in parts:
        head = _head(part)
        channel = table(head.get("channel"))
        key = name_of(channel.get("id"), channel.get("name")) or part.stem
        name = name_of(channel.get("name")) or part.stem
        if "thread" in words(channel.get("type")).lower() and (above := name_of(channel.get("category"))):
            name = f"{above}/{name}"
        names[key] = name
        of.setdefault(key, []).append(part)
    for key, name in told_apart(names).items():
        found: dict[str, Message] = {}
        for part in of[key]:
            for message in _messages(part, channel=name, notes=notes):
                notes.note(REPEATED, message.id in found)
                found[message.id] = message
        yield name, in_order(found.values())


def _head(part: Part) -> dict[str, Any]:
    """What stands before the messages of a file: the guild and the channel; empty where it is no such file."""
    head: dict[str, Any] = {}
    with scanned(part, at_sight=True) as scanner:
        if scanner.peek() != "{":
            return {}
        for key in scanner.fields():
            if key == "messages":
                return head if table(head.get("guild")) and table(head.get("channel")) else {}
            if not head and key != "guild":  # an exported channel begins with its guild, other JSON is not read on
                return {}
            head[key] = scanner.value()
    return {}


def _messages(part: Part, *, channel: str, notes: Notes) -> Iterator[Message]:
    with scanned(part) as scanner:
        for key in scanner.fields():
            if key == "messages":
                for row in scanner.rows():
                    if row is None or not name_of(row.get("id")):
                        notes.note(UNREADABLE)
                    elif str(row.get("type", "Default")) not in _SAID:
                        notes.note(NOTICES)
                    elif message := _message(row, channel=channel, notes=notes):
                        yield message
                    else:
                        notes.note(EMPTY)


def _message(row: Mapping[str, Any], *, channel: str, notes: Notes) -> Message | None:
    """The message of a row, None where it says nothing."""
    text = _text(row)
    if not text:
        return None
    author = table(row.get("author"))
    at = from_iso(row.get("timestamp"), notes)
    notes.note(EDITED, bool(row.get("timestampEdited")))
    notes.note(UNDATED, at is None)
    return Message(
        text,
        author=name_of(author.get("nickname"), author.get("name"), author.get("id")),
        at=at,
        id=name_of(row.get("id")),
        channel=channel,
        reply_to=name_of(table(row.get("reference")).get("messageId")) or None,
        role="bot" if author.get("isBot") is True else "user",
    )


def _text(row: Mapping[str, Any]) -> str:
    people = {
        name_of(one.get("id")): name_of(one.get("nickname"), one.get("name")) for one in rows(row.get("mentions"))
    }
    content = _PERSON.sub(lambda match: f"@{people.get(match[1]) or match[1]}", words(row.get("content")))
    content = _EMOJI.sub(r"\1", content)
    embeds = (_embed(embed, content) for embed in rows(row.get("embeds")))
    files = (bracketed("file", name_of(file.get("fileName"))) for file in rows(row.get("attachments")))
    stickers = (bracketed("sticker", name_of(sticker.get("name"))) for sticker in rows(row.get("stickers")))
    return tidy(lines(content, *embeds, *files, *stickers))


def _embed(embed: Mapping[str, Any], content: str) -> str:
    """A card below a message; of the preview of a link that stands in the message, its title alone."""
    title, address = name_of(embed.get("title")), words(embed.get("url"))
    if address and address in content:
        return bracketed("link", title) if title else ""
    fields = (
        ": ".join(filter(None, (words(field.get(key)) for key in ("name", "value"))))
        for field in rows(embed.get("fields"))
    )
    return lines(f"{title} ({address})" if title and address else title, words(embed.get("description")), *fields)
