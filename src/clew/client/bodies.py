"""The nouns as the server takes them: filters, times, messages, documents, queries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from clew.client.errors import ServerError
from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Document, Message

_SETS = ("documents", "kinds", "channels", "authors", "access")


def query_to_body(
    query: str | Sequence[Message],
    k: int | None,
    strategy: str | None,
    where: Filter,
    history: Sequence[Message] = (),
) -> dict[str, Any]:
    """What every request that searches says."""
    asked = query if isinstance(query, str) else messages_to_body(query)
    said = messages_to_body(history)
    return {"query": asked, "k": k, "strategy": strategy, "where": filter_to_body(where), "history": said}


def filter_to_body(where: Filter) -> dict[str, Any] | None:
    """A Filter as the server takes it; None for everything. Filters joined by `or` and `and` are for keys."""
    if where == EVERYTHING:
        return None
    if where.any_of is not None or where.all_of:
        raise ServerError("a request takes one filter; give a key the joined one, or ask for each side by itself")
    made: dict[str, Any] = {name: sorted(value) for name in _SETS if (value := getattr(where, name)) is not None}
    made |= {name: time_to_body(getattr(where, name)) for name in ("since", "until")}
    meta = {key: list(value) if isinstance(value, tuple | frozenset) else value for key, value in where.meta.items()}
    return drop_missing({**made, "meta": meta or None})


def messages_to_body(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as the server takes them."""
    names = ("text", "author", "id", "channel", "reply_to", "role")
    return [{**_pick(each, *names), **drop_missing({"at": time_to_body(each.at)})} for each in messages]


def document_to_body(document: Document) -> dict[str, Any]:
    """A document as the server takes it."""
    return {**_pick(document, "id", "text", "title", "uri", "kind"), "meta": dict(document.meta)}


def time_to_body(time: datetime | None) -> str | None:
    """A time as the server takes it."""
    return None if time is None else time.isoformat()


def drop_missing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in given.items() if value is not None}


def _pick(noun: Document | Message, *names: str) -> dict[str, Any]:
    """The named fields of a noun, and who may see it."""
    access = None if noun.access is None else sorted(noun.access)
    return drop_missing({**{name: getattr(noun, name) for name in names}, "access": access})
