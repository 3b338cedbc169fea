"""The doctor of a server: what the checksums, counts, postings, filters and graphs say of a collection."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from psycopg import Connection

from clew.core.doctor import Area, Defect, Inspection
from clew.core.errors import CollectionDamaged
from clew.core.stored import StoredDocument
from clew.core.time import to_timestamp
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.codec import sum_block
from clew.drivers.store.entries import facets_to_json
from clew.drivers.store.inspection import (
    DocumentReader,
    find_bad_jobs,
    find_bad_sessions,
    inspect_documents,
    sample_documents,
)
from clew.drivers.store.mend import Mending, plan_mending
from clew.drivers.store.postgres import insert
from clew.drivers.store.postgres.connect.pool import Pool, Row, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.protection import inspect_protection, repair_protection
from clew.drivers.store.postgres.raw import read_raw
from clew.drivers.store.postgres.repair import COUNTS, ORPHANS, repair_tables

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
        "counts",
        "miscounts its messages",
        "SELECT DISTINCT d.id FROM documents d JOIN pieces p ON p.doc = d.row WHERE d.collection = {0} AND p.message"
        " IS NOT NULL AND (p.chars <> length(p.text)"
        " OR p.chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = p.doc AND c.piece = p.n))"
        " UNION SELECT d.id FROM documents d JOIN blocks b ON b.doc = d.row WHERE d.collection = {0} AND"
        " ROW(b.chars, b.chunks)::text <> (SELECT ROW(coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0))::text"
        " FROM pieces p WHERE p.doc = b.doc AND (p.n >> 7) = b.block AND p.message IS NOT NULL)"
        f" UNION SELECT d.id FROM documents d JOIN blocks b ON b.doc = d.row WHERE d.collection = {{0}} AND b.sum <>"
        f" {sum_block('b.')}"
        " UNION SELECT d.id FROM documents d JOIN pieces p ON p.doc = d.row WHERE d.collection = {0} AND p.message"
        " IS NOT NULL AND NOT EXISTS (SELECT FROM blocks b WHERE b.doc = p.doc AND b.block = (p.n >> 7))",
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
_FACETS = (
    "SELECT d.id, c.id, s.facets, s.seconds, c.words FROM documents d JOIN chunks c ON c.doc = d.row"
    " JOIN signals s ON s.row = c.row WHERE d.collection = %s AND d.id = ANY(%s)"
)
_DOCUMENT_FACETS = (
    "SELECT d.id, d.facets, u.facets FROM documents d LEFT JOIN summaries u ON u.row = d.row"
    " WHERE d.collection = %s AND d.id = ANY(%s)"
)
_GRAPHS = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relname IN"
    " ('signals_graph_{0}', 'summaries_graph_{0}') AND c.relnamespace = 'clew'::regnamespace"
)


class InspectMethods:
    """What `doctor` asks of a store; part of PostgresStore."""

    _pool: Pool
    _collection: OpenCollection

    def inspect(self: "InspectedStore", *, max_chunks: int | None = None) -> Inspection:
        """What is wrong with the tables and each document, and how much was checked."""
        number = self._collection.number
        try:
            defects = self._pool.run_read(lambda connection: list(inspect_tables(connection, number)))
            sizes = self._pool.fetch_rows("SELECT id, chunks FROM documents WHERE collection = %s", (number,))
            ids = sample_documents([(doc_id, chunks) for doc_id, chunks in sizes], max_chunks)
            is_sample = len(ids) < len(sizes)
            ((chunks,),) = self._pool.fetch_rows(
                "SELECT count(*) FROM chunks c JOIN documents d ON d.row = c.doc WHERE d.collection = %s"
                " AND d.id = ANY(%s)",
                (number, ids),
            )
            defects += inspect_documents(self, ids)
            rows = (
                self._pool.fetch_rows("SELECT id, uri, title FROM documents WHERE collection = %s", (number,))
                if defects
                else []
            )
        except CollectionDamaged as error:
            return Inspection((Defect("truth", str(error)),))
        names = {doc_id: uri or title for doc_id, uri, title in rows if uri or title}
        return Inspection(tuple(defects), {"documents": len(ids), "chunks": chunks}, tuple(ids), is_sample, names)

    def plan_mending(self, doc_id: str) -> Mending:
        """What mends a document whose record or text is damaged."""
        number = self._collection.number
        return self._pool.run_read(lambda connection: plan_mending(read_raw(connection, number, doc_id)))

    def find_wrong_filters(self, stored: Sequence[StoredDocument]) -> set[str]:
        """The ids of those documents that filters see otherwise than they are: by labels, authors, times, meta."""
        ids = [each.document.id for each in stored]
        return find_wrong_filters(
            {each.document.id: each for each in stored},
            self._pool.fetch_rows(_FACETS, (self._collection.number, ids)),
            self._pool.fetch_rows(_DOCUMENT_FACETS, (self._collection.number, ids)),
        )

    def repair(self, defects: list[Defect]) -> None:
        """Removes and recounts what the defects call for."""
        if defects:
            self._pool.run_transaction(partial(repair_tables, number=self._collection.number, defects=defects))
            if any(each.area in ("protection", "index") for each in defects):
                self._pool.run_transaction(repair_protection)


class InspectedStore(DocumentReader, Protocol):
    """What the methods need of the store that they are part of."""

    _pool: Pool
    _collection: OpenCollection


def inspect_tables(connection: Connection, number: int) -> Iterator[Defect]:
    """What is wrong with the tables as a whole."""
    for name, sql in COUNTS.items():
        ((real, stored),) = fetch_rows(
            connection, f"SELECT ({sql.format(number)}), {name} FROM collections WHERE number = %s", (number,)
        )
        if stored != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "recount")
    for area, problem, sql in _WRONG:
        for (doc_id,) in fetch_rows(connection, sql.format(number)):
            yield Defect(
                area,
                f"the document {doc_id!r} {problem}",
                doc_id,
                "recount" if area in ("counts", "filters") else "rechunk",
            )
    for table, condition in ORPHANS.items():
        ((count,),) = fetch_rows(connection, f"SELECT count(*) FROM {table} WHERE {condition.format(number)}")
        if count:
            yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
    for (name,) in fetch_rows(connection, _GRAPHS.format(number)):
        yield Defect("index", f"the graph {name} was not finished; searches scan instead", "", "rebuild")
    yield from inspect_protection(connection)
    yield from _inspect_unread(connection, number)
    yield from inspect_staged(connection, number)


def find_wrong_filters(stored: Mapping[str, StoredDocument], rows: Sequence[Row], documents: Sequence[Row]) -> set[str]:
    """The ids of the documents whose facets or times are not those of their rows."""
    wrong: set[str] = set()
    chunks = {chunk.id: chunk for each in stored.values() for chunk in each.chunks}
    for doc_id, chunk_id, facets, seconds, words in rows:
        document, chunk = stored[doc_id].document, chunks[chunk_id]
        right = insert.hash_facets(facets_to_json(document, chunk)).tolist()
        if facets != right or words[: len(right)] != right or seconds != to_timestamp(chunk.at):
            wrong.add(doc_id)
    for doc_id, facets, of_summary in documents:
        right = insert.hash_facets(facets_to_json(stored[doc_id].document)).tolist()
        if facets != right or of_summary not in (None, right):
            wrong.add(doc_id)
    return wrong


def inspect_staged(connection: Connection, number: int) -> Iterator[Defect]:
    """What is wrong with the staged vectors: of no model, of that in use, of another width or length."""
    ((name, dim, used),) = fetch_rows(
        connection, "SELECT shadow, shadow_dim, embedder FROM collections WHERE number = %s", (number,)
    )
    rows = f"(SELECT vector FROM shadows WHERE collection = {number} UNION ALL"
    rows += f" SELECT vector FROM summary_shadows WHERE collection = {number}) s"
    if name is None:
        ((count,),) = fetch_rows(connection, f"SELECT count(*) FROM {rows}")
        if count:
            yield Defect("staged", f"{count} staged vectors are of no model", "", "discard")
        return
    if name == used:
        yield Defect("staged", f"vectors of {name} are staged, which is the model in use", "", "discard")
    off = f"vector_dims(vector) <> {dim} OR NOT abs(vector_norm(vector) - 1) <= {UNIT_TOLERANCE}"
    if fetch_rows(connection, f"SELECT 1 FROM {rows} WHERE {off} LIMIT 1"):
        yield Defect("staged", f"staged vectors of {name} are not of its width, or not of unit length", "", "discard")


def _inspect_unread(connection: Connection, number: int) -> Iterator[Defect]:
    """Jobs and sessions that were written so that they cannot be read."""
    if bad := find_bad_jobs(
        fetch_rows(connection, f"SELECT id, state, request, result FROM jobs WHERE collection = {number}")
    ):
        yield Defect("truth", f"{len(bad)} jobs cannot be read", "", "delete")
    if bad := find_bad_sessions(
        fetch_rows(connection, f"SELECT name, documents, messages FROM sessions WHERE collection = {number}")
    ):
        yield Defect("truth", f"{len(bad)} sessions cannot be read", "", "delete")
