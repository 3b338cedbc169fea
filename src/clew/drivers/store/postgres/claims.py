"""Claims: who is at work on a document, until when, so that what is paid for is not made twice at the same time."""

from collections.abc import Sequence

from psycopg import Connection

from clew.drivers.store.postgres.connect.pool import fetch_rows


def claim_documents(
    connection: Connection, number: int, doc_ids: Sequence[str], *, owner: str, seconds: float
) -> set[str]:
    """Claims the documents that nobody else has claimed; the ids of those."""
    found = fetch_rows(
        connection,
        "WITH wanted AS (SELECT row, id FROM documents WHERE collection = %s AND id = ANY(%s) ORDER BY row), made AS ("
        "INSERT INTO claims AS c (row, collection, owner, until)"
        " SELECT row, %s, %s, clock_timestamp() + make_interval(secs => %s) FROM wanted"
        " ON CONFLICT (row) DO UPDATE SET owner = excluded.owner, until = excluded.until"
        " WHERE c.owner = excluded.owner OR c.until <= clock_timestamp() RETURNING row)"
        " SELECT w.id FROM wanted w JOIN made USING (row)",
        (number, list(doc_ids), number, owner, float(seconds)),
    )
    return {doc_id for (doc_id,) in found}
