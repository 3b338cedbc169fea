"""Related posts for a conversation, as a value that says success, no hits or failure: it never raises."""

import logging
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from clew.core.outcome import Failure, RagContext, RagErrorReason, RagOutcome, RagRecord, Success
from clew.core.small_talk import is_small_talk
from clew.core.types import DocumentRecord, Hit, Message
from clew.query.context.format.renderers import RenderInput, describe_post, related_posts
from clew.query.context.merge import as_merged_chunk
from clew.query.messages.table import Table, read_messages_from_table

log = logging.getLogger("clew")
Search = Callable[[tuple[Message, ...]], list[Hit]]
Records = Callable[[list[Hit]], Mapping[str, DocumentRecord]]


def query_rag_for_context(table: Table, *, search: Search, records: Records) -> RagOutcome:
    """The posts a conversation is about as prompt text and records, or the reason why there are none; never raises.

    The similarity of a post is the cosine, whatever the hits were ranked by.
    """
    try:
        messages = read_messages_from_table(table)
        if all(is_small_talk(message.text) for message in messages):
            log.info("No messages to ask with")
            return Failure(RagErrorReason.NO_HITS)
        hits = search(messages)
        known = records(hits)
        found = [hit for hit in hits if hit.chunk.doc_id in known]
        if not found:
            log.info("No similar posts found (0 results from all chunks)")
            return Failure(RagErrorReason.NO_HITS)
        found.sort(key=lambda hit: -hit.similarity)  # stable: equal ones stay in the order of the search
        text = related_posts([as_merged_chunk(hit) for hit in found], RenderInput(known))
        return Success(RagContext(text, tuple(_to_rag_record(hit, known[hit.chunk.doc_id]) for hit in found)))
    except Exception as error:
        log.exception("RAG query failed: %s", error)
        return Failure(RagErrorReason.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def _to_rag_record(hit: Hit, record: DocumentRecord) -> RagRecord:
    post = describe_post(hit.chunk, record)
    meta = {**record.meta, **hit.chunk.meta}
    return {
        "content": hit.chunk.text,
        "similarity": hit.similarity,
        "document_id": record.id,
        "post_slug": str(meta.get("post_slug") or meta.get("slug") or PurePosixPath(record.uri).stem),
        "post_title": post.title,
        "post_date": post.date,
        "tags": list(post.tags),
        "chunk_index": hit.chunk.index,
        "metadata": meta,
    }
