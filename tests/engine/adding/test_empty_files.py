"""Files without text: passed over, and what happens to the version that was stored before."""

from pathlib import Path

import pytest

from clew import Engine, Settings
from clew.core.settings import IngestionConfig
from tests.engine.chosen import OpenEngine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "__init__.py").write_bytes(b"")
    (folder / "blank.py").write_bytes(b"\xef\xbb\xbf\r\n\n")
    for name in ("a", "b", "c"):
        (folder / f"{name}.md").write_text(f"# Page {name}\n\nThe crane {name} lifts.")
    return folder


def test_empty_files_are_passed_over_and_counted(project: Path, engine: Engine) -> None:
    planned = engine.plan(project)
    report = engine.add(project)
    assert (len(report.added), report.failed, report.noted) == (3, (), ())
    assert report.passed_over_counts == planned.passed_over_counts == {"empty": 2}
    assert planned.failed == ()
    named = engine.add(project / "__init__.py")
    assert (named.failed, named.passed_over_counts) == ((), {"empty": 1})


def test_a_long_file_of_white_space_is_empty(project: Path, open_engine: OpenEngine) -> None:
    (project / "spaces.md").write_text(" \n" * 500)
    (project / "wide.txt").write_text("\u2003\u00a0\n" * 50)
    (project / "late.md").write_text("\n" * 500 + "The winch pulls.")
    report = open_engine(embedder="hashed").add(project)
    assert (len(report.added), report.failed, report.passed_over_counts) == (4, (), {"empty": 4})


@pytest.mark.parametrize("sections", [False, True])
def test_a_file_that_was_emptied_stays_until_sync(project: Path, open_engine: OpenEngine, sections: bool) -> None:
    (project / "a.md").write_text("# A\n\n## One\n\nThe crane lifts.\n\n## Two\n\nThe winch pulls.\n")
    engine = open_engine(embedder="hashed", settings=Settings(ingestion=IngestionConfig(sections=sections)))
    stored = len(engine.add(project).added)
    (project / "a.md").write_text("")
    report = engine.add(project)
    assert [Path(each.source).name for each in report.noted] == ["a.md"]
    assert "is empty now; the earlier version stays" in report.noted[0].reason
    assert (report.failed, report.dropped, len(list(engine.list()))) == ((), 0, stored)
    gone = len(engine.plan(project, sync=True).dropped)
    report = engine.add(project, sync=True)
    assert (report.dropped, report.noted) == (gone, ())
    assert {Path(record.uri).name for record in engine.list()} == {"b.md", "c.md"}
    for name in ("b", "c"):
        (project / f"{name}.md").write_text("")
    report = engine.add(project, sync=True)
    assert (report.dropped, len(report.held_back)) == (0, 2)
    assert [each.reason.partition(";")[0] for each in report.noted] == ["2 of its 2 files are gone, empty or ignored"]


def test_a_stored_file_that_cannot_be_read_any_more_stays(project: Path, engine: Engine) -> None:
    engine.add(project)
    (project / "a.md").write_bytes(b"a\0b")
    (project / "new.md").write_bytes(b"a\0b")
    reasons = {Path(each.source).name: each.reason for each in engine.add(project, sync=True).failed}
    assert reasons["a.md"].endswith("; the earlier version stays")
    assert "earlier" not in reasons["new.md"]
    assert len(list(engine.list())) == 3
