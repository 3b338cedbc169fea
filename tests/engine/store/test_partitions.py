"""Partitions by collection on a server: the words of each collection are a table of their own."""

from contextlib import suppress

import psycopg
import pytest

from clew import Document, Engine
from tests.engine.store.test_collections import as_address, fill

PARTITIONS = "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' ORDER BY 1"


def list_partitions(server: psycopg.Connection) -> list[str]:
    return [name for (name,) in server.execute(PARTITIONS)]


def test_whoever_works_in_a_collection_touches_no_words_of_another(postgres: str) -> None:
    fill(postgres, "ops", 2)
    fill(postgres, "sales", 3)
    waits = f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20lock_timeout%3D3s"
    with psycopg.connect(postgres) as server, Engine.open(waits, collection="ops", embedder="hashed") as engine:
        assert list_partitions(server) == ["postings_1", "postings_2"]
        server.execute("LOCK TABLE ONLY clew.postings_2 IN ACCESS EXCLUSIVE MODE")  # who touches it waits
        assert len(engine.search("which gauge is read?", strategy="lexical")) == 2
        engine.add_documents([Document("d2", "The buoy is read.")])
        assert [hit.document.id for hit in engine.search("buoy", strategy="lexical")] == ["d2"]
        assert engine.drop("d0") == 1
        assert engine.doctor().defects == ()


def test_dropping_a_collection_leaves_the_tables_of_others_as_they_are(postgres: str) -> None:
    fill(postgres, "ops", 2)
    fill(postgres, "sales", 3)
    kept = "SELECT relfilenode, pg_relation_size(oid) FROM pg_class WHERE relname IN ('postings_2', 'postings_2_pkey')"
    with psycopg.connect(postgres, autocommit=True) as server:
        before = server.execute(kept).fetchall()
        ops, sales = Engine.collections(postgres)
        assert ops.bytes > 0
        Engine.drop_collection(postgres, "ops")
        assert list_partitions(server) == ["postings_2"]
        assert server.execute(kept).fetchall() == before
    with Engine.open(postgres, collection="sales", embedder="hashed") as engine:
        assert len(engine.search("which gauge is read?", strategy="lexical")) == sales.documents == 3


def test_a_role_that_owns_nothing_makes_collections_and_upkeep_drops_the_partitions_it_leaves(postgres: str) -> None:
    app = as_address(postgres, "clew_app")
    fill(app, "ops", 2)
    Engine.open(postgres, collection="sales", embedder="hashed").close()
    with psycopg.connect(postgres, autocommit=True) as server:
        assert list_partitions(server) == ["postings_1", "postings_2"]
        Engine.drop_collection(app, "ops")
        assert list_partitions(server) == ["postings_1", "postings_2"]
        assert server.execute("SELECT count(*) FROM clew.postings_1").fetchone() == (0,)
        with Engine.open(postgres, collection="sales", embedder="hashed") as engine:
            engine.enqueue_maintenance()
            (job,) = engine.run_jobs()
            assert "dropped 1 partitions of collections that are gone" in str(job.result)
        assert list_partitions(server) == ["postings_2"]


def test_a_partition_that_is_named_itself_shows_nothing(postgres: str) -> None:
    fill(postgres, "ops", 2)
    with psycopg.connect(as_address(postgres, "clew_app"), autocommit=True) as connection:
        connection.execute("SELECT set_config('clew.collection', 'ops', false)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="postings_1"):
            connection.execute("SELECT * FROM clew.postings_1")
        connection.execute("SELECT set_config('clew.access', '{5}', false)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="by who may change it"):
            connection.execute("SELECT clew.make_partition()")
    with psycopg.connect(postgres, autocommit=True) as server:
        with suppress(psycopg.errors.DuplicateObject):
            server.execute("CREATE ROLE clew_reader")
        server.execute("GRANT USAGE ON SCHEMA clew TO clew_reader")
        server.execute("GRANT SELECT ON clew.postings_1 TO clew_reader")
        server.execute("SET ROLE clew_reader")
        assert server.execute("SELECT count(*) FROM clew.postings_1").fetchone() == (0,)
