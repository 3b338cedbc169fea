"""What int8 vectors save on a PostgreSQL server: bytes of a chunk, with them over those with whole vectors."""

from collections.abc import Iterator

import numpy as np

from benchmarks import Measurement, Setup, Skipped
from benchmarks.postgres import ANN_CONFIG, make_inputs
from clew.core.quantize import INT8_MARK, round_to_int8
from clew.core.stored import NewDocument
from clew.core.types import Matrix
from clew.drivers.store.postgres import PostgresStore
from clew.drivers.store.postgres.connect.pool import connect, fetch_rows
from studies.server import START_OWN, NoServer, open_server

CHUNKS, DIM, WORDS, VOCABULARY = 10_000, 384, 60, 20_000
BATCH = 200  # documents of one commit


def measure_int8(setup: Setup) -> Iterator[Measurement]:
    """The table of vectors, and all that is kept, of chunks of random words and vectors."""
    rng, size = np.random.default_rng(1), setup.chunks or CHUNKS
    drawn = rng.normal(size=(size, DIM)).astype(np.float32)
    vectors = round_to_int8(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    texts = [" ".join(f"w{word}" for word in rng.integers(0, VOCABULARY, WORDS)) for _ in range(size)]
    try:
        whole, small = (_measure_bytes(texts, vectors, f"random{mark}") for mark in ("", INT8_MARK))
    except NoServer as error:
        raise Skipped(str(error)) from error
    for what, before, after in zip(("the table of vectors", "all that is kept"), whole, small, strict=True):
        yield Measurement(f"bytes of a chunk in {what}, int8 / whole", after / before, note=f"{after:,} / {before:,}")


def _measure_bytes(texts: list[str], vectors: Matrix, embedder: str) -> tuple[int, int]:
    """The bytes of a chunk in the table of vectors, and in all tables and indexes."""
    with open_server(START_OWN) as url:
        store = PostgresStore(url, collection="bench", embedder=embedder, dim=DIM, config=ANN_CONFIG)
        pages = [
            NewDocument(each.document, each.chunks, each.vectors, each.terms) for each in make_inputs(texts, vectors)
        ]
        for start in range(0, len(pages), BATCH):
            store.put_many(pages[start : start + BATCH])
        store.flush()
        with connect(url, "bench") as connection:
            connection.execute("VACUUM (ANALYZE)")
            ((signals,),) = fetch_rows(connection, "SELECT pg_table_size('clew.signals')")
        total = store.stats().bytes
        store.close()
        return signals // len(texts), total // len(texts)
