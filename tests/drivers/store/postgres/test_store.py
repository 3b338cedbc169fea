"""The server store beyond the contract of all stores: roles, rows of others, graphs, tables and what it says."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from clew import Engine, Settings
from clew.core.errors import DriverFailed, DriverMissing, ReadOnlyStore, SettingsError, StoreMismatch
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import StoreConfig
from clew.core.text import extract_terms
from clew.core.types import Chunk, Document, Matrix, Section, Vector
from clew.drivers.store import postgres as server_store
from clew.drivers.store.postgres import (
    drop_collection,
    list_collections,
    pool,
    read_stored_embedder_name,
    setup,
    upkeep,
)
from clew.drivers.store.postgres import search as vector_search
from clew.drivers.store.postgres.errors import describe_address, translate_errors
from clew.drivers.store.postgres.rows import SqlFragment
from clew.drivers.store.postgres.search import NearestQuery
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.store import Store
from tests.backends import get_server

DIM = 16
WORDS = ("anchor", "bell", "cable", "deck", "engine", "flag", "galley", "hull", "ink", "jib")
GRAPH = StoreConfig(exact_below=0)
TABLES = ("documents", "pieces", "summaries", "chunks", "signals", "postings")
Open = Callable[..., Store]


@pytest.fixture
def open_store(postgres: str) -> Iterator[Open]:
    """Opens a collection of a fresh database; all are closed in the end."""
    opened: list[Store] = []

    def make(collection: str = "one", *, url: str = postgres, dim: int = DIM, config: StoreConfig = GRAPH) -> Store:
        opened.append(server_store.open_store(url, collection=collection, embedder="m", dim=dim, config=config))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def database(postgres: str) -> Iterator[psycopg.Connection]:
    """The same database, as its superuser."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def as_role(url: str, role: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options=-c%20role%3D{role}"


def rows(seed: int, many: int, dim: int = DIM) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(many, dim))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def row(seed: int, dim: int = DIM) -> Vector:
    return np.asarray(rows(seed, 1, dim)[0])


def put(store: Store, name: str, many: int = 3, *, dim: int = DIM, **meta: Any) -> None:
    seed = sum(name.encode())
    drawn = np.random.default_rng(seed)
    texts = [" ".join(drawn.choice(WORDS, 5)) for _ in range(many)]
    chunks = [Chunk(f"{name}-{n}", name, n, many, text, 0, len(text), meta=meta) for n, text in enumerate(texts)]
    document = Document(name, "\n".join(texts), (Section(0, 4),), uri=name)
    store.put(document, chunks, rows(seed, many, dim), [Counter(text.split()) for text in texts])


def counts(connection: psycopg.Connection) -> dict[str, int]:
    found = {}
    for table in TABLES:
        ((many,),) = connection.execute(f"SELECT count(*) FROM clew.{table}").fetchall()
        found[table] = many
    return found


# -- the same answers

TEXTS = (
    "The keys of the vault are rotated every quarter by the security team.",
    "Die Schlüssel des Tresors werden jedes Quartal vom Sicherheitsteam gewechselt.",
    "金库的钥匙每个季度由安全团队更换。",
    "Error E-4417 in ingest.max_skew_ms means that clocks differ; see maxSkewMs.",
    "鍵は四半期ごとに交換されます, and the vault stays closed meanwhile.",
)


