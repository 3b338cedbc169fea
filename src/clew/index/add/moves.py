"""Messages of a new thread that are stored elsewhere: moved from another thread, deleted, or with an id of another."""

from collections.abc import Mapping

from clew.core.protocols import Store
from clew.core.thread import is_thread
from clew.core.types import Chunk
from clew.index.add.prepare import Prepared, Source
from clew.index.thread.threads import explain_id_clash, find_deleted_messages


def find_moved_messages(prepared: Prepared, stored: Mapping[str, Chunk]) -> dict[str, set[str]]:
    """The messages of a thread that are stored in other threads of its channel, by the ids of those threads."""
    moved: dict[str, set[str]] = {}
    for chunk in prepared.chunks if is_thread(prepared.document) else ():
        old = stored.get(chunk.id)
        if old and old.doc_id != chunk.doc_id and old.meta.get("channel") == chunk.meta.get("channel"):
            moved.setdefault(old.doc_id, set()).add(str(chunk.meta["message"]))
    return moved


def find_messages_deleted_from(doc_id: str, source: Source | None, store: Store) -> set[str]:
    """The messages of a stored thread that the export should have and does not."""
    if source is None or source.exported_until is None:
        return set()
    return find_deleted_messages(store.document(doc_id), exported_ids=source.exported_ids, until=source.exported_until)


def find_id_clashes(prepared: Prepared, stored: Mapping[str, Chunk]) -> dict[str, str]:
    """The messages of a thread whose ids messages of other channels have, each with the reason to leave it out."""
    clashes: dict[str, str] = {}
    for chunk in prepared.chunks if is_thread(prepared.document) else ():
        old = stored.get(chunk.id)
        home, channel = old and old.meta.get("channel"), chunk.meta.get("channel")
        if home is not None and home != channel:
            message = str(chunk.meta["message"])
            clashes[message] = explain_id_clash(message, home=str(home), channel=str(channel))
    return clashes
