"""Folders that others share: who may only read, files that are not ours, permissions, locks, exports."""

import errno
import fcntl
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clew import DriverFailed, Engine, Settings
from clew.core.types import Document
from tests.soak import choose_runs

NOBODY = 65534
SHARD = Settings(store=replace(Settings().store, exact_below=0))


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def put_version(engine: Engine, version: int) -> None:
    """One document says the version; another comes and goes."""
    engine.add_documents([Document("now", f"The vault is at version v{version}x now. " * 30, ())])
    if version % 2:
        engine.add_documents([Document("odd", f"An odd page of version {version}. " * 30, ())])
    elif version > 1:
        engine.drop("odd")


def write_versions(path: Path, acknowledged: Any, ended: Any) -> None:
    """Writes version after version, opening the collection anew now and then."""
    version = 1
    while not ended.value:
        with Engine.open(path, embedder="hashed:32") as engine:
            for _ in range(7):
                version += 1
                put_version(engine, version)
                acknowledged.value = version


def read_versions(path: Path, acknowledged: Any, openings: int, results: Any) -> None:
    """Opens the collection again and again without the right to write, and counts what is stale, wrong or an error."""
    with Engine.open(path, embedder="hashed:32") as engine:  # what is imported late must be, before the switch
        engine.search("vault version")
        engine.read("now")
        list(engine.list())
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    while acknowledged.value < 2:  # the writer is at work
        time.sleep(0.01)
    found: dict[str, Any] = {"openings": 0, "stale": 0, "wrong": 0, "errors": []}
    for _ in range(openings):
        least = acknowledged.value
        try:
            with Engine.open(path, embedder="hashed:32", create=False) as engine:
                assert not os.access(path / "default", os.W_OK)
                hits = engine.search("vault version", k=3)
                text = engine.read("now").text
                listed = {record.id for record in engine.list()}
        except Exception as error:
            found["errors"].append(f"{type(error).__name__}: {error}")
            continue
        found["openings"] += 1
        version = int(text.partition("version v")[2].partition("x")[0])
        found["stale"] += version < least
        seen = {hit.document.id: hit.chunk.text for hit in reversed(hits)}
        shown = seen.get("now", "").partition("version v")[2].partition("x")[0]
        is_right = shown.isdigit() and int(shown) >= least and seen.keys() | listed <= {"now", "odd"}
        found["wrong"] += not is_right
    results.put(found)


def read_beside_a_writer(path: Path, state: Any, results: Any) -> None:
    """Open a collection without the right to write while nobody has its log open; read when a writer opens it."""
    with Engine.open(path, embedder="hashed:32") as engine:  # what is imported late must be, before the switch
        engine.read("now")
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with Engine.open(path, embedder="hashed:32", create=False) as engine:
        state.value = 1
        while state.value < 2:
            time.sleep(0.01)
        try:
            results.put(engine.read("now").text)
        except Exception as error:
            results.put(f"{type(error).__name__}: {error}")


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs another user, and the locks of Linux")
def test_who_may_only_read_waits_for_a_writer_that_opens_the_log(shared: Path) -> None:
    with Engine.open(shared / "team", embedder="hashed:32") as engine:
        put_version(engine, 1)
    for place in (shared / "team", shared / "team" / "default"):
        place.chmod(0o755)
    for file in (shared / "team" / "default").iterdir():
        file.chmod(0o644)
    context = multiprocessing.get_context("spawn")
    state, results = context.Value("i", 0), context.Queue()
    reader = context.Process(target=read_beside_a_writer, args=(shared / "team", state, results), daemon=True)
    reader.start()
    while not state.value:
        time.sleep(0.01)
    with (shared / "team" / "default" / "clew.db-shm").open("r+b") as index:  # as far as a writer has it for a moment
        fcntl.lockf(index, fcntl.LOCK_SH, 1, 128)
        index.truncate(0)
        state.value = 2
        time.sleep(0.5)
    with Engine.open(shared / "team", embedder="hashed:32"):
        assert "v1x" in results.get(timeout=60)
    reader.join()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs another user to read as")
@pytest.mark.slow
def test_who_may_only_read_sees_the_live_state(shared: Path) -> None:
    path = shared / "team"
    with Engine.open(path, embedder="hashed:32") as engine:
        put_version(engine, 1)
    for place in (path, path / "default"):
        place.chmod(0o755)
    for file in (path / "default").iterdir():
        file.chmod(0o644)
    context = multiprocessing.get_context("spawn")
    acknowledged, ended, results = context.Value("i", 1), context.Value("i", 0), context.Queue()
    writer = context.Process(target=write_versions, args=(path, acknowledged, ended), daemon=True)
    reader = context.Process(target=read_versions, args=(path, acknowledged, choose_runs(12, 300), results))
    writer.start()
    reader.start()
    found = results.get(timeout=1500)
    ended.value = 1
    writer.join()
    reader.join()
    sys.stdout.write(f"\nread-only openings while {acknowledged.value} versions were written: {found}\n")
    assert found == {"openings": choose_runs(12, 300), "stale": 0, "wrong": 0, "errors": []}
    assert acknowledged.value > 1


