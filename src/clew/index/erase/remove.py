"""The second step of an erasure: documents and messages go, and what was made of them in their threads with them."""

from clew.core.errors import NotFound
from clew.core.protocols import Store
from clew.core.thread import make_first_chunk_id
from clew.index.add.context import IngestContext
from clew.index.add.ingest import drop_messages
from clew.index.erase.select import Selection

MAX_ATTEMPTS = 20  # to change a thread that others write to at the same time


def remove_selection(context: IngestContext, selection: Selection) -> int:
    """Removes what is still there of a selection; how many chunks of others were indexed again without it."""
    store = context.store
    store.drop(list(selection.documents))
    return sum(_remove_messages(context, doc_id, ids) for doc_id, ids in selection.messages.items())


def _remove_messages(context: IngestContext, doc_id: str, ids: frozenset[str]) -> int:
    """Removes messages from a thread, and its summary; how many of the other chunks got another context."""
    before = _read_contexts(context.store, doc_id)
    for _ in range(MAX_ATTEMPTS):
        there = context.store.chunks_by_id([make_first_chunk_id(message_id) for message_id in ids])
        left = sorted({str(chunk.meta["message"]) for chunk in there.values() if chunk.doc_id == doc_id} & ids)
        if not left:
            break
        try:
            drop_messages(context, left)
        except NotFound:  # another process has removed one of them
            continue
    after = _read_contexts(context.store, doc_id)
    return sum(before.get(chunk_id, text) != text for chunk_id, text in after.items())


def _read_contexts(store: Store, doc_id: str) -> dict[str, str]:
    """The contexts of a document's chunks by id; none if the document is not there."""
    try:
        return {chunk.id: chunk.context for chunk in store.chunks(doc_id)}
    except NotFound:
        return {}
