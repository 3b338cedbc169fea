"""Fast adding through the engine: found at once, upgraded by a job while searches go on, whatever is killed."""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Filter, JobConfig, Settings, SettingsError, StoreMismatch, drivers
from clew.core.calibration import Calibration
from clew.core.jobs import UPGRADE
from clew.core.protocols import Embedder, Role, Store
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store import embed
from clew.drivers.store.sqlite import build
from clew.drivers.store.sqlite.checkpoint import read_checkpoint
from clew.drivers.store.sqlite.folder import HOME, list_own_shards
from clew.index.add import calibrate
from tests.engine.conftest import STORES

FAST = Settings(embedder=EmbedderConfig(fast="hashed:32"), jobs=JobConfig(lease=0.5))
PAGES = [Document(f"p{number}", f"# Page {number}\n\nThe gauge {number} is read at noon.") for number in range(12)]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, or the address of a database."""
    return str(tmp_path / "team.clew" if request.param == "folder" else request.getfixturevalue("postgres"))


def open_engine(place: str, embedder: str | None = "hashed", **options: Any) -> Engine:
    return Engine.open(place, embedder=embedder, settings=FAST, **options)


def stored(engine: Engine) -> dict[str, Any]:
    return {each.document.id: each.fingerprint() for each in engine.opened.store.stored_documents()}


def test_it_is_found_at_once_and_ends_as_an_add_with_the_better_model(place: str) -> None:
    with open_engine(place) as engine, Engine.open(":memory:", embedder="hashed") as plain:
        report = engine.add_documents(PAGES, fast=True)
        assert (len(report.added), report.noted) == (12, ())
        status = engine.status()
        assert (status.embedder, status.upgrade and (status.upgrade.to, status.upgrade.state)) == (
            "hashed:32",
            ("hashed", "queued"),
        )
        assert engine.within(Filter(kinds=frozenset({"page"}))).status().upgrade is None
        assert engine.search("gauge 7", strategy="semantic")[0].chunk.doc_id == "p7"
        assert engine.add_documents(PAGES).skipped == 12  # cut, and known, as with the better model
        (job,) = engine.run_jobs()
        assert (job.kind, job.state, job.result["embedded"]) == (UPGRADE, "done", 12)
        assert (engine.status().embedder, engine.status().upgrade) == ("hashed", None)
        assert engine.opened.store.staged_model() is None
        plain.add_documents(PAGES)
        assert stored(engine) == stored(plain)
        assert engine.add_documents(PAGES).skipped == 12


def test_vectors_that_are_to_be_replaced_get_no_graph(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MIN_ROWS", 5)
    settings = replace(FAST, store=StoreConfig(exact_below=5))
    with Engine.open(place, embedder="hashed", settings=settings) as engine:
        engine.add_documents(PAGES, fast=True)
        assert not has_graph(engine, place)
    with Engine.open(place, embedder="hashed", settings=settings) as engine:
        assert engine.search("gauge 7", strategy="semantic")[0].chunk.doc_id == "p7"
        engine.run_jobs()
        assert has_graph(engine, place)
        assert engine.search("gauge 7", strategy="semantic")[0].chunk.doc_id == "p7"


def test_a_worker_that_was_killed_after_the_switch_leaves_the_rest_to_the_next(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "MIN_ROWS", 5)
    monkeypatch.setattr(calibrate, "MIN_CHUNKS", 5)
    settings = replace(FAST, store=StoreConfig(exact_below=5))
    better = HashedEmbedder()
    with Engine.open(place, embedder="hashed", settings=settings) as engine:
        engine.add_documents(PAGES, fast=True)
        engine.opened.store.stage_vectors(better)
        engine.opened.store.switch_to_staged(better)
    with Engine.open(place, embedder="hashed", settings=settings) as engine:
        (job,) = engine.run_jobs()
        assert (job.state, job.result["embedded"]) == ("done", 0)
        assert has_graph(engine, place)
        assert Calibration.from_json(engine.opened.store.calibration(), "hashed")
        assert engine.opened.store.staged_model() is None


def has_graph(engine: Engine, place: str) -> bool:
    if place.startswith("postgresql:"):
        return "HNSW" in engine.status().index
    checkpoints = [read_checkpoint(folder) for folder in list_own_shards(Path(place) / "default" / HOME)]
    assert checkpoints
    return any(each and not each.unindexed for each in checkpoints)


def test_it_is_opened_by_the_name_of_either_model_until_it_is_upgraded(place: str) -> None:
    with open_engine(place) as engine:
        engine.add_documents(PAGES, fast=True)
    for name in ("hashed", "hashed:32", None):
        with open_engine(place, name) as engine:
            assert engine.status().embedder == "hashed:32"
    with pytest.raises(StoreMismatch):
        open_engine(place, "hashed:64")
    with open_engine(place) as engine, open_engine(place) as other:
        assert other.search("gauge 7")
        engine.run_jobs()
        assert other.search("gauge 7")[0].chunk.doc_id == "p7"  # it follows
        assert other.status().embedder == "hashed"
    with pytest.raises(StoreMismatch):
        open_engine(place, "hashed:32")


def test_it_is_opened_while_its_upgrade_ends(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(place) as engine:
        engine.add_documents(PAGES, fast=True)
        plain = drivers.open_store

        def open_as_it_ends(*given: Any, embedder: Embedder, **options: Any) -> Store:
            if embedder.name == "hashed:32":
                engine.run_jobs()
            return plain(*given, embedder=embedder, **options)

        monkeypatch.setattr(drivers, "open_store", open_as_it_ends)
        with open_engine(place) as other:
            assert other.status().embedder == "hashed"


def test_status_tells_how_much_there_is_to_upgrade_before_the_first_batch(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[tuple[str, int, int | None]]()
    embed = HashedEmbedder.embed
    with open_engine(place) as engine:
        engine.add_documents(PAGES, fast=True)

        def embed_when_told(model: HashedEmbedder, texts: Sequence[str], *, role: Role) -> Matrix:
            end = time.monotonic() + 20
            while model.name == "hashed" and not told and time.monotonic() < end:
                upgrade = engine.status().upgrade
                told.extend([(upgrade.stage, upgrade.done, upgrade.total)] if upgrade and upgrade.total else [])
            return embed(model, texts, role=role)

        monkeypatch.setattr(HashedEmbedder, "embed", embed_when_told)
        engine.run_jobs()
    assert told == [("embedding", 0, 12)]


def test_searches_and_adds_go_on_while_it_is_upgraded(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "BATCH", 4)
    seen, failed = list[str](), list[Exception]()
    with open_engine(place) as engine:
        engine.add_documents(PAGES, fast=True)
        ended = threading.Event()

        def search() -> None:
            try:
                while not ended.is_set():
                    assert engine.search("gauge 7", strategy="hybrid", k=3)[0].chunk.doc_id == "p7"
                    seen.append(engine.status().embedder)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=search) for _ in range(2)]
        for thread in threads:
            thread.start()
        engine.add_documents([Document("late", "A late page.")], fast=True)  # the same upgrade has it too
        jobs = engine.run_jobs()
        engine.add_documents([Document("later", "A later page.")], fast=True)
        ended.set()
        for thread in threads:
            thread.join()
        assert not failed
        assert {"hashed:32"} <= {*seen} <= {"hashed:32", "hashed"}
        assert [(job.state, job.result["embedded"]) for job in jobs] == [("done", 13)]
        assert engine.status().documents == 14


@pytest.mark.slow
def test_a_killed_upgrade_goes_on_and_searches_never_stop(place: str) -> None:
    with open_engine(place) as engine:
        engine.add_documents(PAGES, fast=True)
        code = (
            "import os, sys; from clew import Engine; from clew.drivers.store import embed\n"
            "from clew.drivers.embed.hashed import HashedEmbedder\n"
            "staged.BATCH, embed, calls = 4, HashedEmbedder.embed, []\n"
            "def killed(self, texts, *, role):\n"
            "    calls.append(1); len(calls) > 2 and os._exit(9); return embed(self, texts, role=role)\n"
            "HashedEmbedder.embed = killed\n"
            "Engine.open(sys.argv[1]).run_jobs()"
        )
        assert subprocess.run([sys.executable, "-c", code, place], check=False).returncode == 9
        assert engine.search("gauge 7", strategy="semantic")[0].chunk.doc_id == "p7"
        upgrade = engine.status().upgrade
        assert upgrade is not None
        assert (upgrade.state, engine.status().embedder) == ("running", "hashed:32")
        (job,) = engine.run_jobs()
        assert (job.state, job.attempts, job.result["embedded"]) == ("done", 2, 4)  # eight were kept
        with Engine.open(":memory:", embedder="hashed") as plain:
            plain.add_documents(PAGES)
            assert stored(engine) == stored(plain)


@pytest.mark.slow
def test_a_killed_fast_add_leaves_the_upgrade_to_the_next_worker(tmp_path: Path) -> None:
    code = (
        "import os, sys; from clew import Document, Engine, Settings; from clew.core.settings import EmbedderConfig\n"
        "from clew.index.add import ingest\n"
        "def killed(store, embedder): os._exit(9)\n"
        "ingest.calibrate_once = killed\n"
        "settings = Settings(embedder=EmbedderConfig(fast='hashed:32'))\n"
        "engine = Engine.open(sys.argv[1], embedder='hashed', settings=settings)\n"
        "engine.add_documents([Document('a', 'A page.')], fast=True)"
    )
    path = tmp_path / "a"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    with open_engine(str(path)) as engine:
        assert (engine.status().documents, engine.status().embedder) == (1, "hashed:32")
        (job,) = engine.run_jobs()
        assert (job.state, engine.status().embedder) == ("done", "hashed")


def test_what_has_the_better_vectors_keeps_them(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "a")) as engine:
        engine.add_documents(PAGES)
        report = engine.add_documents([Document("new", "A new page.")], fast=True)
        (note,) = report.noted
        assert "has vectors of hashed" in note.reason
        assert (engine.status().embedder, engine.jobs()) == ("hashed", [])


def test_a_failed_upgrade_is_told_and_the_next_fast_add_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(str(tmp_path / "a")) as engine:
        engine.add_documents(PAGES, fast=True)
        with monkeypatch.context() as patch:
            patch.setattr(HashedEmbedder, "embed", lambda *_, **__: 1 / 0)
            (job,) = engine.run_jobs()
        upgrade = engine.status().upgrade
        assert upgrade is not None
        assert (job.state, upgrade.state, "ZeroDivision" in upgrade.error) == ("failed", "failed", True)
        engine.add_documents(PAGES, fast=True)
        assert engine.run_jobs()[0].state == "done"
        assert (engine.status().embedder, engine.status().upgrade) == ("hashed", None)


def test_a_fast_add_before_the_upgrade_leaves_it_to_the_same_job(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "a")) as engine:
        engine.add_documents(PAGES[:1], fast=True)
        engine.add_documents(PAGES[1:], fast=True)
        (job,) = engine.jobs()
        engine.cancel_job(job.id)
        assert engine.run_jobs() == []
        assert (engine.status().documents, engine.status().embedder) == (len(PAGES), "hashed:32")
        engine.add_documents(PAGES, fast=True)
        assert [each.state for each in engine.run_jobs()] == ["done"]
        assert (engine.status().documents, engine.status().embedder) == (len(PAGES), "hashed")


def test_an_embedder_that_no_worker_can_make_is_refused() -> None:
    with (
        Engine.open(":memory:", embedder=HashedEmbedder(64)) as engine,
        pytest.raises(SettingsError, match="as an obj"),
    ):
        engine.add_documents(PAGES, fast=True)


def test_a_queued_add_may_be_fast(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Tide\n\nIt turns twice a day.")
    with open_engine(str(tmp_path / "a")) as engine:
        engine.enqueue_add(tmp_path / "page.md", fast=True)
        seen = list[tuple[str, str, str]]()
        ended = engine.run_jobs(on_job=lambda job: seen.append((job.kind, job.state, engine.opened.embedder.name)))
        assert [(job.kind, job.state) for job in ended] == [("add", "done"), (UPGRADE, "done")]
        assert ("add", "done", "hashed:32") in seen
        assert engine.search("tide")[0].chunk.text.startswith("# Tide")
        assert engine.status().embedder == "hashed"
