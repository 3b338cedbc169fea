"""The embedded store with several processes on one folder: what one puts all find, and a killed one breaks nothing."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Matrix
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.store import Store

DIM = 8
INDEXES = {"exact": StoreConfig(), "shard": StoreConfig(exact_below=0)}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing: a shard waits for the disk at every turn."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path / "one"
        return
    with TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place) / "one"


def open_store(folder: Path, index: str = "exact") -> Store:
    return open_sqlite(folder, embedder="m", dim=DIM, config=INDEXES[index])


def rows(seed: int, many: int) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(many, DIM))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def put(store: Store, name: str, version: int, many: int) -> None:
    """Puts a document all of whose chunks say which version they are of."""
    text = f"{name} v{version}"
    chunks = [Chunk(f"{name}-{n}-{version}", name, n, many, text, 0, len(text)) for n in range(many)]
    words = [Counter({name: 1, f"v{version}": 1, f"n{n}": 2}) for n in range(many)]
    store.put(Document(name, text), chunks, rows(version, many), words)


def find_names(store: Store) -> set[str]:
    """The documents that a search finds, which must be the same by vector and by word."""
    known = [record.id for record in store.documents()]
    near = {hit.chunk.doc_id for hit in store.search_vectors(rows(0, 1)[0], 1000)}
    matched = {hit.chunk.doc_id for name in known for hit in store.search_terms({name: 1}, 1000)}
    assert near == matched == set(known)
    return near


class Other:
    """Another process with the store open, which does what it is told a line at a time."""

    def __init__(self, folder: Path, index: str) -> None:
        command = [sys.executable, __file__, str(folder), index]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("start")

    def ask(self, order: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        self.end()

    def end(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        with self.process:
            self.process.stdin.close()
        self.process.stdout.close()


def obey() -> None:
    """The life of the other process."""
    folder, index = Path(sys.argv[1]), sys.argv[2]
    store = open_store(folder, index)
    for line in sys.stdin:
        verb, *rest = line.split()
        answer = "done"
        if verb == "put":
            put(store, rest[0], int(rest[1]), 3)
        elif verb == "drop":
            store.drop(rest)
        elif verb == "names":
            answer = " ".join(sorted(find_names(store)))
        elif verb == "index":
            answer = store.stats().index
        elif verb == "churn":
            sys.stdout.write("churning\n")
            sys.stdout.flush()
            churn(store, int(rest[0]))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    store.close()


def churn(store: Store, seed: int) -> None:
    """Changes and searches without end."""
    drawn = random.Random(seed)
    for version in range(1_000_000):
        name = f"d{drawn.randrange(6)}"
        if drawn.random() < 0.2:
            store.drop([name])
        else:
            put(store, name, version, drawn.randrange(1, 6))
        if drawn.random() < 0.3:
            store.search_vectors(rows(1, 1)[0], 5)
        if drawn.random() < 0.02:
            store.flush()


@pytest.fixture(params=INDEXES)
def index(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
def test_what_another_process_changes_is_seen_by_the_next_search(folder: Path, index: str) -> None:
    here = open_store(folder, index)
    put(here, "a", 1, 3)
    assert find_names(here) == {"a"}
    other = Other(folder, index)
    assert other.ask("names") == "a"
    for step in range(5):
        other.ask(f"put b{step} {step}")
        assert find_names(here) == {"a", f"b{step}"}
        put(here, "a", step + 2, step % 3 + 1)
        assert other.ask("names") == f"a b{step}"
        other.ask(f"drop b{step}")
        assert find_names(here) == {"a"}
    here.drop(["a"])
    assert other.ask("names") == ""
    other.end()
    here.close()


@pytest.mark.slow
def test_one_process_at_a_time_has_the_shard(folder: Path) -> None:
    here = open_store(folder, "shard")
    put(here, "a", 1, 3)
    assert find_names(here) == {"a"}
    assert here.stats().index == "qdrant-edge shard"
    other = Other(folder, "shard")
    assert other.ask("names") == "a"
    assert other.ask("index") == "exact, in memory"
    here.close()
    other.ask("put b 2")
    assert other.ask("names") == "a b"
    assert other.ask("index") == "qdrant-edge shard"
    again = open_store(folder, "shard")
    assert find_names(again) == {"a", "b"}
    assert again.stats().index == "exact, in memory"
    other.kill()
    assert find_names(again) == {"a", "b"}
    assert again.stats().index == "qdrant-edge shard"
    again.close()


def test_two_stores_in_one_process_do_not_share_the_shard(folder: Path) -> None:
    first, second = open_store(folder, "shard"), open_store(folder, "shard")
    put(first, "a", 1, 3)
    assert find_names(first) == find_names(second) == {"a"}
    assert {first.stats().index, second.stats().index} == {"qdrant-edge shard", "exact, in memory"}
    put(second, "b", 2, 2)
    assert find_names(first) == find_names(second) == {"a", "b"}
    first.close()
    assert find_names(second) == {"a", "b"}
    assert second.stats().index == "qdrant-edge shard"
    second.close()


def test_too_many_chunks_for_memory_are_refused_in_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_store(folder, "shard")
    put(first, "a", 1, 5)
    assert find_names(first) == {"a"}
    config = StoreConfig(exact_below=0)
    monkeypatch.setattr("clew.drivers.store.sqlite.index.EXACT_LIMIT", 4)
    second = open_sqlite(folder, embedder="m", dim=DIM, config=config)
    with pytest.raises(DriverFailed, match=r"another process.*at most 4.*PostgreSQL"):
        second.search_vectors(rows(1, 1)[0], 1)
    first.close()
    assert find_names(second) == {"a"}
    second.close()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_writer_leaves_a_whole_collection(folder: Path, index: str) -> None:
    drawn = random.Random(7)
    for round_ in range(3):
        other = Other(folder, index)
        assert other.ask(f"churn {round_}") == "churning"
        time.sleep(drawn.uniform(0.02, 0.4))
        other.kill()
        store = open_store(folder, index)
        find_names(store)
        held = 0
        for record in store.documents():
            chunks = store.chunks(record.id)
            assert len(chunks) == record.chunks > 0
            assert {chunk.text for chunk in chunks} == {store.document(record.id).text}
            held += len(chunks)
        assert store.stats().chunks == held
        assert len(store.search_vectors(rows(1, 1)[0], 1000)) == held
        put(store, "after", round_, 2)
        assert "after" in find_names(store)
        store.close()


@pytest.mark.slow
def test_many_writers_at_once_lose_nothing(folder: Path) -> None:
    others = [Other(folder, "exact") for _ in range(2)]
    for version in range(10):
        for n, other in enumerate(others):
            assert other.process.stdin
            other.process.stdin.write(f"put d{n}-{version} {version}\n")
            other.process.stdin.flush()
    for other in others:
        assert other.process.stdout
        for _ in range(10):
            assert other.process.stdout.readline() == "done\n"
        other.end()
    store = open_store(folder)
    assert find_names(store) == {f"d{n}-{version}" for n in range(2) for version in range(10)}
    store.close()


if __name__ == "__main__":
    obey()
