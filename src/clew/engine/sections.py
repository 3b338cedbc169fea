"""Sources that were added in sections: found by the name of the source, and read as one document."""

from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.types import Document, DocumentRecord
from clew.engine.opened import Opened, resolve_document
from clew.index.read.sections import PARENT, get_source_uri, join_sections, sort_sections
from clew.index.read.uri import resolve_document_ids


def read_document_or_sections(opened: Opened, name: str) -> Document:
    """The document of that name, or the sections of the source of that name as one; NotFound if there is neither."""
    try:
        return opened.store.document(resolve_document(opened, name))
    except NotFound:
        sections = find_sections(opened, name)
        if not sections:
            raise
        return join_sections([opened.store.document(record.id) for record in sections])


def resolve_document_or_sections(opened: Opened, name: str) -> list[str]:
    """The id of the document of that name, or those of the sections of that source in order; NotFound if neither is."""
    try:
        return [resolve_document(opened, name)]
    except NotFound:
        sections = find_sections(opened, name)
        if not sections:
            raise
        return [record.id for record in sections]


def find_sections(opened: Opened, name: str) -> list[DocumentRecord]:
    """The sections of the source that an id, an address or a path names, by number; none if there is no such source."""
    parents = resolve_document_ids(name, opened.root)
    found = sort_sections(list(opened.store.documents(Filter(meta={PARENT: parents}))))
    return found or sort_sections([each for each in opened.store.documents() if get_source_uri(each) == name])
