"""What `add` takes of a folder and what it passes over, through the engine on both stores."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Document, Engine, Filter, Settings
from clew.core.settings import IngestionConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.index.walk import sources
from tests.engine.chosen import OpenEngine


class Counting(HashedEmbedder):
    """The hashed embedder, which keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, role: Any) -> Matrix:
        self.asked += texts
        return np.asarray(super().embed(texts, role=role))


def write(folder: Path, **files: str) -> Path:
    """Writes files by path, with two underscores for a slash and one for a dot before the suffix."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(".".join(path.name.rsplit("_", 1)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with dependencies, build output, and secrets that Git ignores."""
    root = tmp_path / "repo"
    write(root, README_md="# Winch\n\nOil it.", docs__guide_md="# Guide", docs__drafts__new_md="# Draft")
    write(root, node_modules__left__README_md="# Left", build__out_md="# Out", secret_md="password hunter2")
    write(root, venv__lib__x_py="x = 1", notes_bin="?", src__main_py="def main(): ...")
    write(root / "src" / "__pycache__", a_py="1")
    (root / "venv" / "pyvenv.cfg").write_text("home = /usr/bin")
    (root / ".env").write_text("KEY=hunter2")
    (root / ".git" / "objects").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (root / ".gitignore").write_text("secret.md\n*.log\n!keep.log\n")
    write(root, a_log="noise", keep_log="kept", docs__b_log="noise")
    return root


def add(engine: Engine, folder: Path, **ingestion: Any) -> tuple[list[str], dict[str, int]]:
    """What was added, below the folder, and how many files were passed over for each reason."""
    settings = replace(engine.settings, ingestion=replace(engine.settings.ingestion, **ingestion))
    report = engine.add(folder, settings=settings)
    assert not report.failed
    names = [uri.partition(f"{folder.name}/")[2] for uri in report.added]
    return names, report.passed_over_counts


def test_ignored_and_generated_files_are_passed_over_and_counted(repository: Path, engine: Engine) -> None:
    report = engine.add(repository)
    assert [uri.partition("repo/")[2] for uri in report.added] == [
        *("README.md", "docs/drafts/new.md", "docs/guide.md", "keep.log", "src/main.py")
    ]
    assert report.passed_over_counts == {
        "in .gitignore": 3,
        "dependencies": 3,
        "hidden": 2,
        "build output": 2,
        "version control": 1,
        "unknown format": 1,
    }
    listed = {Path(entry.source.rstrip("/")).name: (entry.reason, entry.files) for entry in report.passed_over}
    assert listed["secret.md"] == ("in .gitignore", 1)
    assert listed["node_modules"] == ("dependencies", 1)
    assert listed["venv"] == ("dependencies", 2)
    assert not engine.search("hunter2", strategy="lexical")
    assert engine.plan(repository).passed_over_counts == report.passed_over_counts


def test_own_ignore_files_patterns_and_their_order(repository: Path, tmp_path: Path) -> None:
    (repository / ".clewignore").write_text("drafts/\n!build/\n!secret.md\n!.env\n")
    (repository / "docs" / ".clewignore").write_text("!drafts/\n")
    write(repository, docs__inner__drafts__x_md="# X", src__drafts__y_md="# Y")
    with Engine.open(":memory:", embedder="hashed") as engine:
        names, counts = add(engine, repository)
        assert "docs/drafts/new.md" in names  # the nearer file decides
        assert {"build/out.md", "secret.md", "docs/inner/drafts/x.md"} <= set(names)
        assert "src/drafts/y.md" not in names
        assert counts["in .clewignore"] == 1
    with Engine.open(":memory:", embedder="hashed") as engine:
        names, counts = add(engine, repository, include=("*.md",), exclude=("docs/", "/build"))
        assert names == ["README.md", "secret.md"]
        assert (counts["excluded"], counts["not included"]) == (6, 4)
    with Engine.open(":memory:", embedder="hashed") as engine:
        names, _ = add(engine, repository, ignore=False)
        assert {"node_modules/left/README.md", "secret.md", "a.log"} <= set(names)
        assert ".env" not in names
        report = engine.add(
            repository / "a.log", repository / "src", settings=Settings(ingestion=IngestionConfig(exclude=("*.log",)))
        )
        assert report.passed_over_counts["excluded"] == 1


def test_what_is_named_is_added_and_the_rules_above_a_folder_count(repository: Path) -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        assert len(engine.add(repository / "secret.md", repository / "build", repository / ".env").added) == 3
        assert add(engine, repository / "docs")[1] == {"in .gitignore": 1}
        both = engine.add(repository, repository / "docs" / "b.log", repository / "docs")
        assert [Path(uri).name for uri in both.added] == ["README.md", "keep.log", "main.py", "b.log"]


