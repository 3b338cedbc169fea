"""The doctor of a server: what the checksums, counts, postings, filters and graphs say of a collection; its repair."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from psycopg import Connection

from clew.core.doctor import Area, Defect
from clew.core.types import Chunk, Document
from clew.drivers.store import codec
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.entries import DocumentEntries, facets_to_json
from clew.drivers.store.inspection import (
    InspectedStore,
    Listed,
    RawDocument,
    find_bad_jobs,
    find_bad_sessions,
    find_ids,
    inspect_staged,
    restore,
)
from clew.drivers.store.postgres import insert
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.protection import inspect_protection, repair_protection
from clew.drivers.store.postgres.write import drop_documents, lock_documents, put_documents

# Documents with something wrong in an area: what it is, and the ids of them.
_WRONG: tuple[tuple[Area, str, str], ...] = (
    (
        "counts",
        "miscounts its chunks or characters",
        "SELECT d.id FROM documents d WHERE d.collection = {0} AND"
        " (d.chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = d.row)"
        " OR d.chars <> (SELECT coalesce(sum(length(p.text)), 0) FROM pieces p WHERE p.doc = d.row))",
    ),
    (
        "vectors",
        "has chunks without a vector",
        "SELECT DISTINCT d.id FROM documents d JOIN chunks c ON c.doc = d.row WHERE d.collection = {0}"
        " AND NOT EXISTS (SELECT FROM signals s WHERE s.row = c.row)",
    ),
    *(
        (
            "truth",
            f"has rows of {table} that are of another collection",
            f"SELECT DISTINCT d.id FROM documents d {join} WHERE d.collection = {{0}} AND x.collection <> {{0}}",
        )
        for table, join in (
            ("chunks", "JOIN chunks x ON x.doc = d.row"),
            ("signals", "JOIN chunks c ON c.doc = d.row JOIN signals x ON x.row = c.row"),
        )
    ),
    (
        "filters",
        "is not described as it is to those who see a part of it",
        "SELECT d.id FROM documents d LEFT JOIN outlines o ON o.row = d.row WHERE d.collection = {0}"
        " AND (d.kind = 'thread') AND (o.row IS NULL OR (o.collection, o.id, o.meta, o.chars, o.chunks, o.pieces,"
        " o.facets, o.access, o.revision) IS DISTINCT FROM (d.collection, d.id, d.meta, d.chars, d.chunks, d.pieces,"
        " d.facets, d.access, d.revision))",
    ),
    (
        "postings",
        "has chunks whose words are not all among the postings",
        "SELECT DISTINCT d.id FROM documents d JOIN chunks c ON c.doc = d.row LEFT JOIN (SELECT p.chunk, count(*) AS n,"
        " sum(p.count) AS total, max(p.count) = 65535 AS capped,"
        " min(p.length) AS low, max(p.length) AS high FROM postings p WHERE p.collection = {0}"
        " GROUP BY p.chunk) x ON x.chunk = c.row WHERE d.collection = {0} AND (coalesce(x.n, 0) <> cardinality(c.words)"
        " OR x.low <> c.length OR x.high <> c.length OR x.total <> c.length AND NOT x.capped)",
    ),
)
_OF_DOCUMENTS = "collection = {0} AND NOT EXISTS (SELECT FROM documents d WHERE d.row = "
_OF_CHUNKS = "collection = {0} AND NOT EXISTS (SELECT FROM chunks c WHERE c.row = "
_ORPHANS = {
    **{table: f"{_OF_DOCUMENTS}{table}.doc)" for table in ("chunks", "pieces", "blocks")},
    **{table: f"{_OF_DOCUMENTS}{table}.row)" for table in ("summaries", "claims")},
    "outlines": f"{_OF_DOCUMENTS}outlines.row AND d.kind = outlines.kind)",
    **{table: f"{_OF_CHUNKS}{table}.row)" for table in ("signals", "shadows")},
    "postings": f"{_OF_CHUNKS}postings.chunk)",
    "summary_shadows": "collection = {0} AND NOT EXISTS (SELECT FROM summaries u WHERE u.row = summary_shadows.row)",
}
_COUNTS = {
    "documents": "SELECT count(*) FROM documents WHERE collection = {0}",
    "chunks": "SELECT count(*) FROM chunks WHERE collection = {0}",
    "length": "SELECT coalesce(sum(length), 0)::int8 FROM chunks WHERE collection = {0}",
}
_UNREAD = {
    "jobs": ("id", "SELECT id, state, request, result FROM jobs WHERE collection = {0}", find_bad_jobs),
    "sessions": ("name", "SELECT name, documents, messages FROM sessions WHERE collection = {0}", find_bad_sessions),
}
_FACETS = (
    "SELECT c.id, CASE WHEN c.words[:cardinality(s.facets)] = s.facets THEN s.facets END, s.seconds FROM documents d"
    " JOIN chunks c ON c.doc = d.row JOIN signals s ON s.row = c.row WHERE d.collection = %s AND d.id = ANY(%s)"
)
_DOCUMENT_FACETS = (
    "SELECT d.id, CASE WHEN coalesce(u.facets, d.facets) = d.facets THEN d.facets END FROM documents d"
    " LEFT JOIN summaries u ON u.row = d.row WHERE d.collection = %s AND d.id = ANY(%s)"
)
_GRAPHS = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relname IN"
    " ('signals_graph_{0}', 'summaries_graph_{0}') AND c.relnamespace = 'clew'::regnamespace"
)


class InspectMethods(InspectedStore):
    """What `doctor` asks of a store; part of PostgresStore."""

    _pool: Pool
    _collection: OpenCollection

    def list_raw(self) -> list[Listed]:
        """Every document."""
        sql = "SELECT id, chunks, coalesce(nullif(uri, ''), title) FROM documents WHERE collection = %s"
        return [Listed(*row) for row in self._pool.fetch_rows(sql, (self._collection.number,))]

    def inspect_tables(self, *, is_quick: bool) -> list[Defect]:  # noqa: ARG002
        """What is wrong with the tables."""
        number = self._collection.number
        return self._pool.run_read(lambda connection: list(inspect_tables(connection, number)))

    def read_raw(self, doc_id: str) -> RawDocument | None:
        """The rows of a document; None if it is not there."""
        return self._pool.run_read(lambda connection: read_raw(connection, self._collection.number, doc_id))

    def read_facets(self, doc_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What filters see: the facets of documents by id, and facets and seconds of their chunks by id."""
        params = (self._collection.number, list(doc_ids))
        wholes, parts = (self._pool.fetch_rows(sql, params) for sql in (_DOCUMENT_FACETS, _FACETS))
        return dict(wholes), {chunk_id: (facets, seconds) for chunk_id, facets, seconds in parts}

    def make_facets(self, document: Document, chunk: Chunk | None = None) -> Any:
        """The facets that the store writes."""
        return insert.hash_facets(facets_to_json(document, chunk)).tolist()

    def repair(self, defects: list[Defect]) -> None:
        """Keeps what is sound of damaged documents, deletes what belongs to nothing, and adds up the counts again."""
        self._pool.run_transaction(partial(repair_tables, collection=self._collection, defects=defects))
        if any(each.area in ("protection", "index") for each in defects):
            self._pool.run_transaction(repair_protection)


