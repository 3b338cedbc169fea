"""The server store when things break: nothing is half written, the error says what to do, the next run finishes."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store import postgres as server_store
from clew.drivers.store.postgres import pool
from clew.drivers.store.postgres import rows as table_rows
from clew.drivers.store.store import Store
from tests.backends import get_server

DIM = 8
ROOT = Path(__file__).parents[4]
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND application_name = 'clew'"


@pytest.fixture
def store(postgres: str) -> Iterator[Store]:
    opened = open_store(postgres)
    yield opened
    opened.close()


@pytest.fixture
def database(postgres: str) -> Iterator[psycopg.Connection]:
    """The same database, as its superuser."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def open_store(url: str) -> Store:
    return server_store.open_store(url, collection="one", embedder="m", dim=DIM)


def rows(seed: int, many: int) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(many, DIM))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def put(store: Store, name: str, version: int, many: int = 4) -> None:
    """Puts a document all of whose chunks say which version they are of."""
    text = f"{name} v{version}"
    chunks = [Chunk(f"{name}-{n}-{version}", name, n, many, text, 0, len(text)) for n in range(many)]
    words = [Counter({name: 1, f"v{version}": 1, f"n{n}": 2}) for n in range(many)]
    store.put(Document(name, text), chunks, rows(version, many), words)


def read_texts(store: Store) -> dict[str, str]:
    """The text of every document; fails unless chunks, vectors, words and counts all agree with it."""
    texts = {record.id: store.document(record.id).text for record in store.documents()}
    near = store.search_vectors(rows(0, 1)[0], 1000)
    assert all(hit.chunk.text == texts[hit.chunk.doc_id] for hit in near)
    for name, text in texts.items():
        chunks = store.chunks(name)
        assert {chunk.text for chunk in chunks} == {text}
        matched = {hit.chunk.id for hit in store.search_terms({name: 1}, 1000)}
        assert matched == {chunk.id for chunk in chunks} == {hit.chunk.id for hit in near if hit.chunk.doc_id == name}
    facts = store.stats()
    assert (facts.documents, facts.chunks) == (len(texts), len(near))
    ((words, postings),) = get_server(store)._pool.fetch_rows(
        "SELECT (SELECT coalesce(sum(cardinality(words)), 0) FROM chunks), (SELECT count(*) FROM postings)"
    )
    assert words == postings
    return texts