def test_a_word_like_build_is_an_ordinary_folder_outside_a_project(tmp_path: Path) -> None:
    write(tmp_path / "handbook", build__walls_md="# Walls", vendor__terms_md="# Terms")
    with Engine.open(":memory:", embedder="hashed") as engine:
        assert add(engine, tmp_path / "handbook") == (["build/walls.md", "vendor/terms.md"], {})


def test_an_ignore_file_that_cannot_be_read_keeps_its_folder_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", a_md="# A", sub__b_md="# B")
    (folder / "sub" / ".gitignore").write_bytes(b"x" * 1_000_001)
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(folder)
        assert [Path(uri).name for uri in report.added] == ["a.md"]
        assert "nothing of the folder was added" in report.failed[0].reason


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions there")
def test_what_may_not_be_read_is_reported_and_the_rest_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "pages", a_md="# A", closed__b_md="# B", chat__c_md="# C", chat__users_json="[]")
    write(folder, chat__channels_json="[]", **{"chat__general__2024-01-01_json": "[]"})
    closed = {folder / "closed", folder / "chat" / "users.json"}
    if os.geteuid() != 0:
        for path in closed:
            path.chmod(0)
    else:  # the administrator may read everything, so the system's refusal is made here
        scandir, opened = os.scandir, Path.open

        def refuse(path: Any, *args: Any, **options: Any) -> Any:
            if Path(path) in closed:
                raise PermissionError(13, "Permission denied", str(path))
            return (opened if args or options else scandir)(path, *args, **options)

        monkeypatch.setattr(os, "scandir", refuse)
        monkeypatch.setattr(Path, "open", refuse)
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(folder)
        assert [Path(uri).name for uri in report.added] == ["a.md", "c.md"]
        assert [Path(failure.source).name for failure in report.failed] == ["users.json", "closed"]
        assert all("no permission" in failure.reason for failure in report.failed)
        assert report.passed_over_counts == {"in a chat export that cannot be read": 3}
        assert len(engine.plan(folder).failed) == 2
    for path in closed:
        path.chmod(0o700)


