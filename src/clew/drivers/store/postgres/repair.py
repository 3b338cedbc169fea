"""The repairs of a collection on a server: rows that cannot be trusted go, and counts are added up again."""

from collections.abc import Sequence

from psycopg import Connection

from clew.core.doctor import Defect
from clew.core.errors import NotFound
from clew.drivers.store.inspection import find_bad_jobs, find_bad_sessions, find_ids
from clew.drivers.store.mend import plan_mending
from clew.drivers.store.postgres import insert
from clew.drivers.store.postgres.connect.pool import fetch_rows
from clew.drivers.store.postgres.raw import read_raw
from clew.drivers.store.postgres.write import lock_documents

COUNTS = {
    "documents": "SELECT count(*) FROM documents WHERE collection = {0}",
    "chunks": "SELECT count(*) FROM chunks WHERE collection = {0}",
    "length": "SELECT coalesce(sum(length), 0)::int8 FROM chunks WHERE collection = {0}",
}
_OF_DOCUMENTS = "collection = {0} AND NOT EXISTS (SELECT FROM documents d WHERE d.row = "
ORPHANS = {
    "chunks": f"{_OF_DOCUMENTS}chunks.doc)",
    "pieces": f"{_OF_DOCUMENTS}pieces.doc)",
    "blocks": f"{_OF_DOCUMENTS}blocks.doc)",
    "summaries": f"{_OF_DOCUMENTS}summaries.row)",
    "outlines": f"{_OF_DOCUMENTS}outlines.row AND d.kind = outlines.kind)",
    "claims": f"{_OF_DOCUMENTS}claims.row)",
    "signals": "collection = {0} AND NOT EXISTS (SELECT FROM chunks c WHERE c.row = signals.row)",
    "postings": "collection = {0} AND NOT EXISTS (SELECT FROM chunks c WHERE c.row = postings.chunk)",
    "shadows": "collection = {0} AND NOT EXISTS (SELECT FROM chunks c WHERE c.row = shadows.row)",
    "summary_shadows": "collection = {0} AND NOT EXISTS (SELECT FROM summaries u WHERE u.row = summary_shadows.row)",
}


def repair_tables(connection: Connection, number: int, defects: Sequence[Defect]) -> None:
    """Removes documents that cannot be trusted, marks chunks that are to be replaced, and adds up the counts again."""
    damaged, rechunked = find_ids(defects, "mend", "keep", "trim", "remove"), find_ids(defects, "rechunk")
    changed = sorted({*rechunked, *find_ids(defects, "recount", "trim")})
    lock_documents(connection, number, sorted({*changed, *damaged}))
    for doc_id in damaged:  # as it is now: another process may have written it anew
        _mend(connection, number, doc_id)
    connection.execute(
        "DELETE FROM chunks c USING documents d WHERE d.row = c.doc AND d.collection = %s"
        " AND d.id = ANY(%s) AND c.collection <> d.collection",
        (number, rechunked),
    )
    connection.execute(  # no fingerprint is 0, so the put that replaces them keeps none; until then they stay
        "UPDATE chunks c SET print = 0 FROM documents d WHERE d.row = c.doc AND d.collection = %s AND d.id = ANY(%s)",
        (number, rechunked),
    )
    for table, condition in ORPHANS.items():
        connection.execute(f"DELETE FROM {table} WHERE {condition.format(number)}")
    _repair_rest(connection, number, defects)
    docs = fetch_rows(
        connection, "SELECT row FROM documents WHERE collection = %s AND id = ANY(%s) ORDER BY row", (number, changed)
    )
    for (doc,) in docs:
        connection.execute(
            "UPDATE pieces p SET chars = length(text), chunks ="
            " (SELECT count(*) FROM chunks c WHERE c.doc = p.doc AND c.piece = p.n)"
            " WHERE p.doc = %s AND p.message IS NOT NULL",
            (doc,),
        )
        connection.execute(
            f"UPDATE documents d SET revision = {insert.NEW_REVISION},"
            " chunks = (SELECT count(*) FROM chunks c WHERE c.doc = d.row),"
            " chars = (SELECT coalesce(sum(length(p.text)), 0) FROM pieces p WHERE p.doc = d.row) WHERE d.row = %s",
            (doc,),
        )
        connection.execute("DELETE FROM blocks WHERE doc = %s", (doc,))
        numbers = fetch_rows(connection, "SELECT n FROM pieces WHERE doc = %s AND message IS NOT NULL", (doc,))
        insert.refresh_blocks(connection, number, doc, [n for (n,) in numbers])
    counts = ", ".join(f"{name} = ({sql.format(number)})" for name, sql in COUNTS.items())
    connection.execute(f"UPDATE collections SET {counts}, change = change + 1 WHERE number = %s", (number,))


def _mend(connection: Connection, number: int, doc_id: str) -> None:
    """Writes what mends a document; without a text that can be trusted it goes."""
    try:
        raw = read_raw(connection, number, doc_id)
    except NotFound:
        return
    mending, doc = plan_mending(raw), raw.record[-2]
    if mending.remedy == "remove":
        connection.execute("DELETE FROM chunks WHERE doc = %s", (doc,))
        connection.execute("DELETE FROM documents WHERE row = %s", (doc,))
    elif mending.remedy:
        if mending.record:
            values = ", ".join(f"{name} = %s" for name in mending.record)
            connection.execute(f"UPDATE documents SET {values} WHERE row = %s", (*mending.record.values(), doc))
        if mending.remedy == "keep":
            connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
        connection.execute("DELETE FROM pieces WHERE doc = %s AND n = ANY(%s)", (doc, list(mending.lost)))
        insert.write_pieces(connection, number, doc, mending.pieces)
        insert.refresh_blocks(connection, number, doc, [each.n for each in mending.pieces if each.message is not None])
        connection.execute(
            "DELETE FROM chunks WHERE doc = %s AND piece NOT IN (SELECT n FROM pieces WHERE doc = %s)", (doc, doc)
        )


def _repair_rest(connection: Connection, number: int, defects: Sequence[Defect]) -> None:
    """Deletes jobs and sessions that cannot be read, and staged vectors; describes threads and documents anew."""
    if any(each.remedy == "delete" and each.area == "truth" for each in defects):
        jobs = find_bad_jobs(
            fetch_rows(connection, "SELECT id, state, request, result FROM jobs WHERE collection = %s", (number,))
        )
        connection.execute("DELETE FROM jobs WHERE collection = %s AND id = ANY(%s)", (number, jobs))
        sessions = find_bad_sessions(
            fetch_rows(connection, "SELECT name, documents, messages FROM sessions WHERE collection = %s", (number,))
        )
        connection.execute("DELETE FROM sessions WHERE collection = %s AND name = ANY(%s)", (number, sessions))
    if any(each.remedy == "discard" for each in defects):
        for table in ("shadows", "summary_shadows"):
            connection.execute(f"DELETE FROM {table} WHERE collection = %s", (number,))
        connection.execute(
            "UPDATE collections SET shadow = NULL, shadow_dim = NULL, shadow_was_used = false WHERE number = %s",
            (number,),
        )
