"""What protects a collection on a server, as in schema.sql: row-level security, policies, triggers and indexes."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from psycopg import Connection

from clew.core.doctor import Defect
from clew.drivers.store.postgres.connect.pool import fetch_rows
from clew.drivers.store.postgres.connect.setup import read_schema

TABLES = (
    *("collections", "documents", "outlines", "pieces", "blocks", "summaries", "chunks", "signals", "postings"),
    *("staged", "named"),
)
_POLICIES = ("own", "seen", "added", "changed", "removed")
_INDEX = re.compile(r"CREATE INDEX (\w+) ON [^;]+")
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+) [^;]+? ON (\w+)\b[^;]+EXECUTE FUNCTION [^;]+")


@lru_cache(1)
def list_indexes() -> Mapping[str, str]:
    """The indexes by name, with the statement that makes each."""
    return {made.group(1): made.group(0) for made in _INDEX.finditer(read_schema())}


@lru_cache(1)
def list_triggers() -> Mapping[tuple[str, str], str]:
    """The triggers by table and name, with the statement that makes each."""
    return {(made.group(2), made.group(1)): made.group(0) for made in _TRIGGER.finditer(read_schema())}


def inspect_protection(connection: Connection) -> Iterator[Defect]:
    """Tables without row-level security, and policies, triggers and indexes that are missing or switched off."""
    for table in _list_open_tables(connection):
        problem = f"row-level security of the table {table} is off: labels and collections are not kept apart there"
        yield Defect("protection", problem, "", "protect")
    for table, name in _list_missing_policies(connection):
        yield Defect(
            "protection",
            f"the policy {name} of the table {table} is missing: labels or collections are not kept apart there",
            next_step="restore an export into a new database, whose tables have all policies",
        )
    for table, name, _ in _list_idle_triggers(connection):
        problem = f"the trigger {name} of the table {table} is missing or off: what follows from changes is not kept"
        yield Defect("index", problem, "", "rebuild")
    for name in _list_missing_indexes(connection):
        yield Defect("index", f"the index {name} is missing: searches read whole tables instead", "", "rebuild")


def repair_protection(connection: Connection) -> None:
    """Switches on, or makes again, what is missing; for the owner of the tables."""
    for table in _list_open_tables(connection):
        connection.execute(f"ALTER TABLE clew.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    for table, name, is_there in _list_idle_triggers(connection):
        if is_there:
            connection.execute(f"ALTER TABLE clew.{table} ENABLE TRIGGER {name}")
        else:
            connection.execute(list_triggers()[table, name])
    for name in _list_missing_indexes(connection):
        connection.execute(list_indexes()[name])


def _list_open_tables(connection: Connection) -> list[str]:
    found = fetch_rows(
        connection,
        "SELECT relname FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT (relrowsecurity AND relforcerowsecurity) AND relname = ANY(%s)",
        (list(TABLES),),
    )
    return [table for (table,) in found]


def _list_missing_policies(connection: Connection) -> list[tuple[str, str]]:
    rows = fetch_rows(connection, "SELECT tablename, policyname FROM pg_policies WHERE schemaname = 'clew'")
    there = {(table, name) for table, name in rows}
    wanted = ((table, name) for table in TABLES for name in _POLICIES)
    return [each for each in wanted if each not in there and each != ("collections", "seen")]


def _list_idle_triggers(connection: Connection) -> list[tuple[str, str, bool]]:
    """The triggers that do not fire: table, name, and whether it is there, switched off."""
    rows = fetch_rows(
        connection,
        "SELECT c.relname, t.tgname, t.tgenabled IN ('O', 'A') FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE c.relnamespace = 'clew'::regnamespace AND NOT t.tgisinternal",
    )
    there = {(table, name): is_on for table, name, is_on in rows}
    return [(*each, each in there) for each in list_triggers() if not there.get(each)]


def _list_missing_indexes(connection: Connection) -> list[str]:
    rows = fetch_rows(connection, "SELECT indexname FROM pg_indexes WHERE schemaname = 'clew'")
    there = {name for (name,) in rows}
    return [name for name in list_indexes() if name not in there]
