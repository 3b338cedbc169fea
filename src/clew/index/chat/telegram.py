"""Telegram exports: the result.json of one chat, or of all chats of an account."""

from collections.abc import Iterator, Mapping
from typing import Any

from clew.core.errors import MalformedFile
from clew.core.types import Message
from clew.index.chat import normalise as n
from clew.index.chat.files import ExportFile, JsonScanner, open_json_scanner

_PRIVATE_TYPES = ("personal_chat", "bot_chat", "saved_messages", "replies", "verify_codes")
_GROUP_TYPES = ("private_group", "private_supergroup", "public_supergroup", "private_channel", "public_channel")
_CHAT_KEYS = frozenset({"name", "type", "id", "messages"})
_ACCOUNT_KEYS = frozenset(
    {"about", "personal_information", "profile_pictures", "stories", "contacts", "frequent_contacts", "sessions"}
    | {"web_sessions", "other_data", "profile_music", "chats", "left_chats"}
)
_MEDIA = {"photo": "photo", "file": "file", "contact_information": "contact", "location_information": "location"}


def is_telegram_export(file: ExportFile) -> bool:
    """Return whether a file is the export of a chat or an account, judging by its first keys."""
    try:
        with open_json_scanner(file, lenient=True) as scanner:
            return scanner.peek_character() == "{" and _has_telegram_shape(scanner)
    except MalformedFile:
        return False


def _has_telegram_shape(scanner: JsonScanner) -> bool:
    kind = ""
    for key in scanner.iter_keys():
        if key in ("chats", "left_chats"):
            return scanner.peek_character() == "{" and "list" in _read_first_keys(scanner)
        if key == "messages":
            return kind in (*_PRIVATE_TYPES, *_GROUP_TYPES) and scanner.peek_character() == "["
        if key not in _CHAT_KEYS | _ACCOUNT_KEYS:
            return False
        if key == "type":
            kind = n.as_text_or_empty(scanner.read_value())
    return False


def _read_first_keys(scanner: JsonScanner) -> list[str]:
    """Return the keys of an object up to the first whose value is a list."""
    keys = []
    for key in scanner.iter_keys():
        keys.append(key)
        if scanner.peek_character() == "[":
            break
    return keys


def read_telegram_export(file: ExportFile, notes: n.ExportNotes) -> Iterator[tuple[str, list[Message]]]:
    """Yield each chat with its messages; ids are {chat id}/{message id}."""
    with open_json_scanner(file) as scanner:
        names: dict[str, str] = {}
        yield from _read_chat_lists(scanner, names, notes)


def _read_chat_lists(
    scanner: JsonScanner, names: dict[str, str], notes: n.ExportNotes
) -> Iterator[tuple[str, list[Message]]]:
    """Yield the object as a chat, or the chats of its lists. The name of a chat precedes its messages."""
    head: dict[str, Any] = {}
    for key in scanner.iter_keys():
        if key == "messages":
            chat = n.pick_first_name(head.get("id"), head.get("name")) or "chat"
            name = n.pick_first_name(head.get("name")) or n.pick_first_name(head.get("type")).replace("_", " ") or chat
            name = name if names.setdefault(name, chat) == chat else f"{name} ({chat})"
            yield name, _read_chat_messages(scanner, chat=chat, name=name, notes=notes)
        elif key in ("chats", "left_chats"):
            for inner in scanner.iter_keys():
                if inner == "list":
                    for _ in scanner.iter_items():
                        yield from _read_chat_lists(scanner, names, notes)
        elif key in ("id", "name", "type"):
            head[key] = scanner.read_value()


