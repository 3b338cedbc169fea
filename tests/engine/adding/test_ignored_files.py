"""Files that were added and are ignored since: named, and dropped by `sync`; and how an ignore file is cut."""

from dataclasses import replace
from pathlib import Path

import pytest

from clew import Engine
from tests.engine.chosen import OpenEngine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "old").mkdir(parents=True)
    for name in ("a", "b", "c", "secret", "old/d"):
        (folder / f"{name}.md").write_text(f"# Page {name}\n\nThe crane {name} lifts.")
    return folder


@pytest.mark.parametrize("ignore_file", [".gitignore", ".clewignore"])
def test_a_stored_file_that_is_ignored_now_stays_until_sync(project: Path, engine: Engine, ignore_file: str) -> None:
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


def test_sync_holds_back_where_most_files_are_ignored(project: Path, engine: Engine) -> None:
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


def test_what_the_default_rules_pass_over_stays_and_is_named(project: Path, open_engine: OpenEngine) -> None:
    (project / "Makefile").write_text("all:")
    (project / "vendor").mkdir()
    (project / "vendor" / "v.md").write_text("# Theirs")
    (project / ".clewignore").write_text("secret.md\n")
    engine = open_engine(embedder="hashed")
    everything = replace(engine.settings, ingestion=replace(engine.settings.ingestion, ignore=False))
    assert engine.add(project, settings=everything).noted == ()
    for sync in (False, True, True):
        noted = {Path(each.source).name: each.reason for each in engine.add(project, sync=sync).noted}
        stays = "is passed over now (dependencies); the earlier version stays, also with --sync;"
        assert noted.pop("v.md").startswith(stays)
        assert {Path(record.uri).name for record in engine.list()} >= {"a.md", "v.md"}
    assert noted == {}
    assert "secret.md" not in {Path(record.uri).name for record in engine.list()}
    assert engine.add(project, project / "vendor").noted == ()


def test_sync_of_the_root_leaves_what_is_outside_it(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    open_engine: OpenEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    engine = open_engine(embedder="hashed")
    root = engine.opened.root
    assert root == tmp_path
    inside, share = root / "pages", tmp_path_factory.mktemp("share")
    for folder, count in ((inside, 5), (share, 2)):
        folder.mkdir(exist_ok=True)
        for number in range(count):
            (folder / f"p{number}.md").write_text(f"# Page {number} of {folder.name}")
    engine.add(root, share)
    assert len(list(engine.list())) == 7
    (inside / "p0.md").unlink()
    for file in share.iterdir():
        file.unlink()
    assert list(engine.plan(root, sync=True).dropped) == ["pages/p0.md"]
    assert engine.add(root, sync=True).dropped == 1
    assert len(list(engine.list())) == 6
    report = engine.add(root, share, sync=True)
    assert (report.dropped, len(report.held_back)) == (0, 2)
