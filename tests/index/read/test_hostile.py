"""Hostile files, and files broken at random: none hangs `add`, fills the memory, or keeps another from being stored.

20 broken files, 1,000 in `make soak` (`-s` prints the numbers), with a page before each that must be stored.
"""

import resource
import sys
import time
from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.report import Progress
from clew.core.settings import IngestionConfig
from tests.hostile import make_hostile_files, mutate_files
from tests.index.read.test_process import SAMPLES
from tests.soak import choose_runs

SOAK = choose_runs(0, 1) == 1
MAX_MEMORY = 1_500_000_000  # of either process
SLOW = {"pages.pdf", "packed.docx", "cells.xlsx", "spans.html", "options.html", "cells.csv", "marks.txt"}


def forget_peak_memory() -> None:
    """Counts the peak from now on (Linux): making the files takes more memory than adding them may."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def read_peak_memory(who: int) -> int:
    """The peak of this process or of its children; a child's is at least that of its parent when it began."""
    peak = resource.getrusage(who).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Waits:
    """The longest time without news of progress."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.monotonic()

    def note(self, _: Progress) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self._last)
        self._last = now


def add_among_pages(tmp_path: Path, files: dict[str, bytes], *, seconds: float) -> None:
    """Adds the files, each after a page: all pages are stored, every file is added or reported, memory stays low."""
    folder = tmp_path / "files"
    folder.mkdir()
    pages = set()
    for number, (name, data) in enumerate(files.items()):
        page = f"{number:05}-a-page.md"
        pages.add(page)
        (folder / page).write_text(f"# Page {number}\n\nKeys rotate weekly.")
        (folder / f"{number:05}-b-{name}").write_bytes(data)
    forget_peak_memory()
    waits = Waits()
    settings = Settings(ingestion=IngestionConfig(max_read_seconds=seconds))
    with Engine.open(tmp_path / "kept", embedder="hashed") as engine:
        report = engine.add(folder, settings=settings, on_progress=waits.note)
        stored = {Path(record.uri).name for record in engine.list()}
    assert pages <= stored
    empty = sum(passed.files for passed in report.passed_over)
    assert set(report.passed_over_counts) <= {"empty"}
    assert len(report.added) + len(report.failed) + empty == 2 * len(files)
    assert all(failure.reason for failure in report.failed)
    peaks = [read_peak_memory(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    crashed = [failure for failure in report.failed if "crashed" in failure.reason]
    late = [failure for failure in report.failed if "took more than" in failure.reason]
    print(  # noqa: T201
        f"\n{len(files)} files: {len(report.added) - len(pages)} added, {empty} empty, {len(report.failed)} reported "
        f"({len(late)} for time, {len(crashed)} crashed); every one of {len(pages)} neighbours stored; longest wait "
        f"{waits.longest:.1f} s; peak memory {peaks[0] / 1e6:,.0f} MB, of the readers {peaks[1] / 1e6:,.0f} MB"
    )
    for failure in (*late, *crashed):
        print(f"  {failure.source}: {failure.reason}")  # noqa: T201
    assert max(peaks) < MAX_MEMORY
    if SOAK:
        assert waits.longest < 30


@pytest.mark.soak
@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.slow
def test_hostile_files_harm_nobody(tmp_path: Path) -> None:
    files = make_hostile_files(scale=5 if SOAK else 1)
    chosen = files if SOAK else {name: data for name, data in files.items() if name not in SLOW}
    add_among_pages(tmp_path, chosen, seconds=25 if SOAK else 2)


@pytest.mark.soak
@pytest.mark.timeout(3600 if SOAK else 300)
def test_broken_files_harm_nobody(tmp_path: Path) -> None:
    texts = {
        "j.md": b"# Keys\n\n- a\n- b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "k.py": b"class A:\n    def b(): pass\n",
    }
    files = dict(mutate_files(SAMPLES | texts, choose_runs(20, 1_000), seed=11))
    add_among_pages(tmp_path, files, seconds=25 if SOAK else 5)
