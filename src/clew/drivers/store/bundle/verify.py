"""Checks of what an export holds, beyond its hashes: who can write a file can also write its hashes.

A chunk must be the span of its document that it claims, positions must lie in the text, and every column must have its
type: a citation of a restored document is a quotation of it, as of any other.
"""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from clew.core.sections import find_section_cycle
from clew.core.stored import StoredDocument
from clew.drivers.store.checks import check_stored_document


class MalformedPart(Exception):
    """A part of an export that does not hold what it should."""


def check_columns(table: Any, schema: Any, *, optional: Collection[str] = (), nullable: Collection[str] = ()) -> None:
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
        name = stored.document.uri or stored.document.id
        ids = [f"document {stored.document.id}", *(f"chunk {chunk.id}" for chunk in stored.chunks)]
        if len({*ids}) < len(ids) or not seen.isdisjoint(ids):
            raise MalformedPart(f"{name}: an id of it comes twice")
        seen.update(ids)
        _check_sections(stored, name)
        _check_chunks(stored, name)
        check_stored_document(stored, dim)


def _check_sections(stored: StoredDocument, name: str) -> None:
    sections, at = stored.document.sections, 0
    for position, section in enumerate(sections):
        if section.start != at or section.end < at:
            raise MalformedPart(f"{name}: section {position} does not begin where the one before it ends")
        if section.parent is not None and not 0 <= section.parent < len(sections):
            raise MalformedPart(f"{name}: section {position} is under one that is not there")
        at = section.end
    if sections and at != len(stored.document.text):
        raise MalformedPart(f"{name}: its sections end at {at}, its text at {len(stored.document.text)}")
    if (cycle := find_section_cycle(sections)) is not None:
        raise MalformedPart(f"{name}: section {cycle} is its own ancestor")


def _check_chunks(stored: StoredDocument, name: str) -> None:
    document = stored.document
    for position, (chunk, terms) in enumerate(zip(stored.chunks, stored.terms, strict=True)):
        if (chunk.doc_id, chunk.index) != (document.id, position) or not chunk.id:
            raise MalformedPart(f"{name}: chunk {position} is of another document or place")
        if not 0 <= chunk.start <= chunk.end <= len(document.text):
            raise MalformedPart(f"{name}: chunk {position} is not a span of its text")
        if chunk.text != document.text[chunk.start : chunk.end]:
            raise MalformedPart(f"{name}: the text of chunk {position} is not that of its document")
        if len(terms.hashes) != len(terms.counts) or terms.length < 0 or not np.all(terms.counts):
            raise MalformedPart(f"{name}: the words of chunk {position} do not fit their counts")
