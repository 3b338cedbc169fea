"""The first step of an erasure: which documents and messages it removes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.core.filter import Filter
from clew.core.protocols import Store
from clew.core.thread import is_thread


@dataclass(frozen=True, slots=True)
class Selection:
    """The ids of documents that are erased whole, and of single messages by the threads they are in."""

    documents: tuple[str, ...] = ()
    messages: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.documents or self.messages)


def select_author(store: Store, author: str) -> Selection:
    """Select the messages of an author in all threads, and the documents whose meta names the author."""
    documents: list[str] = []
    messages: dict[str, frozenset[str]] = {}
    for record in list(store.documents()):
        document = store.document(record.id)
        if author in flatten_texts(record.meta.get("author")) and not is_thread(document):
            documents.append(record.id)
            continue
        ids = frozenset(section.id for section in document.sections if section.author == author and section.id)
        if ids and len(ids) == len(document.sections):
            documents.append(record.id)
        elif ids:
            messages[record.id] = ids
    return Selection(tuple(documents), messages)


def select_channel(store: Store, channel: str) -> Selection:
    """Select the threads of a channel, and the documents whose meta names it."""
    named = store.documents(Filter(channels=frozenset({channel})))
    # The very name: a filter also takes `#ops` for `ops`, and an erasure cannot be undone.
    return Selection(tuple(each.id for each in named if channel in flatten_texts(each.meta.get("channel"))))


def list_authors(store: Store) -> set[str]:
    """List everybody who wrote a message or is named as the author of a document."""
    names: set[str] = set()
    for record in list(store.documents()):
        names.update(flatten_texts(record.meta.get("author")))
        names.update(section.author for section in store.document(record.id).sections)
    return names - {""}


def flatten_texts(value: Any) -> list[str]:
    """List all texts in a value of meta, or in one parsed from JSON."""
    if isinstance(value, Mapping):
        return [text for member in value.values() for text in flatten_texts(member)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in flatten_texts(member)]
    return [value] if isinstance(value, str) else []
