"""Links both ways: which documents a text names, and which threads name a document."""

from collections.abc import Iterable
from typing import Protocol

from clew.core.links import links_in, means, parsed
from clew.core.thread import KIND
from clew.core.types import Document, DocumentRecord, Filter, Hit
from clew.core.window import Links
from clew.query.messages.similar import Read


class Admitted(Protocol):
    """All chunks that a filter admits, as hits."""

    def __call__(self, where: Filter) -> Iterable[Hit]: ...


def links(document: Document, *, records: Iterable[DocumentRecord], admitted: Admitted, read: Read) -> Links:
    """The documents that this one names, in the order it does, and the threads whose messages name it, by address."""
    known = list(records)
    named: dict[str, list[DocumentRecord]] = {}
    for record in known:
        if record.kind != KIND and record.id != document.id and (link := parsed(record.uri)):
            named.setdefault(link.name, []).append(record)
    cites: dict[str, DocumentRecord] = {}
    for link in links_in(document.text):
        cites.update((record.id, record) for record in named.get(link.name, ()) if means(link, record.uri))
    return Links(tuple(cites.values()), tuple(_citing(document, known, admitted, read)))


def _citing(
    document: Document, known: Iterable[DocumentRecord], admitted: Admitted, read: Read
) -> Iterable[DocumentRecord]:
    own = parsed(document.uri)
    if document.kind == KIND or own is None:
        return
    where = Filter(kinds=frozenset({KIND}), meta={"links": own.name})
    threads = {hit.chunk.doc_id for hit in admitted(where=where)}
    for record in known:
        if record.id in threads and any(means(link, document.uri) for link in links_in(read(record.id).text)):
            yield record
