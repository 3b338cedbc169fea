"""What labels of access cost on a server: for those who have none, and for a reader with labels.

The same searches as the role `clew_app`, over the same random chunks, a third of which have a label.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from urllib.parse import urlsplit

import numpy as np
import psycopg

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store.postgres import make_app_role, open_store
from clew.drivers.store.store import Store
from studies.server import START_OWN, NoServer, open_server

SIZE, PER_DOCUMENT, DIM, WORDS, WORDS_PER_CHUNK, K = 10_000, 10, 128, 3_000, 60, 10
WARM_UP, ROUNDS = 10, 200
LABEL = "staff"
LABELS = (None, frozenset({LABEL}), frozenset({"board"}))  # of a document, in turn
_DROP_POLICIES = """
DO $$ DECLARE name text; own text; BEGIN
  FOR name, own IN SELECT tablename, policyname FROM pg_policies
    WHERE schemaname = 'clew' AND permissive = 'RESTRICTIVE'
  LOOP EXECUTE format('DROP POLICY %I ON clew.%I', own, name); END LOOP;
END $$
"""


def measure_labels(_: Setup) -> Sequence[Measurement]:
    """Both searches, with the policies over without them, and with labels on the connection over a filter alone."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(open_server(START_OWN))
        except NoServer as error:
            raise Skipped(str(error)) from error
        make_app_role(url)
        _fill(url)
        with psycopg.connect(urlsplit(url)._replace(path="/template1").geturl(), autocommit=True) as server:
            server.execute(f"CREATE DATABASE plain TEMPLATE {urlsplit(url).path[1:]}")
        plain = urlsplit(url)._replace(path="/plain").geturl()
        with psycopg.connect(plain, autocommit=True) as owner:
            owner.execute(_DROP_POLICIES)
        for each in (url, plain):
            with psycopg.connect(each, autocommit=True) as owner:
                owner.execute("VACUUM ANALYZE")
        whole, before, limited = (_open(each, access) for each, access in ((url, None), (plain, None), (url, (LABEL,))))
        for store in (whole, before, limited):
            stack.callback(store.close)
        where = Filter(access={LABEL})
        return [
            *_compare("no labels, with the policies / without them", whole, before, 1.1),
            *_compare("labels / filter alone", limited.within(where), whole.within(where), 3.0),
        ]


def _compare(name: str, own: Store, other: Store, goal: float) -> list[Measurement]:
    vectors = _draw_vectors(1, ROUNDS + WARM_UP)
    words = np.random.default_rng(2).integers(0, WORDS, (ROUNDS + WARM_UP, 4))

    def search_vectors(store: Store, round_: int) -> None:
        store.search_vectors(vectors[round_], K)

    def search_terms(store: Store, round_: int) -> None:
        store.search_terms(Counter(f"w{word}" for word in words[round_]), K)

    def measure(search: Callable[[Store, int], None]) -> float:
        own_times, other_times = time_interleaved(partial(search, own), partial(search, other), rounds=ROUNDS + WARM_UP)
        return p50(own_times[WARM_UP:]) / p50(other_times[WARM_UP:])

    return [
        Measurement(f"vector search, {name}", measure(search_vectors), f"≤ {goal}"),
        Measurement(f"BM25, {name}", measure(search_terms), f"≤ {goal}"),
    ]


def _open(url: str, access: tuple[str, ...] | None = None) -> Store:
    app = f"{url}{'&' if '?' in url else '?'}options=-c%20role%3Dclew_app"
    config = StoreConfig(exact_below=1000, access=access)
    return open_store(app, collection="bench", embedder="random", dim=DIM, config=config)


def _fill(url: str) -> None:
    drawn, vectors = np.random.default_rng(0), _draw_vectors(0, SIZE)
    store = _open(url)
    for number in range(SIZE // PER_DOCUMENT):
        name = f"d{number}"
        texts = [
            " ".join(f"w{int(WORDS * share**2)}" for share in drawn.random(WORDS_PER_CHUNK))
            for _ in range(PER_DOCUMENT)
        ]
        chunks = [Chunk(f"{name}-{n}", name, n, PER_DOCUMENT, text, 0, 9) for n, text in enumerate(texts)]
        document = Document(name, "\n".join(texts), uri=name, access=LABELS[number % len(LABELS)])
        own = vectors[number * PER_DOCUMENT : (number + 1) * PER_DOCUMENT]
        store.put(document, chunks, own, [Counter(text.split()) for text in texts])
    store.flush()
    store.close()


def _draw_vectors(seed: int, many: int) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(many, DIM))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)
