"""Matches of terms in the embedded store: its two indexes agree, through rebuilds, damage and threads."""

import shutil
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, TermMatch
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.sqlite.folder import HOME
from clew.drivers.store.store import Store

DIM = 4
WORDS = [f"word{n}" for n in range(40)]
QUERY = {"word0": 1, "word7": 2, "word20": 1, "absent": 1}
EXACT, SHARD = StoreConfig(), StoreConfig(exact_below=0)


def open_store(folder: Path | None, config: StoreConfig = EXACT) -> Store:
    return open_sqlite(folder, embedder="m", dim=DIM, config=config)


def put(store: Store, name: str, many: int, seed: int = 0) -> list[str]:
    """Puts a document of random chunks and returns their ids."""
    drawn = np.random.default_rng([seed, *name.encode()])
    texts = [" ".join(drawn.choice(WORDS, 6)) for _ in range(many)]
    chunks = [Chunk(f"{name}-{n}", name, n, many, text, 0, len(text)) for n, text in enumerate(texts)]
    vectors = np.full((many, DIM), 0.5, np.float32)
    store.put(Document(name, "\n".join(texts)), chunks, vectors, [Counter(text.split()) for text in texts])
    return [chunk.id for chunk in chunks]


def match_in_fresh_store(*documents: tuple[str, int, int]) -> dict[str, TermMatch]:
    """The matches of a store into which these documents were put and nothing else."""
    store = open_store(None)
    ids = [each for name, many, seed in documents for each in put(store, name, many, seed)]
    return store.match_terms(QUERY, ids)


@pytest.mark.parametrize("config", [EXACT, SHARD], ids=["exact", "shard"])
@pytest.mark.slow
def test_matches_do_not_depend_on_what_was_removed(tmp_path: Path, config: StoreConfig) -> None:
    store = open_store(tmp_path / "one", config)
    ids = [*put(store, "stays", 50), *put(store, "goes", 1500), *put(store, "changes", 300)]
    assert store.match_terms(QUERY, ids) == match_in_fresh_store(
        ("stays", 50, 0), ("goes", 1500, 0), ("changes", 300, 0)
    )
    put(store, "changes", 200, seed=1)
    expected = match_in_fresh_store(("stays", 50, 0), ("goes", 1500, 0), ("changes", 200, 1))
    assert store.match_terms(QUERY, ids) == expected
    store.drop(["goes"])  # so many that the exact index is built anew
    assert store.match_terms(QUERY, ids) == match_in_fresh_store(("stays", 50, 0), ("changes", 200, 1))
    put(store, "goes", 3, seed=2)
    expected = match_in_fresh_store(("stays", 50, 0), ("changes", 200, 1), ("goes", 3, 2))
    assert store.match_terms(QUERY, ids) == expected
    store.close()


def test_a_lost_index_is_rebuilt_for_matches(tmp_path: Path) -> None:
    store = open_store(tmp_path / "one", SHARD)
    ids = put(store, "log", 30)
    expected = match_in_fresh_store(("log", 30, 0))
    assert store.match_terms(QUERY, ids) == expected
    store.close()
    shutil.rmtree(tmp_path / "one" / HOME)
    store = open_store(tmp_path / "one", SHARD)
    assert store.match_terms(QUERY, ids) == expected
    store.close()


@pytest.mark.parametrize("config", [EXACT, SHARD], ids=["exact", "shard"])
def test_threads_match_while_others_write(tmp_path: Path, config: StoreConfig) -> None:
    store, failed, done = open_store(tmp_path / "one", config), list[BaseException](), threading.Event()
    always = put(store, "always", 5)

    def match() -> None:
        try:
            while not done.is_set():
                found = store.match_terms(QUERY, [*always, *(f"other-{n}" for n in range(6))])
                assert set(found) >= set(always)
                assert all(0 <= each.strength <= each.share <= 1 for each in found.values())
        except BaseException as error:  # a thread has nobody else to tell
            failed.append(error)

    matchers = [threading.Thread(target=match) for _ in range(3)]
    for thread in matchers:
        thread.start()
    for seed in range(30):
        put(store, "other", 6 - seed % 3, seed)
        store.drop(["other"] if seed % 4 == 0 else [])
    done.set()
    for thread in matchers:
        thread.join()
    assert failed == []
    store.close()
