"""The document of a reply of the reader process, checked by the process that asked for it."""

from dataclasses import replace
from typing import Any

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.process import wire
from clew.index.read.sections import NUMBER, PARENT, TOTAL
from clew.index.read.validate import validate_document


def take_document(values: Any, uri: str) -> Document:
    """The document of a reply, as the one that was asked for; a SourceError if the reply is none."""
    try:
        document = wire.decode_document(values)
        sections = tuple(replace(section, access=None) for section in document.sections)
        meta = {key: value for key, value in document.meta.items() if key not in (PARENT, NUMBER, TOTAL)}
        return validate_document(
            Document(make_document_id(uri), document.text, sections, "page", document.title, uri, meta=meta)
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(uri, "cannot be read: its reader gave no document; it is broken") from error
