"""What a Slack message says, in plain words: mentions by name, links spelled out, files and cards named."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from clew.index.chat.tidy import bracketed, lines, name_of, rows, table, tidy, words

_MARK = re.compile(r"<([^<>\n]+)>")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the users and the channels of a workspace, by id."""

    users: Mapping[str, str]
    channels: Mapping[str, str]


def said(row: Mapping[str, Any], names: Names) -> str:
    """All that a message says: its words, or those of its blocks, then its cards and files."""
    text = plain(words(row.get("text")), names)
    if not text.strip():
        text = "".join(_block(block, names) for block in rows(row.get("blocks")))
    cards = [_card(card, names, beside=bool(text.strip())) for card in rows(row.get("attachments"))]
    files = [bracketed("file", name_of(file.get("name"), file.get("title"))) for file in _files(row)]
    return tidy(lines(text, *cards, *files))


def plain(text: str, names: Names) -> str:
    """The text with what stands in angle brackets spelled out and entities decoded."""

    def spelled(match: re.Match[str]) -> str:
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
        return f"{label} ({address})" if label and label not in (target, address, _short(address)) else address

    return unescape(_MARK.sub(spelled, text))


def _short(address: str) -> str:
    """The address as Slack shows one that was typed without its scheme."""
    return re.sub(r"^https?://", "", address)


def _files(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    single = table(row.get("file"))  # exports of before 2018 have one at most
    for file in rows(row.get("files")) or ([single] if single else []):
        if file.get("mode") not in ("tombstone", "hidden_by_limit"):
            yield file


def _card(card: Mapping[str, Any], names: Names, *, beside: bool) -> str:
    """A card below a message: all of it where a program wrote it, of a link's or message's preview its title alone."""
    title = plain(words(card.get("title")), names)
    if beside and (card.get("from_url") or card.get("original_url") or card.get("is_msg_unfurl")):
        return bracketed("link", name_of(title))
    fields = (
        ": ".join(filter(None, (plain(words(field.get(key)), names) for key in ("title", "value"))))
        for field in rows(card.get("fields"))
    )
    body = lines(*(plain(words(card.get(key)), names) for key in ("pretext", "title", "text")), *fields)
    return body or plain(words(card.get("fallback")), names)


def _block(block: Mapping[str, Any], names: Names) -> str:
    """The words of a block and of what is inside it."""
    kind = block.get("type")
    if kind == "user":
        return f"@{names.users.get(words(block.get('user_id'))) or words(block.get('user_id'))}"
    if kind == "channel":
        return f"#{names.channels.get(words(block.get('channel_id'))) or words(block.get('channel_id'))}"
    if kind == "link":
        label, address = words(block.get("text")), words(block.get("url"))
        return f"{label} ({address})" if label and label != address else address
    if kind == "emoji":
        return f":{words(block.get('name'))}:"
    own = block.get("text")
    inner = own if isinstance(own, str) else words(table(own).get("text"))
    text = plain(inner, names) if kind != "text" else inner
    parts = (*rows(block.get("elements")), *rows(block.get("fields")))
    text += "".join(_block(part, names) for part in parts)
    # Text and marks stand in a line; sections, lists and headers are lines of their own.
    return text if kind in ("text", "mrkdwn", "plain_text") else f"{text}\n"