def read_raw(connection: Connection, number: int, doc_id: str) -> RawDocument | None:
    """The rows of a document; None if it is not there."""
    sql = f"SELECT {codec.RECORD_COLUMNS} FROM documents d WHERE d.collection = %s AND d.id = %s"
    record = next(iter(fetch_rows(connection, sql, (number, doc_id))), None)
    if record is None:
        return None
    doc = (record[-2],)
    pieces = fetch_rows(connection, f"SELECT {codec.PIECE_COLUMNS} FROM pieces WHERE doc = %s ORDER BY n", doc)
    sql = f"SELECT {codec.RAW_CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc WHERE c.doc = %s"
    return RawDocument(record, pieces, fetch_rows(connection, sql, doc))


def inspect_tables(connection: Connection, number: int) -> Iterator[Defect]:
    """What is wrong with the tables as a whole."""
    for name, sql in _COUNTS.items():
        sql = f"SELECT ({sql.format(number)}), {name} FROM collections WHERE number = {number}"
        ((real, stored),) = fetch_rows(connection, sql)
        if stored != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "rebuild")
    for area, problem, sql in _WRONG:
        for (doc_id,) in fetch_rows(connection, sql.format(number)):
            yield Defect(area, f"the document {doc_id!r} {problem}", doc_id, "rechunk")
    for table, condition in _ORPHANS.items():
        ((count,),) = fetch_rows(connection, f"SELECT count(*) FROM {table} WHERE {condition.format(number)}")
        if count:
            yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
    for (name,) in fetch_rows(connection, _GRAPHS.format(number)):
        yield Defect("index", f"the graph {name} was not finished; searches scan instead", "", "rebuild")
    yield from inspect_protection(connection)
    for table, (_, sql, find_bad) in _UNREAD.items():
        if bad := find_bad(fetch_rows(connection, sql.format(number))):
            yield Defect("truth", f"{len(bad)} {table} cannot be read", "", "delete")
    yield from _inspect_staged(connection, number)


