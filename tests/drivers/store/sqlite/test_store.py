"""The embedded store on disk: what it does when its files are missing, damaged, old, locked or somebody else's."""

import errno
import logging
import shutil
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from clew.core.errors import DriverFailed, StoreMismatch
from clew.core.filter import Filter
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Hit, Matrix
from clew.drivers.store.sqlite import backend, checkpoint, schema, shards, signals
from clew.drivers.store.sqlite.backend import open_store as open_sqlite
from clew.drivers.store.sqlite.checkpoint import read_checkpoint
from clew.drivers.store.sqlite.database import read_stored_embedder_name
from clew.drivers.store.sqlite.files import copy_file
from clew.drivers.store.sqlite.folder import HOME
from clew.drivers.store.sqlite.index import SqliteIndex
from clew.drivers.store.sqlite.shard import BrokenIndex, ShardIndex
from clew.drivers.store.store import Store
from tests.backends import get_backend

DIM = 16
WORDS = ("anchor", "bell", "cable", "deck", "engine", "flag", "galley", "hull", "ink", "jib")
SHARD = StoreConfig(exact_below=0)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing: a shard waits for the disk at every turn."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path / "one"
        return
    with TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place) / "one"


def open_store(folder: Path, config: StoreConfig = SHARD, *, dim: int = DIM) -> Store:
    return open_sqlite(folder, embedder="m", dim=dim, config=config)


def rows(seed: int, many: int, dim: int = DIM) -> Matrix:
    drawn = np.random.default_rng(seed).normal(size=(many, dim))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def put(store: Store, name: str, many: int = 3, *, dim: int = DIM, seed: int = 0) -> None:
    seed = seed or sum(name.encode())
    drawn = np.random.default_rng(seed)
    texts = [" ".join(drawn.choice(WORDS, 5)) for _ in range(many)]
    chunks = [Chunk(f"{name}-{n}", name, n, many, text, 0, len(text)) for n, text in enumerate(texts)]
    document = Document(name, "\n".join(texts), meta={"even": seed % 2 == 0})
    store.put(document, chunks, rows(seed, many, dim), [Counter(text.split()) for text in texts])


def run_searches(store: Store, *, dim: int = DIM) -> list[list[tuple[str, float]]]:
    """What a few searches find."""
    even = Filter(meta={"even": True})
    asked: list[list[Hit]] = []
    for seed in range(4):
        words = {WORDS[seed]: 1, WORDS[seed + 3]: 2}
        vector = rows(seed, 1, dim)[0]
        asked += [store.search_vectors(vector, 7), store.search_vectors(vector, 7, even), store.search_terms(words, 7)]
        asked += [store.search_terms(words, 7, even), store.search_vectors(vector, 7, mode="exact")]
    return [[(hit.chunk.id, hit.score) for hit in hits] for hits in asked]


def fill_store(folder: Path, config: StoreConfig = SHARD) -> list[list[tuple[str, float]]]:
    """The answers of a store with some documents, which is then closed."""
    store = open_store(folder, config)
    for n in range(12):
        put(store, f"d{n}")
    found = run_searches(store)
    store.close()
    return found


def find_shard(folder: Path) -> Path:
    (found,) = (folder / HOME).glob("shard-*")
    return found


def garble(folder: Path) -> None:
    for file in (folder / HOME).rglob("*"):
        if file.is_file() and file.name != checkpoint.FILE:
            file.write_bytes(b"garbage")


def empty(folder: Path) -> None:
    for file in (folder / HOME).rglob("*"):
        if file.is_file() and file.name != checkpoint.FILE:
            file.write_bytes(b"")


def other_format(folder: Path) -> None:
    file = find_shard(folder) / checkpoint.FILE
    file.write_text(file.read_text().replace('"format": 1', '"format": 0'))


def other_collection(folder: Path) -> None:
    file = find_shard(folder) / checkpoint.FILE
    stored = read_checkpoint(file.parent)
    assert stored
    file.write_text(file.read_text().replace(stored.collection_id, "elsewhere"))


def lost_counts(folder: Path) -> None:
    next(find_shard(folder).glob("counts-*")).unlink()


