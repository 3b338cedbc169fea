"""Sources that were added in sections: found by the name of the source, and read as one document."""

from collections.abc import Sequence
from dataclasses import replace

from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.thread import THREAD_KIND
from clew.core.types import Document, DocumentRecord
from clew.engine.languages import find_main_language
from clew.engine.opened import Opened, resolve_document
from clew.index.read.sections import PARENT, get_source_uri, join_sections, sort_sections
from clew.index.walk.uri import resolve_document_ids


def read_document_or_sections(opened: Opened, name: str) -> Document:
    """The document of that name, or the sections of the source of that name as one; NotFound if there is neither.

    The name of a file without its folders will do where it is the only one.
    """
    try:
        document = opened.store.document(resolve_document(opened, name))
        return _name_language(opened, document, [document])
    except NotFound:
        if sections := find_sections(opened, name):
            parts = [opened.store.document(record.id) for record in sections]
            return _name_language(opened, join_sections(parts), parts)
        if uri := _find_only_file(opened, name):
            return read_document_or_sections(opened, uri)
        raise


def _name_language(opened: Opened, document: Document, parts: Sequence[Document]) -> Document:
    """The document with the language of the stored ones that it is made of."""
    language = find_main_language(opened.store, parts, language=opened.settings.ingestion.language)
    return replace(document, language=language)


def _find_only_file(opened: Opened, name: str) -> str:
    """The address of the only file with this name, in whatever folder; empty if there is none, or several."""
    records = opened.store.documents() if name and "/" not in name else ()
    uris = {get_source_uri(record) for record in records if record.kind != THREAD_KIND}
    found = [uri for uri in uris if uri.endswith(f"/{name}")]
    return found[0] if len(found) == 1 else ""


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
