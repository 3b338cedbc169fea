"""The fingerprint of a document, by which a source is known to be unchanged."""

from clew.core.ids import digest
from clew.core.types import Document


def fingerprint_document(document: Document) -> str:
    """A digest of everything in a document: text, sections, title, uri, meta and who may see it."""
    sections = [
        f"{s.start} {s.end} {s.parent} {s.page} {s.at} {s.guessed} {s.label}\x1f{s.id}\x1f{s.author}"
        + ("" if s.access is None else f"\x1f{sorted(s.access)}")
        + ("" if s.awaits is None else f"\x1e{s.awaits}")
        for s in document.sections
    ]
    meta = [f"{key}\x1f{document.meta[key]!r}" for key in sorted(document.meta)]
    head = (document.kind, document.title, document.uri, document.summary, document.text)
    access = [] if document.access is None else [f"\x1d{sorted(document.access)}"]
    return digest(*head, *sections, "\x1e", *meta, *access)
