"""Checks of what an export holds, beyond its hashes: who can write a file can also write its hashes.

A chunk must be the span of its document that it claims, positions must lie in the text, and every column must have its
type: a citation of a restored document is a quotation of it, as of any other. The labels of a chunk must be those of
its message, or a part of those of its document: a file cannot show what it hides.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from clew.core.sections import find_section_cycle
from clew.core.stored import StoredDocument
from clew.core.thread import THREAD_KIND
from clew.core.types import Chunk, Section
from clew.drivers.store.checks import check_stored_document
from clew.drivers.store.inspection import inspect_stored

MAX_PART_BYTES = 2 << 30  # of a part, unpacked
MAX_MANIFEST_BYTES = 256 << 20
MAX_RATIO = 20  # of a part that is packed once more: Parquet is compressed already
_FREE_BYTES = 1 << 20  # that any part may have
_MESSAGE_TEXTS = ("message", "channel", "author", "reply_to")


class MalformedPart(Exception):
    """A part of an export that does not hold what it should."""


def check_part_size(archive: ZipFile, name: str, *, max_bytes: int = MAX_PART_BYTES) -> None:
    """Raises MalformedPart for an entry that unpacks to more than a part may have, KeyError if it is missing."""
    entry, limit = archive.getinfo(name), max_bytes
    if entry.compress_type != ZIP_STORED:
        limit = min(limit, max(_FREE_BYTES, MAX_RATIO * entry.compress_size))
    if entry.file_size > limit:
        raise MalformedPart(f"it unpacks to {entry.file_size} bytes where {limit} are the most")


def read_part(archive: ZipFile, name: str, *, max_bytes: int = MAX_PART_BYTES) -> bytes:
    """The bytes of an entry; MalformedPart where it unpacks to more than a part may have."""
    check_part_size(archive, name, max_bytes=max_bytes)
    return archive.read(name)


def check_columns(
    table: Any, schema: Iterable[Any], *, optional: Collection[str] = (), nullable: Collection[str] = ()
) -> None:
    """Raises MalformedPart unless the table has the columns of the schema, with their types and without gaps."""
    for field in schema:
        if field.name not in table.column_names:
            if field.name in optional:
                continue
            raise MalformedPart(f"the column {field.name} is missing")
        if table.schema.field(field.name).type != field.type and field.name not in optional:
            raise MalformedPart(f"the column {field.name} is {table.schema.field(field.name).type}, not {field.type}")
        if table[field.name].null_count and field.name not in nullable:
            raise MalformedPart(f"the column {field.name} has gaps")


def check_stored_documents(batch: Iterable[StoredDocument], dim: int, *, seen: set[str]) -> None:
    """Raises MalformedPart for a document whose chunks, sections, vectors or terms do not fit it.

    `seen` has the ids of the documents and chunks of the file so far, and gets those of this batch.
    """
    for stored in batch:
        ids = [f"document {stored.document.id}", *(f"chunk {chunk.id}" for chunk in stored.chunks)]
        is_known = len({*ids}) < len(ids) or not seen.isdisjoint(ids)
        seen.update(ids)
        check_stored_document(stored, dim)
        if wrong := "an id of it comes twice" if is_known else next(_find_faults(stored), ""):
            raise MalformedPart(f"{stored.document.uri or stored.document.id}: {wrong}")


def _find_faults(stored: StoredDocument) -> Iterator[str]:
    """What `doctor` finds in a document, and what only a file can have that Clew did not write."""
    document, chunks, sections = stored.document, stored.chunks, stored.document.sections
    yield from (each.problem for each in inspect_stored(stored, is_pending=True))
    size, starts = len(document.text), [section.start for section in sections]
    if not document.id or not all(chunk.id for chunk in chunks):
        yield "it has no id, or a chunk of it has none"
    if sections and [*starts, size] != [0, *(section.end for section in sections)]:
        yield "its sections do not follow one another from the start of its text to the end"
    if document.kind != THREAD_KIND and any(section.access is not None for section in sections):
        yield "its sections have labels, which only messages may have"
    if find_section_cycle(sections) is not None:
        yield "a section is its own ancestor"
    if any(type(meta) is not dict for meta in (document.meta, *(chunk.meta for chunk in chunks))):
        yield "its meta is not a mapping"
    for place, (chunk, terms) in enumerate(zip(chunks, stored.terms, strict=True)):
        if chunk.doc_id != document.id or not 0 <= chunk.start <= chunk.end <= size:
            yield f"chunk {place} is of another document, or no span of its text"
        if terms.length > MAX_PART_BYTES:
            yield f"chunk {place} has more words than fit a part"
        if "message" in chunk.meta and not _is_message_meta(chunk.meta):
            yield f"chunk {place} has a message, channel or author that is not a text"
        own = islice(sections, max(0, bisect_right(starts, chunk.start) - 1), bisect_left(starts, chunk.end))
        if not _has_labels_of(chunk, own, document.access):
            yield f"the labels of chunk {place} are not those of its document"


def _is_message_meta(meta: Mapping[str, Any]) -> bool:
    return all(type(meta.get(name, "")) is str for name in _MESSAGE_TEXTS) and not any(
        isinstance(member, dict | list)
        for value in meta.values()
        for member in (value if isinstance(value, list) else [value])
    )


def _has_labels_of(chunk: Chunk, sections: Iterable[Section], access: Collection[str] | None) -> bool:
    """Whether a chunk has the labels of its message, or else those of its document or some of them."""
    has_own, own = "access" in chunk.meta, chunk.meta.get("access", [])
    if has_own and (type(own) is not list or any(type(label) is not str for label in own)):
        return False
    labelled = [each.access for each in sections if each.access is not None]
    if labelled:
        return has_own and all(set(own) == labels for labels in labelled)
    return not has_own or access is None or set(own) <= set(access)