@pytest.mark.slow
def test_a_server_that_is_killed_in_the_middle_of_a_put_loses_nothing(
    postgres_to_kill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TIMEOUT", 1.0)
    store = open_store(postgres_to_kill.get_uri())
    put(store, "log", 1)
    put(store, "map", 1)
    write_head, server = table_rows.write_head, postgres_to_kill._postmaster_info.process

    def killing(*given: Any, **named: Any) -> None:
        server.send_signal(signal.SIGQUIT)  # no clean end: what is not in its log is lost
        server.wait(30)
        write_head(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(table_rows, "write_head", killing)
        with pytest.raises(DriverFailed, match=r"cannot be reached.*try again"):
            put(store, "log", 2, 9)
        with pytest.raises(DriverFailed, match=r"cannot be reached"):
            store.search_vectors(rows(0, 1)[0], 5)
    postgres_to_kill.ensure_postgres_running()
    assert read_texts(store) == {"log": "log v1", "map": "map v1"}
    put(store, "log", 2, 9)
    assert read_texts(store) == {"log": "log v2", "map": "map v1"}
    store.close()


def test_a_lost_connection_is_replaced(store: Store, database: psycopg.Connection) -> None:
    for version in range(1, 4):
        put(store, "log", version)
        before = read_texts(store)
        database.execute(OTHERS, (database.info.dbname,))
        assert read_texts(store) == before
        database.execute(OTHERS, (database.info.dbname,))
        put(store, "map", version)
        assert store.document("map").text == f"map v{version}"


def test_a_connection_lost_within_a_change_is_tried_once_more(
    store: Store, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "log", 1)
    write_head, times = table_rows.write_head, [0]

    def dropped(*given: Any, **named: Any) -> None:
        times[0] += 1
        if times[0] == 1:
            database.execute(OTHERS, (database.info.dbname,))
        write_head(*given, **named)

    monkeypatch.setattr(table_rows, "write_head", dropped)
    put(store, "log", 3, many=5)
    assert times == [2]
    assert store.document("log").text == "log v3"
    assert len(store.chunks("log")) == 5

    def always_dropped(*given: Any, **named: Any) -> None:
        database.execute(OTHERS, (database.info.dbname,))
        write_head(*given, **named)

    monkeypatch.setattr(table_rows, "write_head", always_dropped)
    with pytest.raises(DriverFailed, match="closed the connection"):
        put(store, "log", 2)
    assert store.document("log").text == "log v3"


def test_a_connection_lost_at_the_very_end_leaves_it_open(store: Store, database: psycopg.Connection) -> None:
    put(store, "log", 1)
    database.execute(
        "CREATE FUNCTION public.die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        " CREATE CONSTRAINT TRIGGER die AFTER UPDATE ON clew.collections DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION public.die()"
    )
    with pytest.raises(DriverFailed, match=r"may be stored or not; check, then try again"):
        put(store, "log", 2)
    database.execute("DROP TRIGGER die ON clew.collections")
    assert read_texts(store) == {"log": "log v1"}
    put(store, "log", 2)
    assert read_texts(store) == {"log": "log v2"}


@pytest.mark.parametrize("many", [20, 1500])
def test_a_large_document_does_not_get_stuck_on_its_way(store: Store, many: int) -> None:
    text = "y" * (6_000_000 // many)
    chunks = [Chunk(f"log-{n}", "log", n, many, text, 0, 1) for n in range(many)]
    done = threading.Event()

    def work() -> None:
        for moved in (0, 1):  # the second time all chunks are there already, and only move
            placed = [replace(chunk, start=moved) for chunk in chunks]
            store.put(Document("log", text), placed, rows(1, many), [{"y": 1, f"n{n}": 1} for n in range(many)])
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(60)
    assert [chunk.start for chunk in store.chunks("log")] == [1] * many


def test_a_pool_that_tries_again_does_not_write_to_the_terminal() -> None:
    code = "import logging, clew.drivers.store.postgres; logging.getLogger('psycopg.pool').warning('tried again')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said.stderr == ""


@pytest.mark.parametrize("below", [0, 10_000])
def test_searches_go_on_while_connections_are_dropped(postgres: str, database: psycopg.Connection, below: int) -> None:
    config = StoreConfig(exact_below=below)
    store = server_store.open_store(postgres, collection="one", embedder="m", dim=DIM, config=config)
    for n in range(5):
        put(store, f"d{n}", 1)
    store.flush()
    expected = store.search_vectors(rows(0, 1)[0], 7), store.search_terms({"d1": 1, "v1": 1}, 7)
    done, failed, right = threading.Event(), list[str](), [0]

    def search() -> None:
        while not done.is_set():
            try:
                assert (store.search_vectors(rows(0, 1)[0], 7), store.search_terms({"d1": 1, "v1": 1}, 7)) == expected
                right[0] += 1
            except DriverFailed as error:
                failed.append(str(error))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        database.execute(OTHERS, (database.info.dbname,))
        done.wait(0.05)
    done.set()
    for thread in threads:
        thread.join(60)
    assert right[0] > 0
    assert all("closed the connection" in said for said in failed)  # lost twice in a row: said, not hidden
    assert (store.search_vectors(rows(0, 1)[0], 7), store.search_terms({"d1": 1, "v1": 1}, 7)) == expected
    store.close()


@pytest.mark.parametrize("table", ["postings", "signals", "chunks", "pieces", "collections"])
def test_a_full_disk_leaves_nothing_half_written(store: Store, database: psycopg.Connection, table: str) -> None:
    put(store, "log", 1)
    database.execute(
        "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
    )
    database.execute(
        f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON clew.{table} FOR EACH ROW EXECUTE FUNCTION public.full()"
    )
    for name in ("log", "map"):
        with pytest.raises(DriverFailed, match=r"disk is full; make room"):
            put(store, name, 2)
    assert read_texts(store) == {"log": "log v1"}
    database.execute(f"DROP TRIGGER full_disk ON clew.{table}")
    put(store, "log", 2)
    assert read_texts(store) == {"log": "log v2"}


def test_a_statement_that_takes_too_long_is_said(postgres: str, database: psycopg.Connection) -> None:
    store = open_store(f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20statement_timeout%3D300")
    put(store, "log", 1)
    with psycopg.connect(postgres) as other:
        other.execute("LOCK TABLE clew.collections IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DriverFailed, match="statement_timeout"):
            put(store, "log", 2)
    assert read_texts(store) == {"log": "log v1"}
    store.close()


def test_processes_that_add_the_same_documents_do_not_get_into_each_others_way(postgres: str, store: Store) -> None:
    orders = [["0", "5"], ["1", "5"]]
    command = [sys.executable, "-m", __name__, postgres]
    others = [subprocess.Popen([*command, *order], cwd=ROOT, stderr=subprocess.PIPE) for order in orders]
    said = [other.communicate(timeout=120)[1].decode() for other in others]
    assert [other.returncode for other in others] == [0, 0], said
    texts = read_texts(store)
    assert set(texts) == {f"d{n}" for n in range(6)}
    assert store.change_number() == 2 * 5 * 6
    assert all(record.chunks == len(store.chunks(record.id)) for record in store.documents())


def add(url: str, seed: int, rounds: int) -> None:
    """The life of another process: it puts the same documents again and again, in an order of its own."""
    store, drawn = open_store(url), np.random.default_rng(seed)
    for turn in range(rounds):
        for n in drawn.permutation(6):
            put(store, f"d{n}", turn % 3, 2 + turn % 3)
            assert store.search_vectors(rows(turn, 1)[0], 3)
    store.close()


if __name__ == "__main__":
    add(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
