"""A Slack message as plain text: mentions by name, links with their URLs, attachments and files by title."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from clew.index.chat.normalise import (
    as_object_list,
    as_object_or_empty,
    as_text_or_empty,
    clean_message_text,
    format_attachment_placeholder,
    join_nonempty_lines,
    pick_first_name,
)

_ANGLE_MARKUP = re.compile(r"<([^<>\n]+)>")


@dataclass(frozen=True, slots=True)
class WorkspaceNames:
    """The names of the users and channels of a workspace, by id."""

    users: Mapping[str, str]
    channels: Mapping[str, str]


def message_to_text(row: Mapping[str, Any], names: WorkspaceNames) -> str:
    """The text of a message, or of its blocks, then its attachments and files."""
    text = resolve_slack_markup(as_text_or_empty(row.get("text")), names)
    if not text.strip():
        text = "".join(_format_block(block, names) for block in as_object_list(row.get("blocks")))
    cards = [
        _format_attachment_card(card, names, beside=bool(text.strip()))
        for card in as_object_list(row.get("attachments"))
    ]
    files = [
        format_attachment_placeholder("file", pick_first_name(file.get("name"), file.get("title")))
        for file in _iter_attached_files(row)
    ]
    return clean_message_text(join_nonempty_lines(text, *cards, *files))


def resolve_slack_markup(text: str, names: WorkspaceNames) -> str:
    """The text with markup in angle brackets resolved and entities decoded."""

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
    """The URL without its scheme, as Slack shows one that was typed so."""
    return re.sub(r"^https?://", "", address)


def _iter_attached_files(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    single = as_object_or_empty(row.get("file"))  # exports before 2018 have at most one
    for file in as_object_list(row.get("files")) or ([single] if single else []):
        if file.get("mode") not in ("tombstone", "hidden_by_limit"):
            yield file


def _format_attachment_card(card: Mapping[str, Any], names: WorkspaceNames, *, beside: bool) -> str:
    """The text of an attachment: all of it if a bot wrote it, only the title of a link or message preview."""
    title = resolve_slack_markup(as_text_or_empty(card.get("title")), names)
    if beside and (card.get("from_url") or card.get("original_url") or card.get("is_msg_unfurl")):
        return format_attachment_placeholder("link", pick_first_name(title))
    fields = (
        ": ".join(
            filter(None, (resolve_slack_markup(as_text_or_empty(field.get(key)), names) for key in ("title", "value")))
        )
        for field in as_object_list(card.get("fields"))
    )
    body = join_nonempty_lines(
        *(resolve_slack_markup(as_text_or_empty(card.get(key)), names) for key in ("pretext", "title", "text")), *fields
    )
    return body or resolve_slack_markup(as_text_or_empty(card.get("fallback")), names)


def _format_block(block: Mapping[str, Any], names: WorkspaceNames) -> str:
    """The text of a block and of its elements."""
    kind = block.get("type")
    if kind == "user":
        user_id = as_text_or_empty(block.get("user_id"))
        return f"@{names.users.get(user_id) or user_id}"
    if kind == "channel":
        channel_id = as_text_or_empty(block.get("channel_id"))
        return f"#{names.channels.get(channel_id) or channel_id}"
    if kind == "link":
        label, address = as_text_or_empty(block.get("text")), as_text_or_empty(block.get("url"))
        return f"{label} ({address})" if label and label != address else address
    if kind == "emoji":
        return f":{as_text_or_empty(block.get('name'))}:"
    own = block.get("text")
    inner = own if isinstance(own, str) else as_text_or_empty(as_object_or_empty(own).get("text"))
    text = resolve_slack_markup(inner, names) if kind != "text" else inner
    parts = (*as_object_list(block.get("elements")), *as_object_list(block.get("fields")))
    text += "".join(_format_block(part, names) for part in parts)
    # Text and markup are inline; sections, lists and headers are lines of their own.
    return text if kind in ("text", "mrkdwn", "plain_text") else f"{text}\n"