def _inspect_staged(connection: Connection, number: int) -> Iterator[Defect]:
    rows = f"(SELECT vector FROM shadows WHERE collection = {number} UNION ALL"
    rows += f" SELECT vector FROM summary_shadows WHERE collection = {number}) s"
    sql = f"SELECT shadow, coalesce(shadow_dim, 0), embedder FROM collections WHERE number = {number}"
    ((name, dim, used),) = fetch_rows(connection, sql)
    off = f"vector_dims(vector) <> {dim} OR NOT abs(vector_norm(vector) - 1) <= {UNIT_TOLERANCE}"
    ((count, wrong),) = fetch_rows(connection, f"SELECT count(*), count(*) FILTER (WHERE {off}) FROM {rows}")
    yield from inspect_staged(name, used, count, has_wrong=bool(wrong))


def repair_tables(connection: Connection, collection: OpenCollection, defects: Sequence[Defect]) -> None:
    """Keeps what is sound of damaged documents, deletes what belongs to nothing, and adds up the counts again."""
    number, ids = collection.number, find_ids(defects, "rechunk", "keep", "remove")
    of_ids = " documents d WHERE d.row = c.doc AND d.collection = %s AND d.id = ANY(%s)"
    lock_documents(connection, number, ids)
    restore(
        ids,
        lambda doc_id: read_raw(connection, number, doc_id),
        lambda doc_id: drop_documents(connection, collection, [doc_id]),
        lambda document: put_documents(connection, collection, [DocumentEntries(document, ())]),
    )
    connection.execute(f"DELETE FROM chunks c USING{of_ids} AND c.collection <> d.collection", (number, ids))
    # No fingerprint is 0, so the put that replaces them keeps none; until then they stay.
    connection.execute(f"UPDATE chunks c SET print = 0 FROM{of_ids}", (number, ids))
    for table, condition in _ORPHANS.items():
        connection.execute(f"DELETE FROM {table} WHERE {condition.format(number)}")
    for table, (key, sql, find_bad) in _UNREAD.items():
        bad = find_bad(fetch_rows(connection, sql.format(number)))
        connection.execute(f"DELETE FROM {table} WHERE collection = %s AND {key} = ANY(%s)", (number, bad))
    if any(each.area == "staged" and each.remedy for each in defects):
        for table in ("shadows", "summary_shadows"):
            connection.execute(f"DELETE FROM {table} WHERE collection = {number}")
        unstaged = "shadow = NULL, shadow_dim = NULL, shadow_was_used = false"
        connection.execute(f"UPDATE collections SET {unstaged} WHERE number = {number}")
    counts = ", ".join(f"{name} = ({sql.format(number)})" for name, sql in _COUNTS.items())
    connection.execute(f"UPDATE collections SET {counts}, change = change + 1 WHERE number = {number}")