def unfinished(folder: Path) -> None:
    (find_shard(folder) / checkpoint.FILE).unlink()


def foreign_file(folder: Path) -> None:
    (folder / HOME / "stray").write_text("stray")


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: shutil.rmtree(folder / HOME),
        lambda folder: shutil.rmtree(find_shard(folder) / "shard" / "segments"),
        garble,
        empty,
        other_format,
        other_collection,
        lost_counts,
        unfinished,
        foreign_file,
    ],
)
def test_a_harmed_index_is_made_again(folder: Path, harm: Callable[[Path], None]) -> None:
    before = fill_store(folder)
    harm(folder)
    store = open_store(folder)
    assert run_searches(store) == before
    assert store.stats().index == "qdrant-edge shard"
    store.close()
    store = open_store(folder)
    assert run_searches(store) == before
    store.close()
    assert {path.name for path in (folder / HOME).iterdir()} - {"stray"} == {find_shard(folder).name}
    assert (folder / HOME / "stray").exists() == (harm is foreign_file)  # what is not ours stays


def test_an_old_copy_of_the_index_catches_up(folder: Path) -> None:
    fill_store(folder)
    old = find_shard(folder)
    shutil.copytree(old, folder / "kept")
    store = open_store(folder)
    store.drop(["d3", "d4"])
    put(store, "d5", 1)
    put(store, "new", 4)
    now = run_searches(store)
    store.close()
    shutil.rmtree(old)
    (folder / "kept").rename(old)
    store = open_store(folder)
    assert run_searches(store) == now
    store.close()


def test_an_index_that_is_too_far_behind_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MAX_TOMBSTONES", 2)
    before = fill_store(folder)
    exact = open_store(folder, StoreConfig())
    assert run_searches(exact) == before
    writer = open_store(folder, StoreConfig())
    writer.drop(["d1", "d2", "d3"])
    writer.drop(["d4"])
    writer.flush()
    now = run_searches(writer)
    writer.close()
    assert run_searches(exact) == now
    exact.close()
    store = open_store(folder)
    assert run_searches(store) == now
    store.close()


def test_an_index_in_memory_that_failed_to_follow_is_filled_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, memory, read = open_store(folder, StoreConfig()), open_sqlite(None, embedder="m", dim=DIM), list[str]()
    for each in (store, memory):
        for n in range(3):
            put(each, f"d{n}")
    assert run_searches(store) == run_searches(memory)
    parse = signals._parse_signals

    def fail_midway(*given: Any) -> signals.ChunkSignals:
        read.append("batch")
        if len(read) == 5:
            raise KeyboardInterrupt
        return parse(*given)

    put(store, "gone", 4)
    put(store, "new", 4)
    with monkeypatch.context() as patch:
        patch.setattr(signals, "BATCH", 2)
        patch.setattr(signals, "_parse_signals", fail_midway)
        with pytest.raises(KeyboardInterrupt):
            run_searches(store)
    store.drop(["gone"])
    put(memory, "new", 4)
    assert run_searches(store) == run_searches(memory)
    store.close()
    memory.close()


def test_a_shard_that_breaks_while_open_is_made_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = fill_store(folder)
    store = open_store(folder)
    assert run_searches(store) == before
    shard = get_backend(store).index._shard
    assert shard
    shard._shard.close()
    shard._forget_searches()
    assert run_searches(store) == before
    assert "is rebuilt" in caplog.text
    store.close()