def test_a_file_that_vanishes_is_reported_and_the_rest_added(tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", **{f"p{n}_md": f"# Page {n}\n\nWords." for n in range(5)})
    with Engine.open(":memory:", embedder="hashed") as engine:
        found = engine.opened

        def read_and_remove(data: bytes, uri: str) -> str:
            (folder / "p3.md").unlink(missing_ok=True)
            return data.decode()

        readers = {**found.extensions.readers, ".md": read_and_remove}
        engine = Engine(replace(found, extensions=replace(found.extensions, readers=readers)))
        report = engine.add(folder)
        assert len(report.added) == 4
        assert [(Path(each.source).name, each.reason) for each in report.failed] == [("p3.md", "does not exist")]


# -- times


def test_the_time_of_a_page_is_stated_or_else_that_of_its_file(tmp_path: Path, open_engine: OpenEngine) -> None:
    folder = write(
        tmp_path / "pages",
        old_md="# Old\n\nAbout winches.",
        stated_md="---\ndate: 2020-05-01\n---\n# Stated\n\nAbout winches.",
        mail_eml="From: a@b.c\nSubject: Winches\nDate: Wed, 01 May 2019 10:00:00 +0000\n\nAbout winches.",
    )
    for file in folder.iterdir():
        os.utime(file, (1_600_000_000, 1_600_000_000))  # 2020-09-13
    engine = open_engine(embedder="hashed")
    engine.add(folder)

    def find(since: str, until: str) -> set[str]:
        where = Filter(since=datetime.fromisoformat(since), until=datetime.fromisoformat(until))
        return {Path(hit.document.uri).name for hit in engine.search("winches", where=where, k=9)}

    assert find("2020-09-13", "2020-09-14") == {"old.md"}
    assert find("2020-05-01", "2020-05-02") == {"stated.md"}
    assert find("2019-05-01", "2019-05-02") == {"mail.eml"}
    os.utime(folder / "old.md", (1_700_000_000, 1_700_000_000))
    assert engine.add(folder).skipped == 3  # a copied or touched file is not another one
    assert engine.read(folder / "old.md").sections[0].at == datetime.fromtimestamp(1_600_000_000, UTC)


# -- moved files


def test_a_moved_file_keeps_its_vectors(tmp_path: Path, open_engine: OpenEngine) -> None:
    folder = write(tmp_path / "pages", one_md="# One\n\nOil the winch.\n\n## Two\n\nRest.", two_md="# Other\n\nWords.")
    embedder = Counting()
    engine = open_engine(embedder=embedder)
    engine.add(folder)
    before = len(embedder.asked)
    (folder / "deep").mkdir()
    (folder / "one.md").rename(folder / "deep" / "renamed.md")
    assert engine.plan(folder).embedded == 0
    before = len(embedder.asked)
    report = engine.add(folder, sync=True)
    assert len(embedder.asked) == before
    assert (len(report.added), report.embedded, report.dropped) == (1, 0, 1)
    assert report.reused == report.chunks > 0
    hit = engine.search("oil the winch", k=1)[0]
    assert (Path(hit.document.uri).name, hit.similarity > 0.3) == ("renamed.md", True)
    shutil.copy(folder / "two.md", folder / "copy.md")
    copied = engine.add(folder)
    assert (copied.embedded, copied.noted) == (1, ())  # the file is still there: a copy, not a move


def test_a_moved_file_whose_old_document_stays_is_named(tmp_path: Path, open_engine: OpenEngine) -> None:
    folder = write(tmp_path / "pages", one_md="# One\n\nOil the winch.", two_md="# Other\n\nWords.")
    engine = open_engine(embedder="hashed")
    engine.add(folder)
    (folder / "one.md").rename(folder / "renamed.md")
    report = engine.add(folder)
    assert [(Path(note.source).name, len(list(engine.list()))) for note in report.noted] == [("one.md", 3)]
    assert report.noted[0].reason.startswith("is gone, and ")
    assert "renamed.md has its text; its document stays; add its folder with --sync" in report.noted[0].reason
    report = engine.add(folder, sync=True)
    assert (report.dropped, report.noted) == (1, ())
    (folder / "renamed.md").rename(folder / "again.md")
    assert engine.add(folder, sync=True).noted == ()  # it was dropped at once


def test_files_that_are_gone_are_named_and_their_documents_stay(engine: Engine, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", **{f"{n:02}_md": f"# Note {n}" for n in range(30)})
    engine.add(folder)
    for n in range(25):
        (folder / f"{n:02}.md").unlink()
    report = engine.add(folder)
    assert report.noted[0].reason == "is gone; its document stays; add its folder with --sync (sync=True) to drop it"
    assert [each.reason for each in report.noted[20:]] == ["is gone, as are 4 more; their documents stay"]
    assert (report.dropped, report.held_back, engine.status().documents) == (0, (), 30)
    assert engine.add(folder / "29.md").noted == ()


@pytest.mark.parametrize("how", ["folder", "link", "loop"])
def test_a_file_with_a_folder_or_a_link_in_its_place_is_gone(engine: Engine, tmp_path: Path, how: str) -> None:
    folder = write(tmp_path / "pages", one_md="# One\n\nOil the winch.", two_md="# Two\n\nGrease the pin.")
    engine.add(folder)
    (folder / "one.md").unlink()
    if how == "folder":
        (folder / "one.md").mkdir()
        (folder / "one.md" / "in.md").write_text("# In\n\nPaint the hull.")
    else:
        (folder / "one.md").symlink_to("one.md" if how == "loop" else "two.md")
    report = engine.add(folder, sync=True)
    assert (report.dropped, len(report.added)) == (1, 1 if how == "folder" else 0)
    assert not any(record.uri.endswith("pages/one.md") for record in engine.list())
    if how == "loop":
        assert [failure.source for failure in engine.add(folder, folder / "one.md").failed]


@pytest.mark.parametrize("store", ["", "lance://"])
def test_half_of_a_character_fails_its_own_document_alone(store: str, tmp_path: Path) -> None:
    with Engine.open(f"{store}{tmp_path / 'c'}", embedder="hashed") as engine:
        report = engine.add_documents([Document("a", "Oil."), Document("b", "Half \ud800."), Document("c", "Pin.")])
        assert (report.added, [each.source for each in report.failed]) == (("a", "c"), ["b"])
        assert "unpaired surrogate" in report.failed[0].reason
        given = [Document("d", "Rope."), Document("\ud800", "Half."), Document("e\0", "Nul."), Document("f", "Sail.")]
        report = engine.add_documents(given)
        assert (report.added, len(report.failed)) == (("d", "f"), 2)


# -- sync


def test_a_folder_that_has_become_empty_is_not_dropped_unasked(tmp_path: Path, open_engine: OpenEngine) -> None:
    folder = write(tmp_path / "share", **{f"p{n}_md": f"# Page {n}\n\nWords." for n in range(6)})
    away = tmp_path / "away"
    engine = open_engine(embedder="hashed")
    engine.add(folder)
    folder.rename(away)
    folder.mkdir()
    report = engine.add(folder, sync=True)
    assert (report.dropped, len(report.held_back), len(list(engine.list()))) == (0, 6, 6)
    assert "6 of its 6 files are gone" in report.noted[0].reason
    assert len(engine.plan(folder, sync=True).held_back) == 6
    folder.rmdir()
    away.rename(folder)
    for number in range(3):
        (folder / f"p{number}.md").unlink()
    half = engine.add(folder, sync=True)
    assert (half.dropped, half.held_back) == (3, ())
    for number in range(3, 5):
        (folder / f"p{number}.md").unlink()
    assert engine.add(folder, sync=True).dropped == 0
    assert engine.add(folder, sync=True, allow_mass_drop=True).dropped == 2
    job = engine.enqueue_add(folder, sync=True, allow_mass_drop=True)
    (folder / "p5.md").unlink()
    engine.run_jobs()
    assert engine.job(job.id).result["dropped"] == 1


def test_files_known_by_their_names_are_added_and_keys_are_not(tmp_path: Path) -> None:
    for name in ("README", "Makefile", "LICENSE", "site.conf", "todo.org", "id_rsa", "data"):
        (tmp_path / name).write_text(f"The {name} file.")
    with Engine.open(":memory:", embedder="hashed") as engine:
        names, counts = add(engine, tmp_path)
    assert names == ["LICENSE", "Makefile", "README", "site.conf", "todo.org"]
    assert counts == {"unknown format": 2}


# -- plan and progress


def test_plan_tells_how_far_it_is_what_fails_and_how_long_it_takes(tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", a_md="# A\n\nWords.", b_md="a\0b", c_md="# C\n\nWords.")
    told: list[Any] = []
    with Engine.open(":memory:", embedder="hashed") as engine:
        plan = engine.plan(folder, on_progress=told.append)
        assert [(each.stage, each.done, each.total) for each in told] == [("planning", n, 3) for n in (1, 2, 3)]
        assert (told[-1].chunks, told[-1].failed) == (2, 1)
        assert [Path(failure.source).name for failure in plan.failed] == ["b.md"]
        assert plan.seconds is not None
        assert plan.seconds > 0
        assert not list(engine.list())

    class Remote(Counting):
        is_local = False

    with Engine.open(":memory:", embedder=(remote := Remote())) as engine:
        assert engine.plan(folder).seconds is None
        assert remote.asked == []


def test_progress_counts_the_chunks_of_a_long_document(tmp_path: Path) -> None:
    file = tmp_path / "long.md"
    file.write_text("\n\n".join(f"## Part {n}\n\nWords of part {n}." for n in range(600)))
    told: list[Any] = []
    with Engine.open(
        ":memory:", embedder="hashed", settings=Settings(ingestion=IngestionConfig(chunk_size=16, chunk_overlap=0))
    ) as engine:
        report = engine.add(file, on_progress=told.append)
        assert report.embedded > 512
        counts = [each.done for each in told if each.stage == "embedding"]
        assert counts == sorted(counts)
        assert len(set(counts)) > 2
        assert counts[-1] == report.embedded


def test_a_long_walk_tells_how_much_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "REPORT_SECONDS", 0.0)
    folder = write(tmp_path / "pages", a_md="# A", b_md="# B")
    for verb in ("add", "plan"):
        told: list[Any] = []
        with Engine.open(":memory:", embedder="hashed") as engine:
            getattr(engine, verb)(folder, on_progress=told.append)
        finding = [(each.done, each.total, each.unit) for each in told if each.stage == "finding"]
        assert finding == [(1, None, "files"), (2, None, "files"), (2, 2, "files")]


# -- a bad line


def test_one_bad_line_of_messages_is_reported_and_the_rest_added(tmp_path: Path, open_engine: OpenEngine) -> None:
    rows: list[dict[str, Any]] = [
        {"text": f"Message {n} on winches.", "channel": "yard", "id": f"m{n}", "author": "Ann"} for n in range(3)
    ]
    rows = [{**row, "at": f"2026-03-02T09:0{n}:00Z", "reply_to": "m0" if n else None} for n, row in enumerate(rows)]
    file = tmp_path / "talk.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    engine = open_engine(embedder="hashed")
    engine.add(file)
    lines = file.read_text().split("\n")
    file.write_text("\n".join([lines[0], lines[1][:-9], lines[2], json.dumps({**rows[2], "id": "m3", "text": "New."})]))
    report = engine.add(file)
    assert [failure.reason for failure in report.failed] == ["line 2 is not valid JSON"]
    (thread,) = [engine.read(record.id) for record in engine.list()]
    assert sorted(section.id for section in thread.sections) == ["m0", "m1", "m2", "m3"]  # the stored one stays