def test_both_stores_give_the_same_answers(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.drivers.store.postgres.rows.BATCH", 4)
    drawn = np.random.default_rng(8)
    server, embedded = open_store(config=StoreConfig()), open_sqlite(None, embedder="m", dim=DIM)
    for n in range(40):
        texts = [" ".join(drawn.choice(TEXTS, drawn.integers(1, 4))) for _ in range(drawn.integers(1, 9))]
        at = datetime(2025, 1, 1 + n % 28, tzinfo=UTC) if n % 3 else None
        chunks = [
            Chunk(f"d{n}-{i}", f"d{n}", i, len(texts), text, 0, len(text), at=at, meta={"author": f"a{n % 4}"})
            for i, text in enumerate(texts)
        ]
        document = Document(f"d{n}", "\n".join(texts), kind="page" if n % 2 else "chat", meta={"lang": f"l{n % 3}"})
        for store in (server, embedded):
            store.put(document, chunks, rows(n, len(texts)), [extract_terms(text) for text in texts])
    day = datetime(2025, 1, 9, tzinfo=UTC)
    filters = (
        EVERYTHING,
        Filter(kinds=frozenset({"chat"}), authors=frozenset({"a0", "a2"})),
        Filter(meta={"lang": "l1"}, since=day),
        Filter(until=day, documents=frozenset({f"d{n}" for n in range(20)})),
    )
    questions = (
        "who rotates the keys?",
        "Wer wechselt die Schlüssel",
        "金库 钥匙",
        "max_skew_ms E4417",
        "nothing of it",
    )
    for where in filters:
        for seed, text in enumerate(questions):
            asked = extract_terms(text, is_query=True)
            assert server.search_terms(asked, 20, where) == embedded.search_terms(asked, 20, where)
            assert server.search_vectors(row(seed), 20, where) == embedded.search_vectors(row(seed), 20, where)
    assert server.search_terms(extract_terms(questions[2], is_query=True), 5)
    embedded.close()


# -- whose rows


def test_a_forgotten_filter_shows_nothing_of_another_collection(postgres: str, open_store: Open) -> None:
    app = as_role(postgres, "clew_app")
    one, two = open_store("one", url=app), open_store("two", url=app)
    for store, name in ((one, "log"), (two, "map")):
        put(store, name)
        store.summarise(name, "short", row(1))
        store.set_calibration(f"of {name}")
    with psycopg.connect(postgres) as everything:
        both = counts(everything)
    seen = get_server(one)._pool.run_read(counts)
    assert all(2 * seen[table] == both[table] > 0 for table in TABLES if table != "postings")
    assert 0 < seen["postings"] < both["postings"]
    assert get_server(one)._pool.fetch_rows("SELECT name FROM collections") == [("one",)]
    assert get_server(one)._pool.fetch_rows("SELECT id FROM documents") == [("log",)]
    assert get_server(one)._pool.fetch_rows("DELETE FROM documents WHERE id = 'map' RETURNING id") == []
    calibrations = "SELECT value FROM named WHERE kind = 'calibration'"
    assert get_server(one)._pool.fetch_rows(calibrations) == [('"of log"',)]
    assert get_server(one)._pool.fetch_rows("UPDATE named SET value = '' WHERE value = '\"of map\"' RETURNING 1") == []
    assert two.calibration() == "of map"
    number = get_server(two)._collection.number
    with pytest.raises(DriverFailed, match="row-level security"):
        get_server(one)._pool.fetch_rows(
            "INSERT INTO pieces SELECT doc, 9, %s, '', '' FROM pieces RETURNING n", (number,)
        )
    assert two.document("map").id == "map"


def test_a_connection_that_names_no_collection_sees_nothing(postgres: str, open_store: Open) -> None:
    put(open_store(), "log")
    with psycopg.connect(as_role(postgres, "clew_app")) as connection:
        assert set(counts(connection).values()) == {0}
        assert connection.execute("SELECT * FROM clew.collections").fetchall() == []


def test_the_role_of_a_program_has_few_rights(postgres: str, database: psycopg.Connection) -> None:
    sql = "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = 'clew_app'"
    assert database.execute(sql).fetchone() == (False, False, False, False)
    with psycopg.connect(as_role(postgres, "clew_app"), autocommit=True) as connection:
        for refused in (
            "CREATE TABLE clew.x()",
            "DROP TABLE clew.chunks",
            "TRUNCATE clew.chunks",
            "ALTER TABLE clew.chunks DISABLE ROW LEVEL SECURITY",
            "DELETE FROM clew.format",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused)


@pytest.mark.parametrize("role", ["clew_app", "owner"])
def test_no_superuser_is_needed(
    postgres: str, postgres_database: Callable[[str], str], open_store: Open, database: psycopg.Connection, role: str
) -> None:
    url = as_role(postgres, role)
    if role == "owner":
        postgres = postgres_database("template0")
        with psycopg.connect(postgres, autocommit=True) as fresh, suppress(psycopg.errors.DuplicateObject):
            fresh.execute("CREATE EXTENSION vector")
            fresh.execute("CREATE ROLE clew_test_owner")
        with psycopg.connect(postgres, autocommit=True) as fresh:
            fresh.execute(f"GRANT CREATE ON DATABASE {fresh.info.dbname} TO clew_test_owner")
        url = as_role(postgres, "clew_test_owner")
    store = open_store(url=url)
    for n in range(6):
        put(store, f"d{n}", lang="en")
    put(store, "d1", 2, lang="de")
    store.summarise("d3", "short", row(3))
    store.flush()
    assert store.stats().index == "pgvector HNSW, half precision"
    assert store.search_vectors(rows(sum(b"d1"), 1)[0], 1)[0].chunk.id == "d1-0"
    german = store.search_terms(dict.fromkeys(WORDS, 1), 50, Filter(meta={"lang": "de"}))
    assert {hit.chunk.doc_id for hit in german} == {"d1"}
    assert store.search_documents(row(3), 1) == [("d3", 1.0)]
    assert store.drop(["d1", "d2"]) == 2
    assert store.stats().documents == 4
    assert read_stored_embedder_name(url, "one") == "m"
    owner = open_store("two", url=url)  # the owner of the tables is no exception
    assert get_server(owner)._pool.fetch_rows("SELECT id FROM documents") == []


def test_the_embedder_of_a_collection_is_known(
    postgres: str, postgres_database: Callable[[str], str], open_store: Open
) -> None:
    assert read_stored_embedder_name(postgres_database("template0"), "one") is None
    assert read_stored_embedder_name(postgres, "one") is None
    open_store("one")
    assert read_stored_embedder_name(postgres, "one") == "m"
    assert read_stored_embedder_name(postgres, "two") is None


# -- what is written


def test_a_chunk_that_has_not_changed_is_not_written_again(open_store: Open, database: psycopg.Connection) -> None:
    store = open_store()
    put(store, "log", 4)
    written = "SELECT row, ctid::text FROM clew.{} ORDER BY row"
    before = [database.execute(written.format(table)).fetchall() for table in ("chunks", "signals")]
    put(store, "log", 4)
    assert [database.execute(written.format(table)).fetchall() for table in ("chunks", "signals")] == before
    document, chunks = store.document("log"), store.chunks("log")
    moved = [replace(chunk, start=chunk.start + 1, end=chunk.end + 1) for chunk in chunks]
    store.put(document, moved, rows(sum(b"log"), 4), [Counter(chunk.text.split()) for chunk in chunks])
    after = [database.execute(written.format(table)).fetchall() for table in ("chunks", "signals")]
    assert after[1] == before[1]
    assert [each[0] for each in after[0]] == [each[0] for each in before[0]]
    assert after[0] != before[0]
    assert store.chunks("log") == moved


def test_all_that_belongs_to_a_collection_goes_with_it(open_store: Open, database: psycopg.Connection) -> None:
    store, other = open_store("one"), open_store("two")
    for each in (store, other):
        put(each, "log")
        each.summarise("log", "short", row(1))
    both = counts(database)
    database.execute("DELETE FROM clew.collections WHERE name = 'one'")
    assert counts(database) == {table: many // 2 for table, many in both.items()}
    assert store.search_vectors(row(1), 3) == store.search_terms({"bell": 1}, 3) == []
    with pytest.raises(DriverFailed, match="removed meanwhile"):
        put(store, "log")


def test_what_belongs_to_a_document_goes_with_it(open_store: Open, database: psycopg.Connection) -> None:
    store = open_store()
    put(store, "log")
    put(store, "map")
    database.execute("DELETE FROM clew.documents WHERE id = 'log'")  # as one might who tidies up by hand
    left = counts(database)
    assert (left["documents"], left["pieces"], left["chunks"], left["signals"]) == (1, 1, 3, 3)
    ((orphans,),) = database.execute(
        "SELECT count(*) FROM clew.postings p WHERE NOT EXISTS (SELECT FROM clew.chunks c WHERE c.row = p.chunk)"
    ).fetchall()
    assert orphans == 0


@pytest.mark.parametrize("role", ["postgres", "clew_app"])
def test_a_new_document_is_written_by_one_statement_a_table(
    postgres: str, open_store: Open, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    store = open_store(url=as_role(postgres, role) if role == "clew_app" else postgres)
    put(store, "log")
    asked, execute = list[str](), psycopg.Cursor.execute

    def watched(self: psycopg.Cursor, query: Any, *more: Any, **named: Any) -> Any:
        asked.append(str(query).split()[0])
        return execute(self, query, *more, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", watched)
    put(store, "map")
    writes = ["INSERT"] * 5 + ["UPDATE"]  # documents, pieces, chunks, signals, postings, and the counts
    reads = ["SELECT"] * 4  # plans, the head, the document, plans
    assert asked == ["BEGIN", *reads, *writes, "COMMIT"]
    assert (store.stats().documents, store.stats().chunks, store.change_number()) == (2, 6, 2)


# -- graphs


def fill_store(store: Store, many: int = 600) -> Matrix:
    """The vectors of a store that is filled with one document of many chunks; one in ten is rare."""
    vectors = rows(5, many)
    chunks = [
        Chunk(f"c{n:05}", "log", n, many, "x", 0, 1, meta={"rare": n % 10 == 0, "odd": n % 2 == 1}) for n in range(many)
    ]
    store.put(Document("log", "x"), chunks, vectors, [{"x": 1, f"n{n}": 1} for n in range(many)])
    store.flush()
    return vectors


@pytest.mark.parametrize("iterates", [True, False])
def test_a_filter_never_returns_too_few(open_store: Open, monkeypatch: pytest.MonkeyPatch, iterates: bool) -> None:
    store, enough, by_graph = open_store(), list[bool](), vector_search.search_graph
    fill_store(store)
    index = get_server(store).index
    index.collection, index._exact_below = replace(index.collection, has_iterative_scan=iterates), 0

    def watched(*given: Any, **more: Any) -> Any:
        found = by_graph(*given, **more)
        enough.append(found is not None)
        return found

    monkeypatch.setattr(vector_search, "search_graph", watched)
    rare, none = Filter(meta={"rare": True}), Filter(meta={"rare": True, "odd": True})
    for seed in range(5):
        found = {hit.chunk.id for hit in store.search_vectors(row(seed), 5, rare, breadth=10)}
        exact = {hit.chunk.id for hit in store.search_vectors(row(seed), 5, rare, mode="exact")}
        assert len(found) == len(exact) == 5
        assert len(found & exact) >= 4
        assert len(store.search_vectors(row(seed), 100, rare)) == 60
        assert store.search_vectors(row(seed), 5, none) == []
    # A search that goes on finds enough; one that cannot gives up, and all rows are looked at instead.
    assert enough == [iterates, False, False] * 5


def test_a_narrow_filter_is_searched_exactly(open_store: Open) -> None:
    store = open_store(config=StoreConfig(exact_below=100))
    fill_store(store)
    assert store.stats().index == "pgvector HNSW, half precision"
    where = Filter(meta={"rare": True}, documents=frozenset({"log"}))
    for seed in range(5):
        assert store.search_vectors(row(seed), 10, where) == store.search_vectors(row(seed), 10, where, mode="exact")
        found = store.search_terms({"x": 1}, 70, where)
        assert [hit.chunk.id for hit in found] == [f"c{n:05}" for n in range(0, 600, 10)]


@pytest.mark.parametrize("role", ["postgres", "clew_app"])
def test_the_graph_is_used(postgres: str, open_store: Open, role: str) -> None:
    store = open_store(url=as_role(postgres, role) if role == "clew_app" else postgres)
    fill_store(store)
    number, condition = get_server(store)._collection.number, SqlFragment(" AND s.facets && '{1,2}'::bigint[]")
    search = NearestQuery(vector_search.CHUNKS, number, row(1), 10, condition)
    asked = str(row(1).tolist())

    def plan(connection: psycopg.Connection) -> str:
        pool.use_graph_plans(connection, vector_search.BREADTH, iterative=True)
        sql = vector_search.build_graph_sql(search, 50, 12)
        return str(connection.execute(f"EXPLAIN {sql}", (asked, "m", asked)).fetchall())

    assert f"signals_graph_{number}" in get_server(store)._pool.run_read(plan)


def test_a_search_in_the_graph_is_one_statement(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    fill_store(store)
    found, asked = store.search_vectors(row(1), 5), list[str]()
    execute = psycopg.Cursor.execute

    def watched(self: psycopg.Cursor, query: Any, *more: Any, **named: Any) -> Any:
        asked.append(str(query))
        return execute(self, query, *more, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", watched)
    assert store.search_vectors(row(1), 5) == found
    assert len(asked) == 2  # the first reads the counts; the chunks are known from the search before
    asked.clear()
    store.search_vectors(row(1), 5, mode="exact")  # how statements are planned changes to and fro
    assert store.search_vectors(row(1), 5) == found
    assert sum("set_config" in each for each in asked) == 2


def test_what_is_read_after_searches_and_changes_is_planned_for_what_it_is_given(open_store: Open) -> None:
    store = open_store()
    fill_store(store)

    def said() -> list[str]:
        sql = "SELECT current_setting('plan_cache_mode') || ' ' || current_setting('enable_sort')"
        return [get_server(store)._pool.run_read(lambda connection: str(connection.execute(sql).fetchall()[0][0]))]

    for change in (
        lambda: put(store, "map"),
        lambda: store.search_vectors(row(1), 5),
        lambda: store.search_terms({"x": 1}, 5),
    ):
        change()
        assert said() == ["force_custom_plan on"]


def test_a_graph_that_is_gone_is_noticed(
    open_store: Open, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    fill_store(store)
    found = store.search_vectors(row(1), 5)
    database.execute(f"DROP INDEX clew.signals_graph_{get_server(store)._collection.number}")
    assert store.search_vectors(row(1), 5) == store.search_vectors(row(1), 5, mode="exact")
    monkeypatch.setattr(vector_search, "search_graph", None)  # would fail
    assert store.search_vectors(row(1), 5, mode="exact")[0] == found[0]
    assert store.search_vectors(row(1), 5)[0] == found[0]


def test_equal_ones_are_told_apart_by_id_however_many(open_store: Open) -> None:
    store = open_store()
    vectors = np.concatenate([rows(3, 10), np.repeat(rows(4, 1), 90, axis=0)])
    chunks = [Chunk(f"c{n:03}", "log", n, 100, "x", 0, 1) for n in range(100)]
    store.put(Document("log", "x"), chunks[::-1], vectors[::-1], [{"x": 1, "y": 1}] * 100)
    store.flush()
    assert [hit.chunk.id for hit in store.search_vectors(vectors[50], 7)] == [f"c{n:03}" for n in range(10, 17)]
    assert [hit.chunk.id for hit in store.search_terms({"x": 1, "y": 1}, 5)] == [f"c{n:03}" for n in range(5)]


def test_the_graph_finds_what_is_near(open_store: Open) -> None:
    store = open_store()
    vectors = fill_store(store)
    right = [
        store.search_vectors(vector, 10, breadth=200) == store.search_vectors(vector, 10, mode="exact")
        for vector in vectors[:50]
    ]
    assert sum(right) >= 48


def test_breadth_is_how_far_the_graph_is_searched(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    fill_store(store)
    asked: list[str] = []
    execute = psycopg.Connection.execute

    def watched(self: psycopg.Connection, query: Any, params: Any = None, **more: Any) -> Any:
        if params and "hnsw.ef_search" in params:
            asked.append(params[params.index("hnsw.ef_search") + 1])
        return execute(self, query, params, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", watched)
    for breadth in (None, None, 300, 5000, None):
        store.search_vectors(row(1), 5, breadth=breadth)
    assert asked == [str(vector_search.BREADTH), "300", str(vector_search.MAX_BREADTH), str(vector_search.BREADTH)]


def test_wide_vectors_have_a_graph_too(open_store: Open) -> None:
    store = open_store("wide", dim=3072)
    put(store, "log", 5, dim=3072)
    store.summarise("log", "short", row(9, 3072))
    store.flush()
    assert store.stats().index == "pgvector HNSW, half precision"
    assert store.search_vectors(rows(sum(b"log"), 5, 3072)[2], 1)[0].chunk.id == "log-2"
    assert store.search_documents(row(9, 3072), 1) == [("log", 1.0)]
    np.testing.assert_array_equal(store.vectors(["log-1"])["log-1"], rows(sum(b"log"), 5, 3072)[1])


def test_vectors_too_wide_for_a_graph_are_searched_exactly(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_DIM", 8)
    store = open_store()
    put(store, "log", 5)
    store.flush()
    assert store.stats().index == "exact, in PostgreSQL"
    assert store.search_vectors(rows(sum(b"log"), 5)[2], 1)[0].chunk.id == "log-2"


@pytest.mark.parametrize("role", ["postgres", "clew_app"])
def test_a_graph_whose_building_was_broken_off_is_built_again(
    postgres: str, open_store: Open, database: psycopg.Connection, role: str
) -> None:
    store = open_store(url=as_role(postgres, role) if role == "clew_app" else postgres)
    put(store, "log")
    store.flush()
    name = f"clew.signals_graph_{get_server(store)._collection.number}"
    database.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
    assert store.stats().index == "exact, in PostgreSQL"
    assert len(store.search_vectors(row(1), 9)) == 3
    store.flush()
    assert store.stats().index == "pgvector HNSW, half precision"
    assert len(store.search_vectors(row(1), 9)) == 3


@pytest.mark.parametrize("role", ["postgres", "clew_app"])
def test_a_graph_is_built_by_one_process(postgres: str, open_store: Open, role: str) -> None:
    store = open_store(url=as_role(postgres, role) if role == "clew_app" else postgres)
    put(store, "log")
    with get_server(store)._pool.open_connection() as connection:
        connection.execute("SET max_parallel_maintenance_workers = 2")
        upkeep.build_graph(connection, "signals", get_server(store)._collection, DIM, 3)
        assert connection.execute("SHOW max_parallel_maintenance_workers").fetchall() == [("0",)]
    assert store.stats().index == "pgvector HNSW, half precision"


@pytest.mark.parametrize("role", ["postgres", "clew_app"])
def test_a_graph_that_another_program_has_just_built_stays(
    postgres: str, open_store: Open, database: psycopg.Connection, role: str
) -> None:
    store = open_store(url=as_role(postgres, role) if role == "clew_app" else postgres)
    put(store, "log")
    store.flush()
    sql = f"SELECT 'clew.signals_graph_{get_server(store)._collection.number}'::regclass::oid::int"
    built = database.execute(sql).fetchone()
    for known, dim in (
        (get_server(store)._collection, DIM),
        (replace(get_server(store)._collection, embedder="old"), DIM + 1),
    ):
        with get_server(store)._pool.open_connection() as connection:  # as one that looked before the other was done
            upkeep.build_graph(connection, "signals", known, dim, 3)
    assert database.execute(sql).fetchone() == built


def test_a_small_collection_has_no_graph(open_store: Open) -> None:
    store = open_store(config=StoreConfig())
    put(store, "log")
    store.flush()
    facts = store.stats()
    assert (facts.index, facts.bytes > 0) == ("exact, in PostgreSQL", True)
    assert facts.change == store.change_number() == 1


# -- many at once


def test_searches_at_once_have_a_connection_each(open_store: Open) -> None:
    store = open_store()
    fill_store(store)
    expected = [store.search_vectors(row(seed), 5) for seed in range(8)]
    together, seen = threading.Barrier(8), set[int]()

    def pid(connection: psycopg.Connection) -> int:
        together.wait(20)
        return connection.info.backend_pid

    with ThreadPoolExecutor(8) as threads:
        seen.update(threads.map(lambda _: get_server(store)._pool.run_read(pid), range(8)))
        found = list(threads.map(lambda seed: store.search_vectors(row(seed % 8), 5), range(64)))
    assert len(seen) == 8
    assert found == [expected[seed % 8] for seed in range(64)]


def test_threads_put_and_search_together(open_store: Open) -> None:
    store = open_store(config=StoreConfig())

    def work(n: int) -> int:
        put(store, f"d{n % 5}", 1 + n % 4)
        return len(store.search_vectors(row(n), 100))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(60)))
    facts = store.stats()
    assert (facts.documents, facts.change) == (5, 60)
    assert facts.chunks == len(store.search_vectors(row(1), 1000)) == sum(record.chunks for record in store.documents())


# -- the tables


def read_format(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return setup.read_format(connection)


@pytest.mark.parametrize("fault", ["SELECT 1/0", "SELECT pg_terminate_backend(pg_backend_pid())"])
def test_an_interrupted_setup_leaves_nothing_and_the_next_run_does_it(
    postgres_database: Callable[[str], str], open_store: Open, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    url, schema = postgres_database("template0"), setup.read_schema()
    with monkeypatch.context() as patch:
        patch.setattr(setup, "read_schema", lambda: f"{schema};\n{fault}")
        with pytest.raises(DriverFailed):
            open_store(url=url)
        assert read_format(url) == 0
        assert read_stored_embedder_name(url, "one") is None
    put(open_store(url=url), "log")
    assert read_format(url) == setup.FORMAT


def test_programs_that_start_together_create_the_tables_once(
    postgres_database: Callable[[str], str], open_store: Open
) -> None:
    url = postgres_database("template0")
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda n: open_store(f"c{n % 2}", url=url), range(4)))
    assert read_format(url) == setup.FORMAT
    assert len({get_server(store)._collection.number for store in stores}) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE clew.format SET number = 99", r"newer Clew \(format 99, this one reads \d+\); update"),
        (
            "DROP TABLE clew.format; CREATE TABLE clew.migrations(number int); INSERT INTO clew.migrations VALUES(14)",
            r"earlier Clew \(format 14.*nothing was changed; `Engine.export` .*`Engine.restore`",
        ),
    ],
)
def test_tables_of_another_version_are_refused(
    postgres: str, open_store: Open, database: psycopg.Connection, change: str, said: str
) -> None:
    put(open_store(), "log")
    database.execute(change)
    for verb in (
        open_store,
        lambda: list_collections(postgres),
        lambda: drop_collection(postgres, "one"),
        lambda: read_stored_embedder_name(postgres, "one"),
    ):
        with pytest.raises(StoreMismatch, match=said):
            verb()
    assert counts(database)["documents"] == 1


# -- half precision


@pytest.mark.parametrize(("vectors", "other"), [("half", "float32"), ("float32", "half")])
def test_a_collection_keeps_the_form_of_its_vectors(
    postgres: str, database: psycopg.Connection, vectors: Any, other: Any
) -> None:
    first, later = (Settings(store=StoreConfig(vectors=each, exact_below=0)) for each in (vectors, other))
    with Engine.open(postgres, embedder="hashed", settings=first) as engine:
        engine.add_documents([Document("a", "Keys are rotated.")])
    with Engine.open(postgres, settings=later) as engine:
        engine.add_documents([Document("b", "Lunch is served.")])
        for change in ({"to": "hashed:64"}, {"back": True}):
            engine.reembed(**change)
            assert engine.search("Keys are rotated.", strategy="semantic")[0].document.id == "a"
        assert engine.doctor(full=True).is_sound
    ((whole, half),) = database.execute("SELECT count(vector), count(half) FROM clew.signals").fetchall()
    assert (whole, half) == ((0, 2) if vectors == "half" else (2, 0))


# -- what it says


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("/clew_test", "/absent_"), "no such database"),
        (("host=", "host=/nowhere"), "cannot be reached"),
        (("postgres:@", "nobody:@"), "no such database or role"),
    ],
)
def test_a_server_that_cannot_be_opened_says_why(postgres: str, change: tuple[str, str], said: str) -> None:
    if change[0] not in postgres:
        pytest.skip("another server's address")
    url = postgres.replace(*change)
    with pytest.raises(DriverFailed, match=said):
        server_store.open_store(url, collection="one", embedder="m", dim=DIM)
    with pytest.raises(DriverFailed, match=said):
        read_stored_embedder_name(url, "one")


def name_dead_host_first(url: str) -> str:
    known = conninfo_to_dict(url)
    hosts, ports = f"127.0.0.1,{known['host']}", f"1,{known.get('port') or 5432}"
    return f"postgresql://{known['user']}@/{known['dbname']}?{urlencode({'host': hosts, 'port': ports})}"


def test_an_address_with_several_hosts_leads_to_the_one_that_answers(postgres: str, open_store: Open) -> None:
    url = name_dead_host_first(postgres)
    put(open_store(url=f"{url}&target_session_attrs=read-write"), "log")
    assert [record.id for record in open_store(url=url).documents()] == ["log"]
    reader = open_store(
        url=f"{url}&target_session_attrs=prefer-standby&options=-c%20default_transaction_read_only%3Don"
    )
    assert [hit.chunk.doc_id for hit in reader.search_vectors(row(1), 1)] == ["log"]
    with pytest.raises(ReadOnlyStore, match="target_session_attrs=read-write"):
        put(reader, "other")
    with pytest.raises(DriverFailed, match="cannot be reached"):
        open_store(url=f"{url}&target_session_attrs=standby")


def test_several_hosts_are_named_with_their_ports() -> None:
    assert describe_address("postgresql://ann:x@a:1,b:2/db") == "postgresql://ann@a:1,b:2/db"
    assert describe_address("postgresql://ann:x@a,b/db") == "postgresql://ann@a,b/db"
    assert describe_address("postgresql:///db?host=a,/run/b&port=7") == "postgresql://a:7,[/run/b]/db"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@127.0.0.1:1/db",
        "postgresql://ann:s3cret@127.0.0.1:1,127.0.0.1:2/db",
        "postgresql://ann:s3cret%zz@127.0.0.1/db",
        "postgresql://ann:x@s3cret@127.0.0.1:1/db",
        "postgresql://ann:x/s3cret@127.0.0.1:1/db",
        "postgresql://ann:1/s3cret@127.0.0.1:1/db",
        "postgresql://ann:s3cret/x@127.0.0.1:1/db",
        "postgresql://ann:s3cret",
        "postgresql://ann@127.0.0.1:1/db?password=s3cret",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises((DriverFailed, SettingsError)) as raised:
        server_store.open_store(url, collection="one", embedder="m", dim=DIM)
    error: BaseException | None = raised.value
    while error:
        assert "s3cret" not in str(error)
        error = error.__cause__
    assert "postgresql://" in str(raised.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("consuming input failed: SSL connection has been closed unexpectedly", "closed the connection"),
        ("consuming input failed: SSL SYSCALL error: EOF detected", "closed the connection"),
        ("SSL error: unexpected eof while reading", "closed the connection"),
        ("server does not support SSL, but SSL was required", "sslmode"),
        ("failed to resolve host 'nowhere': [Errno -2] Name or service not known", "no host of that name"),
    ],
)
def test_a_lost_connection_is_not_taken_for_another_trouble(words: str, said: str) -> None:
    with pytest.raises(DriverFailed, match=said), translate_errors("here"):
        raise psycopg.OperationalError(words)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("clew.drivers.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DriverMissing, match=r"psycopg.*pip install \"clew\[postgres\]\""):
        import_module("clew.drivers.store.postgres")


def test_what_is_too_old_is_refused(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "MIN_PGVECTOR", (9, 9))
    with pytest.raises(DriverFailed, match=r"pgvector .* is too old.*UPDATE"):
        server_store.open_store(postgres, collection="one", embedder="m", dim=DIM)
    monkeypatch.setattr(setup, "MIN_SERVER", 99)
    with pytest.raises(DriverFailed, match=r"PostgreSQL .* is too old"):
        server_store.open_store(postgres, collection="one", embedder="m", dim=DIM)


def test_a_role_without_rights_is_told_who_has_them(postgres_database: Callable[[str], str]) -> None:
    url = postgres_database("template0")
    with psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(DriverFailed, match=r"administrator runs CREATE EXTENSION vector"):
            server_store.open_store(as_role(url, "pg_monitor"), collection="one", embedder="m", dim=DIM)
        connection.execute("CREATE EXTENSION vector")
    with pytest.raises(DriverFailed, match=r"may not create them.*owner"):
        server_store.open_store(as_role(url, "pg_monitor"), collection="one", embedder="m", dim=DIM)


LONG = np.random.default_rng(1).bytes(3000).hex()  # that cannot be compressed


@pytest.mark.parametrize(
    ("name", "said"), [("a\x00b", "NUL"), ("a\ud800b", "half of a character pair"), (LONG, "too long")]
)
def test_what_a_server_cannot_keep_is_refused_whole(open_store: Open, name: str, said: str) -> None:
    store = open_store()
    put(store, "log")
    with pytest.raises(DriverFailed, match=said):
        store.put(Document(name, "x"), [Chunk("new", name, 0, 1, "x", 0, 1)], rows(1, 1), [{"x": 1}])
    assert [record.id for record in store.documents()] == ["log"]
    assert store.stats().chunks == 3