def test_an_index_that_cannot_be_made_raises(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_store(folder)

    def broken(*_: object) -> None:
        raise BrokenIndex("no")

    monkeypatch.setattr(ShardIndex, "_find", broken)
    store = open_store(folder)
    with pytest.raises(DriverFailed, match="index failed twice"):
        store.search_vectors(rows(1, 1)[0], 3)
    with pytest.raises(DriverFailed, match="index failed twice"):
        store.search_terms({"anchor": 1}, 3)
    store.close()


def test_the_index_changes_its_shape_as_the_collection_grows_and_shrinks(folder: Path) -> None:
    store, memory = open_store(folder, StoreConfig(exact_below=20)), open_sqlite(None, embedder="m", dim=DIM)
    shapes = []
    for n in range(12):
        for each in (store, memory):
            put(each, f"d{n}")
        assert run_searches(store) == run_searches(memory)
        shapes.append(store.stats().index)
    for n in range(12):
        for each in (store, memory):
            each.drop([f"d{n}"])
        assert run_searches(store) == run_searches(memory)
        shapes.append(store.stats().index)
    assert [shape == "qdrant-edge shard" for shape in shapes] == [False] * 6 + [True] * 6 + [True] * 8 + [False] * 4
    store.close()
    memory.close()


@pytest.mark.slow
def test_a_graph_is_built_beside_and_finds_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dim, many = 256, 1500
    monkeypatch.setattr(shards, "MIN_ROWS", 1000)
    store = open_store(folder, dim=dim)
    for n in range(many // 50):
        put(store, f"d{n}", 50, dim=dim)
    exact = [store.search_vectors(vector, 10, mode="exact") for vector in rows(3, 40, dim)]
    words = store.search_terms({"anchor": 1, "bell": 1}, 50)
    store.flush()
    stored = read_checkpoint(find_shard(folder))
    assert stored
    assert stored.unindexed == 0
    assert [store.search_vectors(vector, 10, mode="exact") for vector in rows(3, 40, dim)] == exact
    assert store.search_terms({"anchor": 1, "bell": 1}, 50) == words
    near = [store.search_vectors(vector, 10) for vector in rows(3, 40, dim)]
    shared = [len({hit.chunk.id for hit in a} & {hit.chunk.id for hit in b}) for a, b in zip(near, exact, strict=True)]
    assert sum(shared) >= 0.95 * 400
    wide = [store.search_vectors(vector, 10, breadth=1500) for vector in rows(3, 40, dim)]
    assert wide == exact
    put(store, "last", 2, dim=dim)
    assert store.search_vectors(rows(sum(b"last"), 1, dim)[0], 1)[0].chunk.doc_id == "last"
    store.drop(["last"])
    store.close()
    store = open_store(folder, dim=dim)
    assert [store.search_vectors(vector, 10, mode="exact") for vector in rows(3, 40, dim)] == exact
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("copying", ["undisturbed", "changed", "refused"])
def test_a_graph_is_extended_by_what_was_added_and_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, copying: str
) -> None:
    """Searches find what they should in a copy that was extended, and where the shard changes or cannot be copied."""
    dim, copies = 256, list[str]()
    monkeypatch.setattr(shards, "MIN_ROWS", 300)
    monkeypatch.setattr(SqliteIndex, "keep_up", lambda *_: None)
    store, memory = open_store(folder, dim=dim), open_sqlite(None, embedder="m", dim=dim)

    def copy_and_disturb(source: str, target: str) -> str:
        copies.append(source)
        if copying == "refused":
            raise OSError(errno.ENOSPC, "no space left on device")
        if copying == "changed" and len(copies) == 9:
            for each in (store, memory):
                put(each, "late", 50, dim=dim)
            run_searches(store, dim=dim)
        return copy_file(source, target)

    monkeypatch.setattr("clew.drivers.store.sqlite.shard.copy_file", copy_and_disturb)
    for first, end in ((0, 24), (24, 32)):
        for each in (store, memory):
            for n in range(first, end):
                put(each, f"d{n}", 50, dim=dim)
        store.flush()
        assert bool(copies) == (first > 0)
        for each in (store, memory):
            each.drop(["d1"])  # after the graph was built first
    assert (len(copies) > len(set(copies))) == (copying != "undisturbed")  # then it is tried once more
    stored = read_checkpoint(find_shard(folder))
    assert stored
    assert stored.unindexed == 0
    asked = rows(3, 40, dim)
    exact = [memory.search_vectors(vector, 10) for vector in asked]
    assert [store.search_vectors(vector, 10, mode="exact") for vector in asked] == exact
    assert [store.search_vectors(vector, 10, breadth=2000) for vector in asked] == exact
    assert store.search_terms({"anchor": 1, "bell": 1}, 50) == memory.search_terms({"anchor": 1, "bell": 1}, 50)
    assert ("is built anew: [Errno 28] no space left" in caplog.text) == (copying == "refused")
    store.close()
    memory.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "interrupted"])
