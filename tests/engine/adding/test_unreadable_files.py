"""Files and folders that may not be asked about: they are reported and stay, and everything else goes on."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew import Engine

_CAPABILITIES_V3 = 0x20080522
_PAST_PERMISSIONS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with these, root reads everything


@contextmanager
def without_permission(folder: Path, mode: int) -> Iterator[None]:
    """Takes the permissions of a folder away, and from root what lets it read past them."""
    if sys.platform != "linux":
        pytest.skip("needs permissions that count for root too")
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] = effective & ~_PAST_PERMISSIONS
    folder.chmod(mode)
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        libc.capset(header, sets)
        folder.chmod(0o755)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    (folder / "closed").mkdir(parents=True)
    for name in ("a.md", "b.md", "z.md", "closed/c.md", "closed/d.md"):
        (folder / name).write_text(f"# Page {name}\n\nThe crane of {name} lifts.")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as opened:
        yield opened


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_folder_that_cannot_be_read_is_reported_and_the_rest_is_added(pages: Path, engine: Engine, mode: int) -> None:
    with without_permission(pages / "closed", mode):
        planned, report = engine.plan(pages), engine.add(pages)
    assert len(planned.added) == len(report.added) == 3
    for failed in (planned.failed, report.failed):
        assert len(failed) == (2 if mode else 1)
        assert {each.reason for each in failed} == {"cannot be read: no permission"}
        assert all("closed" in each.source for each in failed)


def test_a_named_folder_that_cannot_be_read_is_reported(pages: Path, engine: Engine) -> None:
    with without_permission(pages / "closed", 0o444):
        report = engine.add(pages / "closed", pages / "a.md")
    assert (len(report.added), {each.reason for each in report.failed}) == (1, {"cannot be read: no permission"})


@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_sync_keeps_the_documents_of_a_folder_that_cannot_be_read(pages: Path, engine: Engine, mode: int) -> None:
    engine.add(pages)
    (pages / "b.md").unlink()
    with without_permission(pages / "closed", mode):
        planned = engine.plan(pages, sync=True)
        report = engine.add(pages, sync=True)
    assert len(planned.dropped) == report.dropped == 1
    assert {Path(record.uri).name for record in engine.list()} == {"a.md", "z.md", "c.md", "d.md"}
    assert report.failed


def test_erase_gives_its_receipt_where_the_file_cannot_be_asked_about(pages: Path, engine: Engine) -> None:
    engine.add(pages)
    with without_permission(pages / "closed", 0o000):
        receipt = engine.erase([str(pages / "closed" / "c.md")])
        why = engine.why_not("crane", str(pages / "closed" / "c.md"))
    assert len(receipt.documents) == 1
    assert [Path(each).name for each in receipt.sources] == ["c.md"]  # it may still be there
    assert "no permission" in why.reason
    assert len(list(engine.list())) == 4
