"""The floors of the two stores return the same results as the stores."""

from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import postgres as bench
from benchmarks.floors import ServerFloor, ShardFloor, SqliteFloor
from clew.core.text import extract_terms
from clew.drivers.store import postgres as server_store
from clew.drivers.store.postgres import pool
from clew.drivers.store.rows import pack_terms
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from tests.backends import get_backend, get_server

DIM, K, MANY = 16, 10, 1500


def test_floors_find_what_the_stores_find(tmp_path: Path, postgres: str) -> None:
    drawn = np.random.default_rng(3).normal(size=(MANY, DIM))
    vectors = np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)
    texts = [f"buoy {n} off cape {n % 17} by {n * 7 % 31} fathoms" for n in range(MANY)]
    pages = list(bench.make_inputs(texts, vectors))
    embedded = open_sqlite(tmp_path / "one", embedder="m", dim=DIM, config=bench.ANN_CONFIG)
    server = server_store.open_store(postgres, collection="one", embedder="m", dim=DIM, config=bench.ANN_CONFIG)
    sqlite = SqliteFloor(tmp_path / "raw.db")
    with pool.connect(postgres, "one") as connection:
        known = get_server(server)._collection
        sql = ServerFloor(connection, number=known.number, vector=known.vector_oid, dim=DIM, k=K)
        sql.make_tables()
        for at, page in enumerate(pages):
            for store in (embedded, server):
                store.put(page.document, page.chunks, page.vectors, page.terms)
            sqlite.put(page, at)
            sql.put(page, at)
        for store in (embedded, server):
            store.flush()
        embedded.search_vectors(vectors[0], K)
        index = get_backend(embedded).index._shard
        assert index
        having = Counter(word for page in pages for each in page.terms for word in pack_terms(each).hashes.tolist())
        shard = ShardFloor(index._shard, get_backend(embedded)._database._connection, having, MANY)
        for n in range(0, 200, 20):
            near = {hit.chunk.id for hit in embedded.search_vectors(vectors[n], K, mode="exact")}
            assert len(near & {row[0] for row in shard.search_vectors(vectors[n], K)}) >= 9
            assert len(near & {row[1] for row in sql.search_vectors(vectors[n])}) >= 9
            asked = extract_terms(texts[n], is_query=True)
            scores = {hit.chunk.id: hit.score for hit in server.search_terms(asked, MANY)}
            best = list(scores.values())[:K]  # of those that are equal, a floor finds any
            assert [round(row[0], 9) for row in sql.search_terms(asked)] == best
            assert [scores[row[1]] for row in sql.search_terms(asked)] == best
            assert sorted((scores[row[0]] for row in shard.search_terms(asked, K)), reverse=True) == best
        kept = connection.execute("SELECT count(*), sum(length(text)) FROM raw_chunks").fetchall()
        assert kept == connection.execute("SELECT count(*), sum(length(text)) FROM chunks").fetchall()
        assert kept == sqlite._db.execute("SELECT count(*), sum(length(text)) FROM chunks").fetchall()
        words = connection.execute("SELECT count(*), sum(count) FROM raw_postings").fetchall()
        assert words == connection.execute("SELECT count(*), sum(count) FROM postings WHERE count > 0").fetchall()
    sqlite.close()
    embedded.close()
    server.close()
