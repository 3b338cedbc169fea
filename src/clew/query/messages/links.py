"""Links in both directions: the documents a document cites, and the threads that cite it."""

from collections.abc import Callable, Iterable

from clew.core.filter import Filter
from clew.core.links import extract_links, is_link_to, parse_link
from clew.core.thread import THREAD_KIND
from clew.core.types import Chunk, Document, DocumentRecord
from clew.core.window import Links

Read = Callable[[str], Document]
Scan = Callable[[Filter], Iterable[Chunk]]


def find_links(document: Document, *, records: Iterable[DocumentRecord], scan: Scan, read: Read) -> Links:
    """The documents this one links to, in order of appearance, and the threads whose messages link to it."""
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