def _read_chat_messages(scanner: JsonScanner, *, chat: str, name: str, notes: n.ExportNotes) -> list[Message]:
    found: dict[str, Message] = {}
    for row in scanner.iter_objects():
        if row is None or not n.pick_first_name(row.get("id")):
            notes.count_event(n.UNREADABLE)
        elif row.get("type", "message") != "message":
            notes.count_event(n.NOTICES)
        elif not (text := _compose_message_text(row)):
            notes.count_event(n.EMPTY)
        else:
            message = _parse_message(row, text, chat=chat, name=name, notes=notes)
            notes.count_event(n.REPEATED if found.get(message.id) == message else n.REPLACED, message.id in found)
            found[message.id] = message
    return n.sort_messages_by_time(found.values())


def _parse_message(row: Mapping[str, Any], text: str, *, chat: str, name: str, notes: n.ExportNotes) -> Message:
    at = (
        n.parse_epoch_time(row["date_unixtime"]) if "date_unixtime" in row else n.parse_iso_time(row.get("date"), notes)
    )
    notes.count_event(n.UNDATED, at is None)
    notes.count_event(n.EDITED, "edited" in row)
    answered = n.pick_first_name(row.get("reply_to_message_id"))
    elsewhere = n.pick_first_name(row.get("reply_to_peer_id"))  # "channel1234" for a message of another chat
    return Message(
        text,
        author=n.pick_first_name(row.get("from"), row.get("author"), row.get("from_id")) or name,
        at=at,
        id=f"{chat}/{n.pick_first_name(row.get('id'))}",
        channel=name,
        reply_to=f"{elsewhere.lstrip('abcdefghijklmnopqrstuvwxyz_') or chat}/{answered}" if answered else None,
        role="bot" if row.get("via_bot") and not row.get("from") else "user",
    )


def _compose_message_text(row: Mapping[str, Any]) -> str:
    """Return the forwarding note, text and attachments of a message."""
    text = _join_entities(row.get("text")) or _join_entities(row.get("text_entities"))
    forwarded = n.pick_first_name(row.get("forwarded_from"), row.get("saved_from"))
    media = [
        n.format_attachment_placeholder(_get_media_kind(row, key), _get_attachment_name(row, key))
        for key in _MEDIA
        if row.get(key)
    ]
    poll = n.as_object_or_empty(row.get("poll"))
    options = "; ".join(n.pick_first_name(answer.get("text")) for answer in n.as_object_list(poll.get("answers")))
    question = f"[poll: {_join_entities(poll.get('question'))} ({options})]" if poll else ""
    body = n.join_nonempty_lines(text, *media, question)
    return n.clean_message_text(f"[forwarded from {forwarded}] {body}" if forwarded and body else body)


def _get_media_kind(row: Mapping[str, Any], key: str) -> str:
    return n.pick_first_name(row.get("media_type")).replace("_", " ") or "file" if key == "file" else _MEDIA[key]


def _get_attachment_name(row: Mapping[str, Any], key: str) -> str:
    if key == "file":
        return n.pick_first_name(row.get("file_name"), row.get("sticker_emoji"), row.get("title")) or _get_file_name(
            row.get("file")
        )
    if key == "contact_information":
        contact = n.as_object_or_empty(row.get(key))
        return n.pick_first_name(
            f"{n.as_text_or_empty(contact.get('first_name'))} {n.as_text_or_empty(contact.get('last_name'))}"
        )
    return _get_file_name(row.get(key)) if key == "photo" else ""


def _get_file_name(value: object) -> str:
    """Return the name of a stored file; empty for a note in parentheses that the file was not exported."""
    return (
        ""
        if n.as_text_or_empty(value).startswith("(")
        else n.pick_first_name(n.as_text_or_empty(value).rpartition("/")[2])
    )


def _join_entities(value: object) -> str:
    """Return a string, or join a list of entities; a link is followed by its URL."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = []
    for item in value:
        entity = n.as_object_or_empty(item)
        text, address = (
            (item, "")
            if isinstance(item, str)
            else (n.as_text_or_empty(entity.get("text")), n.as_text_or_empty(entity.get("href")))
        )
        texts.append(f"{text} ({address})" if address and address != text else text)
    return "".join(texts)