def test_a_graph_that_is_not_extended_stays_and_its_copy_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    dim = 256
    monkeypatch.setattr(shards, "MIN_ROWS", 300)
    monkeypatch.setattr(SqliteIndex, "keep_up", lambda *_: None)
    store = open_store(folder, dim=dim)
    for n in range(24):
        put(store, f"d{n}", 50, dim=dim)
    store.flush()
    for n in range(24, 32):
        put(store, f"d{n}", 50, dim=dim)
    before = run_searches(store, dim=dim)
    copies = list[Path]()

    def copy_and_stop(source: str, target: str) -> str:
        copies.append(Path(target))
        if end == "interrupted" and len(copies) == 9:
            raise KeyboardInterrupt
        return copy_file(source, target)

    monkeypatch.setattr("clew.drivers.store.sqlite.shard.copy_file", copy_and_stop)
    if end == "killed":
        monkeypatch.setattr(sys, "executable", shutil.which("false"))
        store.flush()
    else:
        with pytest.raises(KeyboardInterrupt):
            store.flush()
    assert len(copies) > 8
    assert [each.name for each in (folder / HOME).iterdir()] == [find_shard(folder).name]
    store.close()
    store = open_store(folder, dim=dim)
    assert run_searches(store, dim=dim) == before
    stored = read_checkpoint(find_shard(folder))
    assert stored
    assert stored.unindexed == 400  # of 1600: the graph of the others is there
    store.close()


def test_searches_go_on_without_a_graph(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = fill_store(folder)
    monkeypatch.setattr(shards, "MIN_ROWS", 1)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    store = open_store(folder)
    store.flush()
    assert "no graph was built" in caplog.text
    assert run_searches(store) == before
    store.close()


@pytest.mark.slow
def test_lengths_that_change_do_not_change_what_is_found(folder: Path) -> None:
    """The shard's stored weights are of the average length when it was made; here that grows by a factor of ten."""
    store, memory = open_store(folder), open_sqlite(None, embedder="m", dim=DIM)
    drawn = np.random.default_rng(5)
    for n in range(400):
        words = Counter(drawn.choice(WORDS, 3 if n < 200 else int(drawn.integers(3, 60))).tolist())
        for each in (store, memory):
            each.put(Document(f"d{n}", "x"), [Chunk(f"c{n}", f"d{n}", 0, 1, "x", 0, 1)], rows(n, 1), [words])
        if n % 100 == 99:
            assert run_searches(store) == run_searches(memory)
    store.close()
    memory.close()


# -- the truth


def test_unchanged_chunks_keep_their_rows(folder: Path) -> None:
    store = open_store(folder)
    put(store, "a", 4)
    with sqlite3.connect(folder / schema.FILE) as db:
        before = db.execute("SELECT row, id FROM signals").fetchall()
        put(store, "a", 4)
        assert db.execute("SELECT row, id FROM signals").fetchall() == before
        assert db.execute("SELECT count(*) FROM gone").fetchone() == (0,)
    db.close()
    store.close()


def test_a_damaged_database_is_said_to_be_damaged(folder: Path) -> None:
    fill_store(folder, StoreConfig())
    whole = (folder / schema.FILE).read_bytes()
    (folder / schema.FILE).write_bytes(b"garbage" * 5000)
    with pytest.raises(DriverFailed, match="damaged"):
        open_store(folder)
    with pytest.raises(DriverFailed, match="damaged"):
        read_stored_embedder_name(folder)
    (folder / schema.FILE).write_bytes(whole[:20_000] + b"\xff" * (len(whole) - 20_000))
    with pytest.raises(DriverFailed, match="damaged"):
        run_searches(open_store(folder, StoreConfig()))


def test_a_database_of_somebody_else_is_refused(folder: Path) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / schema.FILE) as db:
        db.execute("CREATE TABLE theirs(x)")
    db.close()
    with pytest.raises(StoreMismatch, match="not a collection of Clew"):
        open_store(folder)
    assert read_stored_embedder_name(folder) is None


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_database_of_an_older_clew_is_refused_with_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_writable: bool
) -> None:
    fill_store(folder, StoreConfig())
    with sqlite3.connect(folder / schema.FILE) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION - 1}")
    db.close()
    monkeypatch.setattr(schema, "is_writable", lambda _: is_writable)
    with pytest.raises(StoreMismatch, match=r"earlier Clew.*nothing was changed.*Engine.export.*Engine.restore"):
        open_store(folder)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DriverFailed, match="another folder"):
        open_store(tmp_path / "file")


