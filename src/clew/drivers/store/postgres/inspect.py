"""The doctor of a server: checks and repair of its tables, postings, graphs and policies."""

import re
from collections.abc import Iterator, Sequence

from psycopg import Connection

from clew.core.doctor import Area, Defect
from clew.drivers.store.postgres.pool import fetch_rows
from clew.drivers.store.postgres.setup import read_schema

# Defects of documents: area, problem, and a query for the ids.
_WRONG: tuple[tuple[Area, str, str], ...] = (
    (
        "vectors",
        "has chunks without a vector",
        "SELECT DISTINCT d.id FROM documents d JOIN chunks c ON c.doc = d.row WHERE d.collection = {0}"
        " AND NOT EXISTS (SELECT FROM signals s WHERE s.row = c.row"
        " AND num_nonnulls(s.vector, s.half) = 1 - coalesce(c.pending, 0))",
    ),
    (
        "truth",
        "has chunks or vectors that are of another collection",
        "SELECT DISTINCT d.id FROM documents d JOIN chunks c ON c.doc = d.row LEFT JOIN signals s ON s.row = c.row"
        " WHERE d.collection = {0} AND (c.collection <> {0} OR s.collection <> {0})",
    ),
    (
        "filters",
        "is not described as it is to those who see a part of it",
        "SELECT d.id FROM documents d LEFT JOIN outlines o ON o.row = d.row WHERE d.collection = {0}"
        " AND (d.kind = 'thread') AND (o.row IS NULL OR (o.collection, o.id, o.meta, o.chars, o.chunks,"
        " o.facets, o.access, o.revision) IS DISTINCT FROM (d.collection, d.id, d.meta, d.chars, d.chunks,"
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
_ORPHANS = {
    table: f"collection = {{0}} AND NOT EXISTS (SELECT FROM {of} x WHERE x.row = {table}.{column}{same})"
    for table, column, of, same in (
        ("summaries", "row", "documents", ""),
        ("outlines", "row", "documents", " AND x.kind = outlines.kind"),
        ("signals", "row", "chunks", ""),
        ("postings", "chunk", "chunks", ""),
    )
}
_NAMED = (
    "FROM named WHERE collection = {0} AND sum <> decode(md5(kind || chr(31) || name || chr(31) || value), 'hex')"
    " AND kind {1} 'erasing'"  # an erasure cannot be finished without its record
)
_GRAPHS = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relname IN"
    " ('signals_graph_{0}', 'summaries_graph_{0}') AND c.relnamespace = 'clew'::regnamespace"
)
TABLES = (
    *("collections", "documents", "outlines", "pieces", "blocks", "summaries", "chunks", "signals", "postings"),
    *("staged", "named"),
)
_POLICIES = ("own", "seen", "added", "changed", "removed")
_OPEN = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind IN ('r', 'p')"
    " AND NOT (relrowsecurity AND relforcerowsecurity) AND relname = ANY(%s)"
)
_FIRING = (
    "SELECT c.relname, t.tgname, t.tgenabled IN ('O', 'A') FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
    " WHERE c.relnamespace = 'clew'::regnamespace AND NOT t.tgisinternal"
)
_INDEX = re.compile(r"CREATE INDEX (\w+) ON [^;]+")
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+) [^;]+? ON (\w+)\b[^;]+EXECUTE FUNCTION [^;]+")


def inspect_tables(connection: Connection, number: int) -> Iterator[Defect]:
    """Yield defects of derived data and of the protection of the tables."""
    for area, problem, sql in _WRONG:
        for (doc_id,) in fetch_rows(connection, sql.format(number)):
            yield Defect(area, f"the document {doc_id!r} {problem}", doc_id, "rechunk")
    for table, condition in _ORPHANS.items():
        ((count,),) = fetch_rows(connection, f"SELECT count(*) FROM {table} WHERE {condition.format(number)}")
        if count:
            yield Defect("orphans", f"{count} rows of {table} belong to nothing", "", "delete")
    for (name,) in fetch_rows(connection, _GRAPHS.format(number)):
        yield Defect("index", f"the graph {name} was not finished; searches scan instead", "", "rebuild")
    yield from (defect for defect, _ in find_unprotected(connection))
    if fetch_rows(connection, f"SELECT 1 {_NAMED.format(number, '<>')} LIMIT 1"):
        yield Defect("truth", "a job, a session or what else is kept by name is damaged", "", "delete")
    if fetch_rows(connection, f"SELECT 1 {_NAMED.format(number, '=')}"):
        yield Defect("truth", "the record of an unfinished erasure is damaged")


def finish_repair(connection: Connection, number: int, ids: Sequence[str]) -> None:
    """Delete orphan rows, and make the next put rewrite the chunks of these documents."""
    of_ids = " documents d WHERE d.row = c.doc AND d.collection = %s AND d.id = ANY(%s)"
    connection.execute(f"DELETE FROM chunks c USING{of_ids} AND c.collection <> d.collection", (number, list(ids)))
    # No fingerprint is 0, so the next put replaces all. Until then they stay, with new checksums: salvage sound rows
    # before.
    connection.execute(f"UPDATE chunks c SET print = 0 FROM{of_ids}", (number, list(ids)))
    for table, condition in _ORPHANS.items():
        connection.execute(f"DELETE FROM {table} WHERE {condition.format(number)}")
    connection.execute(f"DELETE {_NAMED.format(number, '<>')}")


def repair_protection(connection: Connection) -> None:
    """Enable or recreate missing protection; only for the owner of the tables."""
    for _, statement in list(find_unprotected(connection)):
        if statement:
            connection.execute(statement)


def find_unprotected(connection: Connection) -> Iterator[tuple[Defect, str]]:
    """Yield each policy, trigger, index or row-level security that is missing or off, with the SQL that repairs it."""
    for (table,) in fetch_rows(connection, _OPEN, (list(TABLES),)):
        problem = f"row-level security of the table {table} is off: labels and collections are not kept apart there"
        statement = f"ALTER TABLE clew.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        yield Defect("protection", problem, "", "protect"), statement
    there = set(fetch_rows(connection, "SELECT tablename, policyname FROM pg_policies WHERE schemaname = 'clew'"))
    for table, name in ((table, name) for table in TABLES for name in _POLICIES):
        if (table, name) not in there and (table, name) != ("collections", "seen"):
            problem = f"the policy {name} of the table {table} is missing: labels or collections are not kept apart"
            advice = "restore an export into a new database, whose tables have all policies"
            yield Defect("protection", problem, next_step=advice), ""
    is_on = {(table, name): is_on for table, name, is_on in fetch_rows(connection, _FIRING)}
    for made in _TRIGGER.finditer(read_schema()):
        name, table = made.groups()
        if not is_on.get((table, name)):
            problem = f"the trigger {name} of the table {table} is missing or off: what follows from changes is lost"
            statement = f"ALTER TABLE clew.{table} ENABLE TRIGGER {name}" if (table, name) in is_on else made.group()
            yield Defect("index", problem, "", "rebuild"), statement
    there = set(fetch_rows(connection, "SELECT indexname FROM pg_indexes WHERE schemaname = 'clew'"))
    for made in _INDEX.finditer(read_schema()):
        if made.groups() not in there:
            problem = f"the index {made.group(1)} is missing: searches read whole tables instead"
            yield Defect("index", problem, "", "rebuild"), made.group()
