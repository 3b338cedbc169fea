"""The rows of a document on a server, whether or not they are as written, for what mends it."""

from psycopg import Connection

from clew.core.types import Document
from clew.drivers.store import codec
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.entries import facets_to_json
from clew.drivers.store.evidence import RawDocument, parse_spans
from clew.drivers.store.postgres import insert
from clew.drivers.store.postgres.connect.pool import fetch_rows


def read_raw(connection: Connection, number: int, doc_id: str) -> RawDocument:
    """The rows of a document, or NotFound."""
    found = fetch_rows(
        connection,
        f"SELECT d.facets, {codec.RECORD_COLUMNS} FROM documents d WHERE d.collection = %s AND d.id = %s",
        (number, doc_id),
    )
    if not found:
        raise not_found_error(doc_id)
    facets, *record = found[0]
    key = (record[-2],)
    pieces = fetch_rows(connection, f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = %s ORDER BY n", key)
    spans, counts = parse_spans(
        fetch_rows(
            connection,
            f"SELECT {codec.RAW_CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc WHERE c.doc = %s",
            key,
        )
    )

    def is_filtered_so(document: Document) -> bool:
        return bool(facets == insert.hash_facets(facets_to_json(document)).tolist())

    return RawDocument(record, pieces, spans, counts, is_filtered_so)
