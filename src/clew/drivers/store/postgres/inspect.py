"""The doctor of a server: what the checksums, counts, postings and graphs say of a collection, and repairs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from psycopg import Connection

from clew.core.doctor import Area, Defect
from clew.core.errors import CollectionDamaged
from clew.drivers.store.codec import sum_block
from clew.drivers.store.inspection import DocumentReader, find_ids, inspect_documents
from clew.drivers.store.postgres import insert
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.postgres.write import lock_documents

_COUNTS = {
    "documents": "SELECT count(*) FROM documents WHERE collection = {0}",
    "chunks": "SELECT count(*) FROM chunks WHERE collection = {0}",
    "length": "SELECT coalesce(sum(length), 0)::int8 FROM chunks WHERE collection = {0}",
}
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
    (
        "postings",
        "has chunks whose words are not all among the postings",
        "SELECT DISTINCT d.id FROM documents d JOIN chunks c ON c.doc = d.row LEFT JOIN (SELECT p.chunk, count(*) AS n,"
        " sum(p.count) AS total, min(p.length) AS low, max(p.length) AS high FROM postings p WHERE p.collection = {0}"
        " GROUP BY p.chunk) x ON x.chunk = c.row WHERE d.collection = {0} AND (coalesce(x.n, 0) <> cardinality(c.words)"
        " OR x.low <> c.length OR x.high <> c.length)",
    ),
)
_ORPHANS = {
    "postings": "collection = {0} AND NOT EXISTS (SELECT FROM chunks c WHERE c.row = postings.chunk)",
}
_GRAPHS = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relname IN"
    " ('signals_graph_{0}', 'summaries_graph_{0}') AND c.relnamespace = 'clew'::regnamespace"
)


class InspectMethods:
    """What `doctor` asks of a store; part of PostgresStore."""

    _pool: Pool
    _collection: OpenCollection

    def inspect(self: "InspectedStore") -> tuple[list[Defect], Mapping[str, int]]:
        """What is wrong with the tables and each document, and how much was checked."""
        number = self._collection.number
        try:
            defects = self._pool.run_read(lambda connection: list(inspect_tables(connection, number)))
            found = self._pool.fetch_rows("SELECT id FROM documents WHERE collection = %s", (number,))
            ((chunks,),) = self._pool.fetch_rows("SELECT count(*) FROM chunks WHERE collection = %s", (number,))
            defects += inspect_documents(self, [doc_id for (doc_id,) in found])
        except CollectionDamaged as error:
            return [Defect("truth", str(error))], {}
        return defects, {"documents": len(found), "chunks": chunks}

    def repair(self, defects: list[Defect]) -> None:
        """Removes and recounts what the defects call for."""
        if defects:
            self._pool.run_transaction(partial(repair_tables, number=self._collection.number, defects=defects))


class InspectedStore(DocumentReader, Protocol):
    """What the methods need of the store that they are part of."""

    _pool: Pool
    _collection: OpenCollection


def inspect_tables(connection: Connection, number: int) -> Iterator[Defect]:
    """What is wrong with the tables as a whole."""
    for name, sql in _COUNTS.items():
        ((real, stored),) = fetch_rows(
            connection, f"SELECT ({sql.format(number)}), {name} FROM collections WHERE number = %s", (number,)
        )
        if stored != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "recount")
    for area, problem, sql in _WRONG:
        for (doc_id,) in fetch_rows(connection, sql.format(number)):
            yield Defect(
                area, f"the document {doc_id!r} {problem}", doc_id, "recount" if area == "counts" else "rechunk"
            )
    for table, condition in _ORPHANS.items():
        ((count,),) = fetch_rows(connection, f"SELECT count(*) FROM {table} WHERE {condition.format(number)}")
        if count:
            yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
    for (name,) in fetch_rows(connection, _GRAPHS.format(number)):
        yield Defect("index", f"the graph {name} was not finished; searches scan instead", "", "rebuild")


def repair_tables(connection: Connection, number: int, defects: Sequence[Defect]) -> None:
    """Removes documents that cannot be trusted and chunks that are to be made again, and adds up the counts again."""
    removed, rechunked = find_ids(defects, "remove"), find_ids(defects, "rechunk")
    changed = sorted({*removed, *rechunked, *find_ids(defects, "recount")})
    lock_documents(connection, number, changed)
    connection.execute(
        "DELETE FROM chunks c USING documents d WHERE d.row = c.doc AND d.collection = %s AND d.id = ANY(%s)",
        (number, [*removed, *rechunked]),
    )
    connection.execute("DELETE FROM documents WHERE collection = %s AND id = ANY(%s)", (number, removed))
    for table, condition in _ORPHANS.items():
        connection.execute(f"DELETE FROM {table} WHERE {condition.format(number)}")
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
    counts = ", ".join(f"{name} = ({sql.format(number)})" for name, sql in _COUNTS.items())
    connection.execute(f"UPDATE collections SET {counts}, change = change + 1 WHERE number = %s", (number,))