def test_a_writer_that_never_ends_is_not_waited_for_forever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill_store(folder, StoreConfig())
    monkeypatch.setattr(schema, "WRITE_TIMEOUT", 0.05)
    store = open_store(folder, StoreConfig())
    other = sqlite3.connect(folder / schema.FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DriverFailed, match="another process"):
        put(store, "a")
    assert run_searches(store) == before
    other.execute("ROLLBACK")
    other.close()
    put(store, "a")
    store.close()


def test_half_a_character_pair_is_refused_and_nothing_is_stored(folder: Path) -> None:
    store = open_store(folder, StoreConfig())
    with pytest.raises(DriverFailed, match="character pair"):
        store.put(Document("a", "\ud800"), [Chunk("c", "a", 0, 1, "\ud800", 0, 1)], rows(1, 1), [{"\ud800": 1}])
    assert list(store.documents()) == []
    store.close()


def test_the_embedder_of_a_collection_can_be_asked_for(folder: Path) -> None:
    assert read_stored_embedder_name(folder) is None
    fill_store(folder, StoreConfig())
    assert read_stored_embedder_name(folder) == "m"


@pytest.mark.parametrize("config", [StoreConfig(), SHARD], ids=["exact", "shard"])
def test_threads_search_while_others_write(folder: Path, config: StoreConfig) -> None:
    store, failed = open_store(folder, config), list[BaseException]()
    put(store, "always", 5)
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                hits = store.search_vectors(rows(1, 1)[0], 50)
                assert len({hit.chunk.id for hit in hits}) == len(hits)
                assert {hit.chunk.id for hit in hits} >= {f"always-{n}" for n in range(5)}
                assert store.search_terms({"anchor": 1, "bell": 1, "deck": 1, "hull": 1}, 5)
        except BaseException as error:  # a thread has nobody else to tell
            failed.append(error)

    def change() -> None:
        try:
            for n in range(40):
                put(store, f"d{n % 7}", n % 4 + 1)
                store.drop([f"d{(n + 3) % 7}"])
        except BaseException as error:
            failed.append(error)

    writer, searchers = threading.Thread(target=change), [threading.Thread(target=search) for _ in range(3)]
    for thread in (writer, *searchers):
        thread.start()
    writer.join()
    store.flush()
    done.set()
    for thread in searchers:
        thread.join()
    store.close()
    assert failed == []


@pytest.fixture(autouse=True)
def _listen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_a_collection_that_can_only_be_read_is_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(folder)) as store:
        put(store, "log")
        wanted = run_searches(store)
    monkeypatch.setattr(schema, "is_writable", lambda _: False)
    assert read_stored_embedder_name(folder) == "m"
    with closing(open_store(folder)) as store:
        assert run_searches(store) == wanted
        with pytest.raises(DriverFailed, match="cannot be opened for writing"):
            put(store, "more")


@pytest.mark.parametrize("config", [SHARD, StoreConfig()], ids=["shard", "exact"])
def test_a_document_that_is_replaced_while_the_index_follows_is_found(
    folder: Path, config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old rows are gone before the index reads them, and the new ones are of a later state."""
    with closing(open_store(folder, config)) as store, closing(open_store(folder, StoreConfig())) as other:
        put(store, "kept")
        assert store.search_vectors(rows(1, 1)[0], 9)
        put(store, "page")
        read, waiting = signals.read_rows_in_batches, ["page"]

        def replace_first(*given: Any) -> Any:
            if waiting:
                put(other, waiting.pop(), seed=5)
            return read(*given)

        monkeypatch.setattr(signals, "read_rows_in_batches", replace_first)
        found = store.search_vectors(rows(1, 1)[0], 9)
    assert {hit.document.id for hit in found} == {"kept", "page"}