def test_a_reader_of_a_folder_without_a_log_follows_a_writer_that_comes_later(shared: Path) -> None:
    from clew.drivers.store.sqlite import schema

    path = shared / "team"
    with Engine.open(path, embedder="hashed:32") as engine:
        put_version(engine, 1)
    for log in (path / "default").glob("clew.db-*"):
        log.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "is_writable", lambda _: False)
        reader = Engine.open(path, embedder="hashed:32")
        assert "v1x" in reader.read("now").text
    with Engine.open(path, embedder="hashed:32") as writer:
        put_version(writer, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schema, "is_writable", lambda _: False)
            assert "v2x" in reader.read("now").text
            assert "v2x" in reader.search("vault version")[0].chunk.text
            reader.close()


@pytest.mark.slow
def test_nothing_that_is_not_ours_is_deleted_in_the_index(shared: Path) -> None:
    home = shared / "team" / "default" / "index"
    home.mkdir(parents=True)
    (home / "page.html").write_text("mine")
    (home / "shard-notes").mkdir()
    (home / "shard-notes" / "note").write_text("mine")
    (home / "shard-0123456789ab").mkdir()
    (home / "shard-0123456789ab" / "note").write_text("mine")
    with Engine.open(shared / "team", embedder="hashed:32", settings=SHARD) as engine:
        put_version(engine, 1)
        assert engine.search("vault")
        engine.erase(["now"])
        assert engine.doctor(repair=True).is_sound
    Engine.drop_collection(shared / "team", "default")
    kept = {each.relative_to(home).as_posix() for each in home.rglob("*") if each.is_file()}
    assert kept == {"page.html", "shard-notes/note", "shard-0123456789ab/note"}


def test_a_damaged_file_of_the_index_is_built_again(shared: Path) -> None:
    with Engine.open(shared, embedder="hashed:32", settings=SHARD) as engine:
        put_version(engine, 1)
        wanted = [(hit.chunk.id, hit.score) for hit in engine.search("vault version")]
    (counts,) = (shared / "default" / "index").rglob("counts-*.npy")
    counts.write_bytes(counts.read_bytes().replace(b"}", b"(", 1))
    for seal in (shared / "default" / "index").rglob("seal.json"):
        seal.unlink()
    with Engine.open(shared, embedder="hashed:32", settings=SHARD) as engine:
        assert [(hit.chunk.id, hit.score) for hit in engine.search("vault version")] == wanted
    (vectors,) = (shared / "default" / "index").rglob("chunk_0.mmap")
    with vectors.open("r+b") as file:
        file.write(b"\x55" * 64)
    with Engine.open(shared, embedder="hashed:32", settings=SHARD) as engine:
        assert [each.area for each in engine.doctor().defects] == ["index"]
        assert [(hit.chunk.id, hit.score) for hit in engine.search("vault version")] == wanted


def test_files_are_their_owners_alone(shared: Path) -> None:
    old = os.umask(0)
    try:
        with Engine.open(shared / "deep" / "team", embedder="hashed:32", settings=SHARD) as engine:
            put_version(engine, 1)
            engine.search("vault")
            engine.export(shared / "all.zip")
            folders = [shared / "deep", shared / "deep" / "team", shared / "deep" / "team" / "default"]
            assert {stat.S_IMODE(each.stat().st_mode) for each in [*folders, folders[-1] / "index"]} == {0o700}
            files = [each for each in folders[-1].iterdir() if each.is_file()]
            assert {stat.S_IMODE(each.stat().st_mode) for each in [*files, shared / "all.zip"]} == {0o600}
    finally:
        os.umask(old)


def test_an_export_follows_no_link_and_replaces_what_is_there(shared: Path) -> None:
    (shared / "precious").write_text("mine")
    (shared / "all.zip").symlink_to(shared / "precious")
    (shared / "all.zip.part").symlink_to(shared / "precious")
    with Engine.open(shared / "team", embedder="hashed:32") as engine:
        put_version(engine, 1)
        engine.export(shared / "all.zip")
        engine.export(shared / "all.zip")
    assert (shared / "precious").read_text() == "mine"
    assert not (shared / "all.zip").is_symlink()
    assert {each.name for each in shared.iterdir()} == {"precious", "all.zip", "all.zip.part", "team"}


@pytest.mark.slow
def test_a_killed_export_leaves_nothing_behind(shared: Path) -> None:
    with Engine.open(shared / "team", embedder="hashed:32") as engine:
        put_version(engine, 1)
    code = (
        "import sys, time; from clew import Engine\n"
        "with Engine.open(sys.argv[1], embedder='hashed:32') as engine:\n"
        "    engine.export(sys.argv[2], on_progress=lambda _: (print('begun', flush=True), time.sleep(60)))\n"
    )
    command = [sys.executable, "-c", code, str(shared / "team"), str(shared / "all.zip")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        child.send_signal(signal.SIGKILL)
    assert [each.name for each in shared.iterdir()] == ["team"]


def test_a_file_system_that_does_not_lock_is_named_for_what_it_is(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:  # as the client of a network file system does
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    tight = Settings(store=replace(Settings().store, exact_below=0))
    monkeypatch.setattr("clew.drivers.store.sqlite.index.EXACT_LIMIT", 1)
    with Engine.open(shared, embedder="hashed:32", settings=tight) as engine:
        monkeypatch.setattr(fcntl, "flock", refuse)
        put_version(engine, 1)
        with pytest.raises(DriverFailed, match=r"file system does not lock files.*local disk, or in PostgreSQL"):
            engine.search("vault")
