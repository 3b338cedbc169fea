"""A collection that is searched while it grows beyond what is searched in memory."""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.core.errors import DriverFailed
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Hit, Matrix
from clew.drivers.store.sqlite import index, schema, shards
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.sqlite.checkpoint import Checkpoint, read_checkpoint
from clew.drivers.store.sqlite.database import CollectionState
from clew.drivers.store.sqlite.exact import ExactIndex
from clew.drivers.store.sqlite.folder import HOME, list_own_shards
from clew.drivers.store.sqlite.shard import ShardIndex
from clew.drivers.store.store import Store
from tests.backends import get_backend

DIM, EACH = 32, 50
CONFIG = StoreConfig(exact_below=400)
ASKED: Matrix = np.random.default_rng(7).standard_normal((10, DIM), np.float32)
ASKED /= np.linalg.norm(ASKED, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MIN_ROWS", 300)


def open_store(folder: Path | None) -> Store:
    if folder:
        folder.mkdir(exist_ok=True)
    return open_sqlite(folder, embedder="m", dim=DIM, config=CONFIG)


def put(store: Store, first: int, end: int) -> None:
    for n in range(first, end):
        vectors = np.random.default_rng(n).standard_normal((EACH, DIM), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        chunks = [Chunk(f"d{n}-{at:02}", f"d{n}", at, EACH, "x", 0, 1) for at in range(EACH)]
        store.put(Document(f"d{n}", "x"), chunks, vectors, [{f"w{n}": 1, "all": 1}] * EACH)


def search_exactly(store: Store) -> list[list[Hit]]:
    return [store.search_vectors(vector, 5, mode="exact") for vector in ASKED]


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_searches_do_not_wait_for_the_shard_and_use_it_when_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index in memory serves until a process beside has built the shard; nothing is filled by a search."""
    filled = list[int]()
    catch_up = ShardIndex.catch_up

    def note(index: ShardIndex, state: CollectionState) -> None:
        filled.append(state.last - index.checkpoint.row)
        catch_up(index, state)

    monkeypatch.setattr(ShardIndex, "catch_up", note)
    store, memory = open_store(tmp_path / "c"), open_store(None)
    for each in (store, memory):
        put(each, 0, 4)
    assert search_exactly(store) == search_exactly(memory)
    for each in (store, memory):
        put(each, 4, 12)
    assert search_exactly(store) == search_exactly(memory)
    wait_until(lambda: store.stats().index == ShardIndex.name)  # no flush was asked for
    for each in (store, memory):
        put(each, 12, 14)
    assert search_exactly(store) == search_exactly(memory)
    store.flush()
    assert search_exactly(store) == search_exactly(memory)
    (shard,) = list_own_shards(tmp_path / "c" / HOME)
    stored = read_checkpoint(shard)
    assert stored
    assert stored.row == 14 * (EACH + 1)
    assert max(filled) <= 10 * (EACH + 1)  # what was added while it was built, never the whole
    store.close()
    memory.close()


def test_a_collection_that_is_not_searched_builds_its_index_once_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = list[Path]()
    build_shard = shards.Builder.build

    def note(self: shards.Builder, collection: Path, target: Path, *rest: object) -> bool:
        built.append(target)
        return build_shard(self, collection, target, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(shards.Builder, "build", note)
    store = open_store(tmp_path / "c")
    put(store, 0, 20)
    assert built == []
    store.flush()
    assert len(built) == 1
    store.close()
    assert (tmp_path / "c" / HOME).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("removed", ["d1", "d12"], ids=["from the graph", "from the rest"])
def test_a_shard_that_points_were_removed_from_is_opened_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    monkeypatch.setattr("tests.drivers.store.sqlite.test_growth.DIM", 512)  # so large that they get a graph
    monkeypatch.setattr("tests.drivers.store.sqlite.test_growth.ASKED", np.eye(10, 512, dtype=np.float32))
    with closing(open_store(tmp_path / "c")) as store:
        put(store, 0, 12)
        search_exactly(store)
        store.flush()
        (built,) = list_own_shards(tmp_path / "c" / HOME)
        assert list(built.rglob("links*.bin"))
        put(store, 12, 14)
        search_exactly(store)
        store.drop([removed])
        right = search_exactly(store)
    for _ in range(3):
        with closing(open_store(tmp_path / "c")) as store:
            assert search_exactly(store) == right
        assert list_own_shards(tmp_path / "c" / HOME) == [built]


def test_a_disk_that_is_nearly_full_is_told_and_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, free = shutil.disk_usage, [1 << 40]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=free[0]))
    with closing(open_store(tmp_path / "c")) as store, closing(open_store(None)) as memory:
        put(store, 0, 12)
        put(memory, 0, 12)
        free[0] = 63 << 20
        told = "the disk has 63 MB free, and to write the index 64 MB are needed; make room"
        with pytest.raises(DriverFailed, match=told):
            search_exactly(store)
        free[0] = 1 << 40
        assert search_exactly(store) == search_exactly(memory)
        put(store, 12, 13)
        put(memory, 12, 13)
        free[0] = 63 << 20
        with pytest.raises(DriverFailed, match=told):
            search_exactly(store)
        free[0] = 1 << 40
        assert search_exactly(store) == search_exactly(memory)
        assert store.stats().index.startswith(ShardIndex.name)


def test_an_erasure_that_ends_while_a_shard_is_filled_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_empty_checkpoint, erased = shards.make_empty_checkpoint, list[str]()

    def erase_meanwhile(state: CollectionState, dim: int) -> Checkpoint:
        if not erased:
            erased.append("d1")
            other.drop(erased)
            with get_backend(other)._database.write_transaction() as (db, now):
                schema.write_meta(db, change=now.change + 1, pruned=now.change + 1)
        return make_empty_checkpoint(state, dim)

    monkeypatch.setattr(shards, "make_empty_checkpoint", erase_meanwhile)
    with closing(open_store(tmp_path / "c")) as store, closing(open_store(tmp_path / "c")) as other:
        put(store, 0, 12)
        found = store.search_terms({"all": 1}, 1000)
    assert erased
    assert {hit.chunk.doc_id for hit in found} == {f"d{n}" for n in range(12) if n != 1}


def test_another_process_tells_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    build_shard = shards.Builder.build

    def wait(self: shards.Builder, collection: Path, target: Path, *rest: object) -> bool:
        target.mkdir()
        assert go_on.wait(60)
        target.rmdir()
        return build_shard(self, collection, target, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(shards.Builder, "build", wait)
    with closing(open_store(tmp_path / "c")) as store, closing(open_store(tmp_path / "c")) as other:
        put(store, 0, 4)
        search_exactly(store)
        put(store, 4, 12)
        store.search_terms({"all": 1}, 1)
        wait_until(lambda: bool(list_own_shards(tmp_path / "c" / HOME)))
        assert store.stats().index == f"{ExactIndex.name}; a new one is being built"
        assert other.stats().index == f"{ShardIndex.name}; a new one is being built"
        search_exactly(other)
        assert other.stats().index == f"{ExactIndex.name}; a new one is being built"
        go_on.set()
        wait_until(lambda: store.stats().index == ShardIndex.name)
        assert other.stats().index == ExactIndex.name
    with closing(open_store(None)) as memory:
        put(memory, 0, 12)
        assert memory.stats().index == ExactIndex.name


def test_closing_ends_a_build_and_leaves_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    store = open_store(tmp_path / "c")
    put(store, 0, 4)
    search_exactly(store)
    put(store, 4, 12)
    wait_until(lambda: get_backend(store).index._builder._process is not None)
    process = get_backend(store).index._builder._process
    assert store.stats().index == f"{ExactIndex.name}; a new one is being built"
    store.close()
    assert process
    assert process.returncode == -signal.SIGKILL  # it did not end by itself
    assert not list_own_shards(tmp_path / "c" / HOME)
    monkeypatch.undo()
    store, memory = open_store(tmp_path / "c"), open_store(None)
    put(memory, 0, 12)
    assert search_exactly(store) == search_exactly(memory)
    store.close()
    memory.close()


def test_a_build_that_fails_is_told_once_and_searches_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    store, memory = open_store(tmp_path / "c"), open_store(None)
    for each in (store, memory):
        put(each, 0, 4)
    search_exactly(store)
    for first in range(4, 14):
        for each in (store, memory):
            put(each, first, first + 1)
        assert search_exactly(store) == search_exactly(memory)
        if thread := get_backend(store).index._thread:
            thread.join()
    assert caplog.text.count("no graph was built") == 1
    assert store.stats().index == ExactIndex.name
    monkeypatch.undo()
    store.flush()
    assert store.stats().index == ShardIndex.name
    assert search_exactly(store) == search_exactly(memory)
    store.close()
    memory.close()


def test_one_that_only_searches_leaves_the_lock_to_the_one_that_writes(tmp_path: Path) -> None:
    """Else neither would ever build the shard: the one has it locked, the other is never told to."""
    writer = open_store(tmp_path / "c")
    put(writer, 0, 4)
    reader, memory = open_store(tmp_path / "c"), open_store(None)
    search_exactly(reader)
    put(writer, 4, 12)
    put(memory, 0, 12)
    assert search_exactly(reader) == search_exactly(memory)
    writer.flush()
    assert writer.stats().index == ShardIndex.name
    assert search_exactly(reader) == search_exactly(memory)
    writer.close()
    assert search_exactly(reader) == search_exactly(memory)
    assert reader.stats().index == ShardIndex.name
    reader.close()
    memory.close()


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Builds wait: the first event says that one has begun, and it goes on when the second is set."""
    begun, goes_on = threading.Event(), threading.Event()
    build_shard = shards.Builder.build

    def wait_and_build(self: shards.Builder, *given: Any) -> bool:
        begun.set()
        assert goes_on.wait(60)
        return build_shard(self, *given)

    monkeypatch.setattr(shards.Builder, "build", wait_and_build)
    yield begun, goes_on
    goes_on.set()


def test_a_collection_that_shrinks_while_its_index_is_built_keeps_the_lock(
    tmp_path: Path, building: tuple[threading.Event, threading.Event]
) -> None:
    """Else another process opens the shard that this one is about to open, and each destroys what the other writes."""
    begun, goes_on = building
    store, memory = open_store(tmp_path / "c"), open_store(None)
    put(store, 0, 4)
    search_exactly(store)
    put(store, 4, 10)
    assert begun.wait(60)
    store.drop([f"d{n}" for n in range(4)])
    search_exactly(store)
    other = open_store(tmp_path / "c")
    put(other, 20, 23)
    search_exactly(other)
    assert other.stats().index == ExactIndex.name
    goes_on.set()
    thread = get_backend(store).index._thread
    assert thread
    thread.join()
    put(memory, 4, 10)
    put(memory, 20, 23)
    assert search_exactly(store) == search_exactly(other) == search_exactly(memory)
    store.flush()
    assert store.stats().index == ShardIndex.name
    assert search_exactly(store) == search_exactly(memory)
    for each in (store, other, memory):
        each.close()


def test_one_whose_build_failed_leaves_the_lock_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    store = open_store(tmp_path / "c")
    put(store, 0, 4)
    search_exactly(store)
    put(store, 4, 12)
    thread = get_backend(store).index._thread
    assert thread
    thread.join()
    monkeypatch.undo()
    monkeypatch.setattr(shards, "MIN_ROWS", 300)
    other = open_store(tmp_path / "c")
    other.flush()
    assert other.stats().index == ShardIndex.name
    assert search_exactly(store) == search_exactly(other)
    store.close()
    other.close()


def test_many_puts_at_once_start_one_build(
    tmp_path: Path, building: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, goes_on = building
    store = open_store(tmp_path / "c")
    put(store, 0, 9)
    monkeypatch.setattr(get_backend(store).index, "_exact", ExactIndex(get_backend(store)._database))
    writers = [threading.Thread(target=put, args=(store, n, n + 1)) for n in range(9, 17)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert sum(each.name == "clew index" for each in threading.enumerate()) == 1
    goes_on.set()
    store.close()
    assert not any(each.name == "clew index" for each in threading.enumerate())


def test_a_file_in_place_of_the_index_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, memory = open_store(tmp_path / "c"), open_store(None)
    (tmp_path / "c" / HOME).write_text("mine")
    for each in (store, memory):
        put(each, 0, 4)
    search_exactly(store)
    for first in range(4, 12):
        for each in (store, memory):
            put(each, first, first + 1)
        if thread := get_backend(store).index._thread:
            thread.join()
    assert search_exactly(store) == search_exactly(memory)
    assert caplog.text.count("the index cannot be built") == 1
    with pytest.raises(DriverFailed, match="the index cannot be built"):
        store.flush()
    assert (tmp_path / "c" / HOME).read_text() == "mine"
    store.close()
    memory.close()


def test_one_that_searches_builds_what_another_left_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes does not get the index that another holds; it is built by that one, though it writes nothing."""
    monkeypatch.setattr(index, "LOOK_AFTER", 0.0)
    monkeypatch.setattr(index, "REST", 0.0)
    writer = open_store(tmp_path / "c")
    put(writer, 0, 10)
    writer.close()
    with closing(open_store(tmp_path / "c")) as reader, closing(open_store(tmp_path / "c")) as writer:
        reader.search_vectors(ASKED[0], 5)  # it has the index now
        put(writer, 10, 30)
        writer.flush()

        def is_indexed() -> bool:
            reader.search_vectors(ASKED[0], 5)
            found = [read_checkpoint(each) for each in list_own_shards(tmp_path / "c" / HOME)]
            return any(each and (each.row, each.unindexed) == (30 * (EACH + 1), 0) for each in found)

        wait_until(is_indexed)
        assert search_exactly(reader) == search_exactly(writer)


def test_who_adds_a_little_while_searching_does_not_wait_for_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_build, build_shard = threading.Event(), shards.Builder.build

    def wait_and_build(*given: Any) -> bool:
        assert may_build.wait(60)
        return build_shard(*given)

    monkeypatch.setattr(shards.Builder, "build", wait_and_build)
    with closing(open_store(tmp_path / "c")) as store:
        put(store, 0, 7)
        store.search_vectors(ASKED[0], 5)  # it is searched from now on
        put(store, 7, 20)
        may_build.set()
        store.flush()  # most of it is new
        put(store, 20, 27)
        store.flush()
        may_build.clear()
        is_left = False
        for number in range(27, 40):
            put(store, number, number + 1)
            store.flush()  # a graph becomes due, and is waited for nowhere
            is_left = is_left or store.stats().index.endswith("a new one is being built")
        assert is_left
        may_build.set()
        wait_until(lambda: not store.stats().index.endswith("a new one is being built"))
        with closing(open_store(None)) as plain:
            put(plain, 0, 40)
            assert search_exactly(store) == search_exactly(plain)
        checkpoints = map(read_checkpoint, list_own_shards(tmp_path / "c" / HOME))
        assert any(each and each.unindexed <= 13 * EACH and each.row > 27 * (EACH + 1) for each in checkpoints)
