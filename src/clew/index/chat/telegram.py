"""Telegram: the result.json of one chat, or of all chats of an account."""

from collections.abc import Iterator, Mapping
from typing import Any

from clew.core.types import Message
from clew.index.chat.scan import Scanner, scanned
from clew.index.chat.tidy import (
    EDITED,
    EMPTY,
    NOTICES,
    REPEATED,
    UNDATED,
    UNREADABLE,
    Notes,
    bracketed,
    from_epoch,
    from_iso,
    in_order,
    lines,
    name_of,
    rows,
    table,
    tidy,
    words,
)
from clew.index.chat.tree import NotSpelled, Part

_KINDS = ("personal_chat", "bot_chat", "saved_messages", "replies", "verify_codes")
_GROUPS = ("private_group", "private_supergroup", "public_supergroup", "private_channel", "public_channel")
_CHAT = frozenset({"name", "type", "id", "messages"})
_ACCOUNT = frozenset(
    {"about", "personal_information", "profile_pictures", "stories", "contacts", "frequent_contacts", "sessions"}
    | {"web_sessions", "other_data", "profile_music", "chats", "left_chats"}
)
_MEDIA = {"photo": "photo", "file": "file", "contact_information": "contact", "location_information": "location"}


def is_telegram(part: Part) -> bool:
    """Whether a file has the shape of one chat or of an account, seen by its first keys."""
    try:
        with scanned(part, at_sight=True) as scanner:
            return scanner.peek() == "{" and _is_one(scanner)
    except NotSpelled:
        return False


def _is_one(scanner: Scanner) -> bool:
    kind = ""
    for key in scanner.fields():
        if key in ("chats", "left_chats"):
            return scanner.peek() == "{" and "list" in _first_keys(scanner)
        if key == "messages":
            return kind in (*_KINDS, *_GROUPS) and scanner.peek() == "["
        if key not in _CHAT | _ACCOUNT:
            return False
        if key == "type":
            kind = words(scanner.value())
    return False


def _first_keys(scanner: Scanner) -> list[str]:
    """The keys of an object as far as the first that holds a list."""
    keys = []
    for key in scanner.fields():
        keys.append(key)
        if scanner.peek() == "[":
            break
    return keys


def telegram(part: Part, notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """Each chat with its messages; ids are the chat's and the message's own."""
    with scanned(part) as scanner:
        names: dict[str, str] = {}
        yield from _chats(scanner, names, notes)


def _chats(scanner: Scanner, names: dict[str, str], notes: Notes) -> Iterator[tuple[str, list[Message]]]:
    """The chats of an object: itself, or those of the lists in it. What a chat is called stands before its messages."""
    head: dict[str, Any] = {}
    for key in scanner.fields():
        if key == "messages":
            chat = name_of(head.get("id"), head.get("name")) or "chat"
            name = name_of(head.get("name")) or name_of(head.get("type")).replace("_", " ") or chat
            name = name if names.setdefault(name, chat) == chat else f"{name} ({chat})"
            yield name, _chat(scanner, chat=chat, name=name, notes=notes)
        elif key in ("chats", "left_chats"):
            for inner in scanner.fields():
                if inner == "list":
                    for _ in scanner.items():
                        yield from _chats(scanner, names, notes)
        elif key in ("id", "name", "type"):
            head[key] = scanner.value()


def _chat(scanner: Scanner, *, chat: str, name: str, notes: Notes) -> list[Message]:
    found: dict[str, Message] = {}
    for row in scanner.rows():
        if row is None or not name_of(row.get("id")):
            notes.note(UNREADABLE)
        elif row.get("type", "message") != "message":
            notes.note(NOTICES)
        elif not (text := _text(row)):
            notes.note(EMPTY)
        else:
            message = _message(row, text, chat=chat, name=name, notes=notes)
            notes.note(REPEATED, message.id in found)
            found[message.id] = message
    return in_order(found.values())


def _message(row: Mapping[str, Any], text: str, *, chat: str, name: str, notes: Notes) -> Message:
    at = from_epoch(row["date_unixtime"]) if "date_unixtime" in row else from_iso(row.get("date"), notes)
    notes.note(UNDATED, at is None)
    notes.note(EDITED, "edited" in row)
    answered = name_of(row.get("reply_to_message_id"))
    elsewhere = name_of(row.get("reply_to_peer_id"))  # "channel1234": a message of another chat
    return Message(
        text,
        author=name_of(row.get("from"), row.get("author"), row.get("from_id")) or name,
        at=at,
        id=f"{chat}/{name_of(row.get('id'))}",
        channel=name,
        reply_to=f"{elsewhere.lstrip('abcdefghijklmnopqrstuvwxyz_') or chat}/{answered}" if answered else None,
        role="bot" if row.get("via_bot") and not row.get("from") else "user",
    )


def _text(row: Mapping[str, Any]) -> str:
    """The words of a message, behind whom it was forwarded from and before what is attached."""
    spelled = _joined(row.get("text")) or _joined(row.get("text_entities"))
    forwarded = name_of(row.get("forwarded_from"), row.get("saved_from"))
    media = [bracketed(_kind(row, key), _name(row, key)) for key in _MEDIA if row.get(key)]
    poll = table(row.get("poll"))
    options = "; ".join(name_of(answer.get("text")) for answer in rows(poll.get("answers")))
    asked = f"[poll: {_joined(poll.get('question'))} ({options})]" if poll else ""
    body = lines(spelled, *media, asked)
    return tidy(f"[forwarded from {forwarded}] {body}" if forwarded and body else body)


def _kind(row: Mapping[str, Any], key: str) -> str:
    return name_of(row.get("media_type")).replace("_", " ") or "file" if key == "file" else _MEDIA[key]


def _name(row: Mapping[str, Any], key: str) -> str:
    if key == "file":
        return name_of(row.get("file_name"), row.get("sticker_emoji"), row.get("title")) or _stored(row.get("file"))
    if key == "contact_information":
        contact = table(row.get(key))
        return name_of(f"{words(contact.get('first_name'))} {words(contact.get('last_name'))}")
    return _stored(row.get(key)) if key == "photo" else ""


def _stored(value: object) -> str:
    """The name that a file was stored under; the export says in brackets where it was left out."""
    return "" if words(value).startswith("(") else name_of(words(value).rpartition("/")[2])


def _joined(value: object) -> str:
    """A text as it is, or the parts of one in a row, a link with its address."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = []
    for part in value:
        entity = table(part)
        text, address = (part, "") if isinstance(part, str) else (words(entity.get("text")), words(entity.get("href")))
        parts.append(f"{text} ({address})" if address and address != text else text)
    return "".join(parts)
