"""Files are read in another process within limits, and no file harms another."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Extensions, Settings
from clew.core.errors import SourceError
from clew.core.settings import IngestionConfig
from clew.index.add.pipeline import MAX_PREFETCH
from clew.index.read import READERS, read_file
from clew.index.read.process import pool, wire
from clew.index.read.process.limits import DEFAULT_LIMITS
from tests.hostile import make_endless_pdf, make_text_pdf
from tests.index.read.test_office import make_docx, make_paragraph, make_row, make_xlsx

SAMPLES = {
    "a.pdf": make_text_pdf("Keys rotate weekly.", pages=3),
    "b.docx": make_docx(make_paragraph("Keys rotate weekly.")),
    "c.xlsx": make_xlsx(make_row(1, "Name", "Age") + make_row(2, "Ada", "36")),
    "d.html": b"<title>T</title><meta name=author content=Ada><h1>Keys</h1><p>Rotate \xf0\x9f\x98\x80 weekly.</p>",
    "e.eml": b"From: a@b.c\nSubject: Keys\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\nRotate weekly.\n",
    "f.csv": b"name,age\nAda,36\n",
    "g.vtt": b"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nKeys rotate.\n",
    "h.rtf": rb"{\rtf1\ansi Keys rotate weekly.\par}",
    "i.xml": b"<keys><key>weekly</key></keys>",
}


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        yield engine


def limit_reading(**limits: float) -> Settings:
    return Settings(ingestion=IngestionConfig(**limits))  # type: ignore[arg-type]


def list_uris(engine: Engine) -> set[str]:
    return {Path(record.uri).name for record in engine.list()}


def test_a_document_read_in_another_process_is_the_one_read_here(tmp_path: Path) -> None:
    for name, data in SAMPLES.items():
        (tmp_path / name).write_bytes(data)
        here = READERS[Path(name).suffix](data, uri=name, name=name)
        there = read_file(tmp_path / name, uri=name)
        assert there == here
        assert repr(there) == repr(here)  # lists stay lists: the hash of a document is made of them


@pytest.mark.slow
def test_an_endless_file_is_reported_and_its_neighbours_are_stored(tmp_path: Path, make_engine: Engine) -> None:
    files = {"a.md": b"# A", "b.html": b"<p>Keys.", "m.pdf": make_endless_pdf(), "y.html": b"<p>Locks.", "z.md": b"# Z"}
    report = make_engine.add(write_files(tmp_path / "d", files), settings=limit_reading(max_read_seconds=1))
    (failure,) = report.failed
    assert failure.source.endswith("m.pdf")
    assert failure.reason == "took more than 1 seconds to read, for a file or a page (ingestion.max_read_seconds)"
    assert list_uris(make_engine) == {"a.md", "b.html", "y.html", "z.md"}


@pytest.mark.slow
def test_a_file_that_needs_too_much_memory_is_reported(tmp_path: Path, make_engine: Engine) -> None:
    table = "\n".join(",".join(f"cell {row} {column}" for column in range(20)) for row in range(40_000)).encode()
    folder = write_files(tmp_path / "d", {"a.html": b"<p>Keys.", "m.csv": table, "z.html": b"<p>Locks."})
    report = make_engine.add(folder, settings=limit_reading(max_read_memory=200_000_000))
    (failure,) = report.failed
    assert failure.source.endswith("m.csv")
    assert "memory" in failure.reason
    assert list_uris(make_engine) == {"a.html", "z.html"}


def test_a_file_with_too_many_pages_is_reported(tmp_path: Path, make_engine: Engine) -> None:
    folder = write_files(tmp_path / "d", {"a.pdf": make_text_pdf("Keys.", pages=12)})
    report = make_engine.add(folder, settings=limit_reading(max_pages=10))
    assert [each.reason for each in report.failed] == ["has 12 pages, and the limit is 10 (ingestion.max_pages)"]
    assert not make_engine.add(folder, settings=limit_reading(max_pages=12)).failed


def test_a_text_that_is_longer_than_a_file_may_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(make_docx(make_paragraph("Keys. " * 50_000)))
    with pytest.raises(SourceError, match=r"300,\d+ characters|299,\d+ characters"):
        read_file(tmp_path / "a.docx", uri="a", limits=replace(DEFAULT_LIMITS, text=100_000))


def test_one_process_reads_many_files(tmp_path: Path, make_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pool._pool.close()
    started: list[pool.ReaderProcess] = []
    start = pool.ReaderProcess.__init__

    def note_start(process: pool.ReaderProcess, *given: pool.ProcessPool) -> None:
        started.append(process)
        start(process, *given)

    monkeypatch.setattr(pool.ReaderProcess, "__init__", note_start)
    files = {f"{number}.html": b"<p>Keys %d." % number for number in range(50)}
    assert len(make_engine.add(write_files(tmp_path / "d", files)).added) == 50
    assert len(make_engine.add(write_files(tmp_path / "e", files)).added) == 50
    assert len(started) == 1


def test_a_process_that_is_killed_costs_its_file_alone(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(make_endless_pdf())
    (tmp_path / "b.html").write_bytes(b"<p>Keys.")
    read_file(tmp_path / "b.html", uri="b")
    (process,) = pool._pool._idle
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGSTOP)  # so that it cannot answer before it is killed
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {process._process.pid}"])
    with pytest.raises(SourceError, match=r"its reader crashed; it is broken, or needs more than 1,200 MB"):
        read_file(tmp_path / "a.pdf", uri="a")
    killer.wait()
    assert read_file(tmp_path / "b.html", uri="b").text == "Keys."


@pytest.mark.parametrize("fails", [1, 2])
def test_a_process_that_is_killed_while_it_starts_costs_one_file_at_most(
    tmp_path: Path, make_engine: Engine, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    pages = write_files(tmp_path / "pages", {f"{name}.html": b"<p>Keys of " + name.encode() for name in "abc"})
    pool._pool.close()
    popen, started = subprocess.Popen, list[int]()

    def start(*given: Any, **options: Any) -> "subprocess.Popen[bytes]":
        process = popen(*given, **options)
        started.append(process.pid)
        if len(started) <= fails:
            process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    report = make_engine.add(pages)
    assert len(report.added) == (3 if fails == 1 else 2)
    assert ["did not start" in each.reason for each in report.failed] == [True] * (fails - 1)


def test_a_reply_cannot_name_another_document_or_its_readers(
    tmp_path: Path, make_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is taken over by the file that it reads: it answers what it likes."""
    pages = write_files(tmp_path / "pages", {"a.html": b"<p>Keys.", "b.md": b"# Pay\n\nOn Friday."})
    make_engine.add(pages / "b.md")
    other = next(iter(make_engine.list()))
    decode = wire.decode_document
    forged = {"id": other.id, "uri": other.uri, "stamp": other.stamp, "hash": other.hash, "kind": "thread"}
    labels = {"access": ["nobody"], "meta": {"parent": other.id, "section_number": 1, "sections": 2}}
    monkeypatch.setattr(wire, "decode_document", lambda values: decode({**values, **forged, **labels}))
    make_engine.add(pages / "a.html")
    records = {Path(record.uri).name: record for record in make_engine.list()}
    assert records["b.md"] == other
    assert (records["a.html"].kind, records["a.html"].access) == ("page", None)
    assert "parent" not in records["a.html"].meta
    monkeypatch.setattr(wire, "decode_document", lambda _: decode({}))
    (pages / "a.html").write_bytes(b"<p>More keys.")
    assert "gave no document" in make_engine.add(pages / "a.html").failed[0].reason


