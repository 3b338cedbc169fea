"""Files that were added and are ignored since: named, and dropped by `sync`; and how an ignore file is cut."""

from pathlib import Path

import pytest

from tests.engine.chosen import OpenEngine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "old").mkdir(parents=True)
    for name in ("a", "b", "c", "secret", "old/d"):
        (folder / f"{name}.md").write_text(f"# Page {name}\n\nThe crane {name} lifts.")
    return folder


@pytest.mark.parametrize("ignore_file", [".gitignore", ".clewignore"])
def test_a_stored_file_that_is_ignored_now_stays_until_sync(
    project: Path, open_engine: OpenEngine, ignore_file: str
) -> None:
    engine = open_engine(embedder="hashed")
    engine.add(project)
    (project / ignore_file).write_text("secret.md\nold/\n")
    report = engine.add(project)
    assert [Path(each.source).name for each in report.noted] == ["d.md", "secret.md"]
    reason = f"is ignored now (in {ignore_file}); the earlier version stays"
    assert all(each.reason.startswith(reason) for each in report.noted)
    assert (report.dropped, len(list(engine.list()))) == (0, 5)
    assert {Path(uri).name for uri in engine.plan(project, sync=True).dropped} == {"d.md", "secret.md"}
    report = engine.add(project, sync=True)
    assert report.dropped == 2
    dropped = f"is ignored now (in {ignore_file}); its document was dropped"
    assert [(Path(each.source).name, each.reason) for each in report.noted] == [
        ("d.md", dropped),
        ("secret.md", dropped),
    ]
    assert {Path(record.uri).stem for record in engine.list()} == {"a", "b", "c"}
    assert engine.add(project, sync=True).noted == ()


def test_sync_holds_back_where_most_files_are_ignored(project: Path, open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed")
    engine.add(project)
    (project / ".gitignore").write_text("*.md\n")
    report = engine.add(project, sync=True)
    assert (report.dropped, len(report.held_back), len(list(engine.list()))) == (0, 5, 5)
    assert report.noted[0].reason.startswith("5 of its 5 files are gone, empty or ignored;")
    assert engine.add(project, sync=True, allow_mass_drop=True).dropped == 5


def test_what_is_named_stays_although_it_is_ignored(project: Path, open_engine: OpenEngine) -> None:
    (project / ".gitignore").write_text("secret.md\nold/\n")
    engine = open_engine(embedder="hashed")
    named = (project, project / "secret.md", project / "old")
    for _ in range(2):
        report = engine.add(*named, sync=True)
        assert (report.dropped, report.noted, len(list(engine.list()))) == (0, (), 5)


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_only_a_newline_ends_a_pattern(project: Path, open_engine: OpenEngine, mark: str) -> None:
    (project / ".gitignore").write_bytes(f"x{mark}a.md\nb.md\r\nc.md\r".encode())
    engine = open_engine(embedder="hashed")
    engine.add(project)
    assert {Path(record.uri).stem for record in engine.list()} == {"a", "secret", "d"}
