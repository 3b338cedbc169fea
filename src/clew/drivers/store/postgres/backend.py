"""The PostgreSQL backend: one collection of a database, which is both the source of truth and the index."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from threading import local
from typing import Any

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.doctor import Defect
from clew.core.errors import DriverFailed
from clew.core.protocols import Embedder
from clew.core.report import Purge
from clew.core.settings import StoreConfig
from clew.core.stored import StagedModel
from clew.drivers.store.backend import Head, T, Transaction, Values
from clew.drivers.store.base import BaseBackend, NamedTexts, change_texts, check_texts
from clew.drivers.store.embed import check_model_in_use
from clew.drivers.store.postgres import binary, inspect, upkeep
from clew.drivers.store.postgres.errors import translate_errors
from clew.drivers.store.postgres.pool import Pool, check_pooler, fetch_rows
from clew.drivers.store.postgres.rows import PostgresSnapshot, apply_changes, hash_facets, write_head
from clew.drivers.store.postgres.search import PostgresIndex
from clew.drivers.store.postgres.setup import OpenCollection, check_model_unchanged, open_collection
from clew.drivers.store.postgres.upkeep import estimate_disk_usage
from clew.drivers.store.store import DEFAULTS, make_opener

MAX_IDLE = "10s"  # after which the server ends the transaction of a halted process and releases its lock


class PostgresBackend(BaseBackend):
    """One collection on a server; see `Backend`. Several threads, programs and machines may use it at once.

    With `config.access` it is read-only, and the server shows only what these labels admit.
    """

    def __init__(self, url: str, *, collection: str, embedder: str, dim: int, config: StoreConfig = DEFAULTS) -> None:
        opened = open_collection(
            url, collection=collection, embedder=embedder, dim=dim, is_half=config.vectors == "half"
        )
        self._config = config
        self._pool = Pool(url, collection, access=config.access, pooler=check_pooler(config.pooler))
        self._use_collection(opened)

    def _use_collection(self, collection: OpenCollection) -> None:
        self._collection = collection
        self.place, self.dim = collection.place, collection.dim
        self.index: PostgresIndex = PostgresIndex(self.read, self._pool, collection, self._config)

    def head(self) -> Head:
        """Return the head; an empty one if the collection was removed."""
        head = self._pool.run_read_with_own_plan(self._fetch_head)
        check_model_unchanged(self._collection, head.embedder)
        return head

    def _fetch_head(self, connection: Connection) -> Head:
        return self._find_head(connection) or Head(self._collection.embedder, self._collection.dim)

    def _find_head(self, connection: Connection, lock: str = "") -> Head | None:
        names = "embedder, dim, change, documents, chunks, length, last, pending, version, staged"
        sql = f"SELECT {names} FROM collections WHERE number = {self._collection.number}{lock}"
        for *columns, version, staged in fetch_rows(connection, sql, prepare=True):
            model = StagedModel(**json.loads(staged)) if staged else None
            return replace(Head(*columns), staged=model, version=version)
        return None

    def _lock_head(self, connection: Connection) -> Head:
        """Lock the head: every other writer of the collection waits until the transaction ends."""
        head = self._find_head(connection, " FOR NO KEY UPDATE")
        if head is None:
            raise DriverFailed(f"{self.place} was removed meanwhile; open it again")
        check_model_unchanged(self._collection, head.embedder)
        return head

    @contextmanager
    def read(self, since: Head | None = None) -> Iterator[PostgresSnapshot]:
        """Open a snapshot for several reads."""
        with self._pool.read_state(self._fetch_head) as (connection, head):
            yield PostgresSnapshot(connection, self._collection, head)

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction; writers of a collection take turns, so it runs only once."""
        return self._pool.run_transaction(lambda connection: self._write(connection, decide, is_change=is_change))

    def _write(self, connection: Connection, decide: Callable[[Transaction], T], *, is_change: bool) -> T:
        before = self._lock_head(connection)
        tx = Transaction(PostgresSnapshot(connection, self._collection, before))
        result = decide(tx)
        head = tx.finish(is_change=is_change)
        if head is not None:
            apply_changes(connection, self._collection, tx, head, before)
        return result

    def named(self, kind: str) -> "PostgresNamed":
        """Return the named values of a kind."""
        return PostgresNamed(self._pool, self._collection, kind)

    def swap_vectors(self, change: int) -> bool:
        """Swap the active vectors with the staged ones; searches are exact until the next flush."""
        if self.head().change != change:
            return False
        with translate_errors(self.place), self._pool.open_connection() as connection:
            for table in upkeep.GRAPHS:  # a graph has a fixed dimension
                upkeep.drop_graph(connection, table, self._collection.number)
            return self._pool.run_transaction(lambda pooled: self._swap(pooled, change))

    def _swap(self, connection: Connection, change: int) -> bool:
        head, number = self._lock_head(connection).swap_models(change), self._collection.number
        if head is None:
            return False
        is_half = self._collection.is_half
        new, old = ("half = s.vector::halfvec", "half::vector") if is_half else ("vector = s.vector", "vector")
        connection.execute(  # one statement, which sees all rows as they were before
            f"WITH a AS (UPDATE signals u SET {new} FROM staged s WHERE s.row = u.row AND u.collection = {number}),"
            f" b AS (UPDATE summaries u SET vector = s.vector FROM staged s WHERE s.row = u.row AND u.collection ="
            f" {number}), c AS (INSERT INTO summaries SELECT d.row, {number}, d.facets, s.vector FROM documents d"
            f" JOIN staged s ON s.row = d.row WHERE d.collection = {number} AND d.pending = 1),"
            f" d AS (DELETE FROM staged s USING (SELECT row FROM chunks WHERE collection = {number} AND pending = 1"
            f" UNION ALL SELECT row FROM documents WHERE collection = {number} AND pending = 1) u WHERE u.row = s.row)"
            f" UPDATE staged s SET vector = u.vector FROM (SELECT row, {old} AS vector FROM signals WHERE collection ="
            f" {number} UNION ALL SELECT row, vector FROM summaries WHERE collection = {number}) u"
            f" WHERE u.row = s.row AND u.vector IS NOT NULL AND s.collection = {number}"
        )
        for table in ("chunks", "documents"):
            connection.execute(f"UPDATE {table} SET pending = NULL WHERE collection = {number} AND pending = 1")
        write_head(connection, number, head)
        return True

    def reopen(self, embedder: Embedder) -> "PostgresBackend":
        """Open the same collection for the model that it was switched to."""
        head = self._pool.run_read_with_own_plan(self._fetch_head)
        check_model_in_use(self.place, embedder, head.embedder, head.dim)
        other = copy(self)
        other._use_collection(replace(self._collection, embedder=head.embedder, dim=head.dim))
        return other

    def compact(self) -> Purge:
        """Rewrite the tables without dead rows, and their statistics, if the role may."""
        return upkeep.rewrite_tables(self._pool, self._collection.number)

    def notes(self) -> list[str]:
        """Describe what only the operator of the server can remove."""
        return [upkeep.NOTE]

    def flush(self, *, with_graph: bool = True) -> None:
        """Build the graphs that are due. Writes are already safe on the server's disk."""
        if with_graph:
            upkeep.build_due_graphs(self._pool, self._collection, self._config)

    def maintain(self) -> list[str]:
        """Build graphs that are due or bloated, and vacuum the tables; describe what was done."""
        return upkeep.maintain(self._pool, self._collection, self._config)

    def describe(self) -> tuple[str, int]:
        """Return the kind of the search index, and the bytes on disk: the collection's share of the tables."""
        number = self._collection.number
        state = self._pool.run_read(lambda connection: upkeep.read_graph_state(connection, number))
        size = self._pool.run_read(lambda connection: estimate_disk_usage(connection, number, state.chunks))
        uses_graph = state.has_chunk_graph and state.chunks >= self._config.exact_below
        return "pgvector HNSW, half precision" if uses_graph else "exact, in PostgreSQL", size

    def inspect(self, *, is_quick: bool) -> list[Defect]:
        """Find defects of derived data and of the protection of the tables."""
        return self._pool.run_read(lambda pooled: list(inspect.inspect_tables(pooled, self._collection.number)))

    def repair(self, defects: Sequence[Defect], ids: Sequence[str], mend: Callable[[Transaction], None]) -> None:
        """Repair the tables as one change, then row-level security, triggers and indexes."""

        def repair(connection: Connection) -> None:
            self._write(connection, mend, is_change=False)
            inspect.finish_repair(connection, self._collection.number, ids)

        self._pool.run_transaction(repair)
        if any(each.area in ("protection", "index") for each in defects):
            self._pool.run_transaction(inspect.repair_protection)

    def pack_facets(self, facets: str) -> list[int]:
        """Convert facets to hashes."""
        return [int(each) for each in hash_facets(facets)]

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class PostgresNamed(NamedTexts):
    """The values of a kind in the table `named`; an advisory lock serialises changes."""

    def __init__(self, pool: Pool, collection: OpenCollection, kind: str) -> None:
        self._pool, self._number, self._kind = pool, collection.number, kind
        self._lock = xxh3_64_intdigest(f"{kind} of {collection.number}".encode()) - (1 << 63)
        self._now = local()  # the clock within a change: reading it again would need a second connection

    def load_texts(self, names: Collection[str] | None = None) -> dict[str, str]:
        """Load the existing texts with these names, or all."""
        return self._pool.run_read_with_own_plan(lambda connection: self._load(connection, names))

    def _load(self, connection: Connection, names: Collection[str] | None) -> dict[str, str]:
        condition, params = "", list[Any]([self._kind])
        if names is not None:
            condition, params = " AND name = ANY(%s::text[])", [self._kind, binary.encode_texts(list(names))]
        sql = f"SELECT name, value, sum FROM named WHERE collection = {self._number} AND kind = %s{condition}"
        return check_texts(self._kind, fetch_rows(connection, f"{sql} ORDER BY number", params))

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values in place; concurrent changes wait."""
        return self._pool.run_transaction(lambda connection: self._change(connection, decide, names))

    def purge(self) -> None:
        """Rewrite the table without deleted and replaced rows."""
        upkeep.rewrite_named(self._pool)

    def _change(self, connection: Connection, decide: Callable[[Values], T], names: Collection[str] | None) -> T:
        connection.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true), pg_advisory_xact_lock(%s)",
            (MAX_IDLE, self._lock),
        )
        self._now.seconds = self._read_clock(connection)
        try:
            before = self._load(connection, names)
            result, after = change_texts(before, decide)
        finally:
            del self._now.seconds
        gone = before.keys() - after.keys()
        if gone:
            connection.execute(
                f"DELETE FROM named WHERE collection = {self._number} AND kind = %s AND name = ANY(%s::text[])",
                (self._kind, binary.encode_texts(list(gone))),
            )
        changed = [name for name, value in after.items() if before.get(name) != value]
        if changed:
            connection.execute(
                f"INSERT INTO named(collection, kind, name, value) SELECT {self._number}, %s, u.name, u.value"
                " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS u(name, value, place) ORDER BY u.place"
                " ON CONFLICT (collection, kind, name) DO UPDATE SET value = excluded.value",
                (self._kind, binary.encode_texts(changed), binary.encode_texts([after[name] for name in changed])),
            )
        return result

    def clock(self) -> float:
        """Return the server's time in seconds, since the clocks of the programs' machines differ."""
        known = getattr(self._now, "seconds", None)
        return self._pool.run_read_with_own_plan(self._read_clock) if known is None else known

    def _read_clock(self, connection: Connection) -> float:
        ((seconds,),) = fetch_rows(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(seconds)


open_store = make_opener(PostgresBackend)