def test_a_process_that_reads_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.0)
    (tmp_path / "b.html").write_bytes(b"<p>Keys.")
    read_file(tmp_path / "b.html", uri="b")
    while pool._pool._running:
        time.sleep(0.01)
    assert not pool._pool._idle
    assert read_file(tmp_path / "b.html", uri="b").text == "Keys."


def start_endless_add(folder: Path, kept: Path) -> "subprocess.Popen[str]":
    """`clew add` of a page, a file without end and a page, once the pages are stored."""
    write_files(folder, {"a.md": b"# A\n\nKeys.", "m.pdf": make_endless_pdf(), "z.md": b"# Z\n\nLocks."})
    command = [sys.executable, "-m", "clew", "--path", str(kept), "--embedder", "hashed", "add", str(folder)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while True:
        with Engine.open(kept, embedder="hashed") as engine:
            if list_uris(engine) == {"a.md", "z.md"}:
                return running
        assert running.poll() is None
        time.sleep(0.1)


def find_children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_the_process_ends_with_its_parent_and_what_was_read_before_is_stored(
    tmp_path: Path, sent: signal.Signals
) -> None:
    running = start_endless_add(tmp_path / "d", tmp_path / "kept")
    children = find_children(running.pid)
    assert children
    running.send_signal(sent)
    _, errors = running.communicate()
    assert running.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL)
    assert ("interrupted" in errors) == (sent == signal.SIGINT)
    while any(map(is_alive, children)):
        time.sleep(0.01)
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        assert list_uris(engine) == {"a.md", "z.md"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError])
def test_documents_that_wait_are_stored_before_an_error_is_raised(
    make_engine: Engine, error: type[BaseException]
) -> None:
    def make_documents() -> Iterator[Document]:
        yield Document("a", "Keys.")
        yield Document("b", "Locks.")
        raise error

    with pytest.raises(error):
        make_engine.add_documents(make_documents())
    assert {record.id for record in make_engine.list()} == {"a", "b"}


def test_documents_that_are_prepared_ahead_are_stored_before_an_interrupt_is_raised(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.note").write_text("Keys rotate weekly.")
    read: list[str] = []
    is_ahead = threading.Event()

    def read_note(data: bytes, uri: str) -> str:
        read.append(uri)
        if len(read) == MAX_PREFETCH + 3:  # one is stored, one is chunked, one is read
            is_ahead.set()
        return data.decode()

    interrupts = [KeyboardInterrupt()]

    def interrupt(_: object) -> None:
        assert is_ahead.wait(30)
        if interrupts:
            raise interrupts.pop()

    with Engine.open(
        tmp_path / "kept", embedder="hashed", extensions=Extensions(readers={".note": read_note})
    ) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.add(tmp_path, on_progress=interrupt)
        stored = sorted(Path(record.uri).name for record in engine.list())
    assert len(stored) > MAX_PREFETCH
    assert stored == [f"{number:02}.note" for number in range(len(stored))]


def test_a_reader_that_is_missing_is_named(tmp_path: Path) -> None:
    """The other process has the modules of this one: a package that it lacks is reported as here."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from clew.index.read import read_file\nfrom pathlib import Path\n"
        "try: read_file(Path(sys.argv[1]), uri='a')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    write_files(tmp_path / "shadow", {"selectolax.py": b"raise ImportError"})
    (tmp_path / "a.html").write_bytes(b"<p>Keys.")
    command = [sys.executable, "-c", code, str(tmp_path / "a.html"), str(tmp_path / "shadow")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("DriverMissing reading HTML needs selectolax")
