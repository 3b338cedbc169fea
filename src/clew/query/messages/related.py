"""Related documents: links in both directions, and the posts that a conversation is about."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from clew.core.filter import Filter
from clew.core.links import extract_links, is_link_to, parse_link
from clew.core.small_talk import is_small_talk
from clew.core.thread import THREAD_KIND
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Message
from clew.core.window import Failure, Links, RagContext, RagErrorReason, RagOutcome, RagRecord, Success
from clew.query.context.format.renderers import RenderInput, describe_post, related_posts
from clew.query.context.merge import as_merged_chunk
from clew.query.messages.table import Table, read_messages_from_table

Read = Callable[[str], Document]
Scan = Callable[[Filter], Iterable[Chunk]]
log = logging.getLogger("clew")
Search = Callable[[tuple[Message, ...]], list[Hit]]
Records = Callable[[list[Hit]], Mapping[str, DocumentRecord]]


def find_links(document: Document, *, records: Iterable[DocumentRecord], scan: Scan, read: Read) -> Links:
    """Find the documents this one links to, in order of appearance, and the threads whose messages link to it."""
    known = list(records)
    named: dict[str, list[DocumentRecord]] = {}
    for record in known:
        if record.kind != THREAD_KIND and record.id != document.id and (link := parse_link(record.uri)):
            named.setdefault(link.name, []).append(record)
    cites: dict[str, DocumentRecord] = {}
    for link in extract_links(document.text):
        cites.update((record.id, record) for record in named.get(link.name, ()) if is_link_to(link, record.uri))
    return Links(tuple(cites.values()), tuple(_find_linking_threads(document, known, scan, read)))


def _find_linking_threads(
    document: Document, known: Iterable[DocumentRecord], scan: Scan, read: Read
) -> Iterable[DocumentRecord]:
    own = parse_link(document.uri)
    if document.kind == THREAD_KIND or own is None:
        return
    where = Filter(kinds=frozenset({THREAD_KIND}), meta={"links": own.name})
    threads = {chunk.doc_id for chunk in scan(where)}
    for record in known:
        if record.id in threads and any(is_link_to(link, document.uri) for link in extract_links(read(record.id).text)):
            yield record


def query_rag_for_context(table: Table, *, search: Search, records: Records) -> RagOutcome:
    """Return the posts a conversation is about as text and records, or why there are none; never raises.

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
