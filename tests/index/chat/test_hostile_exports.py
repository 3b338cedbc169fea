"""Hostile chat exports: none hangs `add`, fills the memory, or keeps another file from being stored."""

import json
import resource
from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.settings import IngestionConfig
from tests.hostile import make_archive
from tests.hostile_chats import make_hostile_exports
from tests.index.read.test_hostile import MAX_MEMORY, SOAK, Waits, forget_peak_memory, read_peak_memory


@pytest.mark.soak
@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.slow
def test_hostile_exports_harm_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    files = make_hostile_exports(size=300_000 if SOAK else 300)
    for name, data in files.items():
        (folder / f"{name}-a.md").write_text("# Page\n\nKeys rotate weekly.")
        (folder / name).write_bytes(data)
    forget_peak_memory()
    waits = Waits()
    settings = Settings(ingestion=IngestionConfig(max_read_seconds=25 if SOAK else 5))
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        report = engine.add(folder, settings=settings, on_progress=waits.note)
        stored = {Path(record.uri).name for record in engine.list()}
    assert {f"{name}-a.md" for name in files} <= stored
    assert all(failure.reason for failure in report.failed)
    peaks = [read_peak_memory(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    late = [failure.source for failure in report.failed if "took more than" in failure.reason]
    print(  # noqa: T201
        f"\n{len(files)} exports: {len(report.failed)} reported ({len(late)} for time: {', '.join(late)}); "
        f"every one of {len(files)} neighbours stored; longest wait {waits.longest:.1f} s; "
        f"peak memory {peaks[0] / 1e6:,.0f} MB, of the readers {peaks[1] / 1e6:,.0f} MB"
    )
    assert max(peaks) < MAX_MEMORY
    if SOAK:
        assert waits.longest < 30


def write_slow_export(folder: Path, *, cells: int) -> None:
    """Writes a mailbox whose only mail is a table that is slow to read, and a page after it."""
    mail = b"From a@b.c Mon Jan  1 10:00:00 2024\nFrom: a@b.c\nContent-Type: text/html\n\n<table><tr>"
    folder.mkdir()
    (folder / "slow.mbox").write_bytes(mail + b"<td rowspan=1000 colspan=1000>a" * cells)
    (folder / "z.md").write_text("# Page\n\nKeys rotate weekly.")


@pytest.mark.slow
def test_an_export_over_the_time_limit_is_reported_and_the_rest_is_added(tmp_path: Path) -> None:
    write_slow_export(tmp_path / "files", cells=20_000)
    settings = Settings(ingestion=IngestionConfig(max_read_seconds=1))
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(tmp_path / "files", settings=settings)
    (failure,) = report.failed
    assert Path(failure.source).name == "slow.mbox"
    assert failure.reason.startswith("took more than 1 seconds to read")
    assert [Path(uri).name for uri in report.added] == ["z.md"]


@pytest.mark.slow
def test_an_export_over_the_memory_limit_is_reported_and_the_rest_is_added(tmp_path: Path) -> None:
    row = b'{"id": 1, "type": "message", "text": ' + b"[" + b"[]," * 3_000_000 + b"[]]}"
    chat = b'{"name": "yard", "type": "private_group", "id": 1, "messages": [' + row + b"]}"
    (tmp_path / "chat.json").write_bytes(chat)
    (tmp_path / "z.md").write_text("# Page\n\nKeys rotate weekly.")
    settings = Settings(ingestion=IngestionConfig(max_read_memory=150_000_000))
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(tmp_path, settings=settings)
        assert [Path(each.source).name for each in report.failed] == ["chat.json"]
        assert "memory" in report.failed[0].reason
        assert [Path(uri).name for uri in report.added] == ["z.md"]


@pytest.mark.slow
def test_channels_before_the_limit_are_stored_and_the_process_serves_the_next_export(tmp_path: Path) -> None:
    lines = [{"text": f"Crane {n} lifts.", "author": "ann", "channel": f"c{n // 550}", "id": n} for n in range(600)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    day = [{"type": "message", "ts": "1704100000.0001", "user": "U1", "text": "The winch pulls."}]
    tables = {"users.json": '[{"id": "U1", "name": "ann"}]', "channels.json": '[{"id": "C1", "name": "yard"}]'}
    (tmp_path / "b.zip").write_bytes(make_archive({**tables, "yard/2024-01-01.json": json.dumps(day)}))
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(tmp_path)
        assert not report.failed
        assert report.chunks == 601
        assert engine.search("winch")[0].chunk.text == "The winch pulls."
