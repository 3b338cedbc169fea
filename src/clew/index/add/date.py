"""The time of a document in the write path: what its sections or metadata say, else that of its file."""

from dataclasses import replace
from datetime import datetime

from clew.core.types import Document
from clew.index.read.text.front_matter import parse_updated_time


def date_document(document: Document, modified: datetime | None) -> Document:
    """The document with a time on every section, unless some have one: that of its metadata, else of its file."""
    if any(section.at for section in document.sections):
        return document
    at = parse_updated_time(document.meta) or modified
    if at is None:
        return document
    return replace(document, sections=tuple(replace(section, at=at) for section in document.sections))
