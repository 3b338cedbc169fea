"""The rows of a document in a folder, whether or not they are as written, for what mends it."""

import sqlite3

from clew.drivers.store import codec
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.entries import facets_to_json
from clew.drivers.store.evidence import RawDocument, parse_spans


def read_raw(db: sqlite3.Connection, doc_id: str) -> RawDocument:
    """The rows of a document, or NotFound. Bytes that are no text are read as a text that no checksum has."""
    before, db.text_factory = db.text_factory, lambda data: data.decode("utf-8", "replace")
    try:
        found = db.execute(
            f"SELECT d.facets, {codec.RECORD_COLUMNS} FROM documents d WHERE d.id = ?", (doc_id,)
        ).fetchone()
        if not found:
            raise not_found_error(doc_id)
        facets, *record = found
        doc = record[-2]
        pieces = db.execute(f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = ? ORDER BY n", (doc,)).fetchall()
        chunks = db.execute(
            f"SELECT {codec.RAW_CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc WHERE c.doc = ?", (doc,)
        ).fetchall()
    finally:
        db.text_factory = before
    spans, counts = parse_spans(chunks)
    return RawDocument(record, pieces, spans, counts, lambda document: facets == facets_to_json(document))
