"""An index that takes long to build is told of."""

import threading
from pathlib import Path

import pytest

from clew import Document, Engine
from clew.core import report as flush_module
from clew.core.jobs import Job
from clew.core.report import Progress
from clew.drivers.store.store import Store

WAIT = 30  # seconds, after which a test fails


@pytest.fixture
def is_told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Flushing takes until this is set."""
    told, flush = threading.Event(), Store.flush

    def wait_and_flush(store: Store, *, with_graph: bool = True) -> None:
        assert told.wait(WAIT)
        flush(store, with_graph=with_graph)

    monkeypatch.setattr(Store, "flush", wait_and_flush)
    monkeypatch.setattr(flush_module, "INTERVAL", 0.01)
    return told


def test_adding_reports_the_seconds_that_the_index_takes(tmp_path: Path, is_told: threading.Event) -> None:
    seen = list[Progress]()

    def note(progress: Progress) -> None:
        seen.append(progress)
        if progress.stage == flush_module.STAGE and progress.done:
            is_told.set()

    with Engine.open(tmp_path / "c", embedder="hashed") as engine:
        report = engine.add_documents([Document("a", "The ferry leaves at nine.")], on_progress=note)
    assert report.added == ("a",)
    assert report.seconds >= 0.5  # the index is in it: it waited until a report had rounded to a second
    stages = list(dict.fromkeys(progress.stage for progress in seen))
    assert stages[-1] == "building the index"
    assert seen[-1].done == seen[-1].total
    assert seen[-1].unit == "seconds"


def test_a_report_that_raises_does_not_end_the_flush(tmp_path: Path, is_told: threading.Event) -> None:
    def refuse(progress: Progress) -> None:
        if progress.stage == flush_module.STAGE:
            is_told.set()
            raise RuntimeError("no")

    with Engine.open(tmp_path / "c", embedder="hashed") as engine:
        engine.add_documents([Document("a", "The ferry leaves at nine.")], on_progress=refuse)
        assert [hit.document.id for hit in engine.search("ferry")] == ["a"]


def test_an_index_that_is_built_at_once_is_not_told_of(tmp_path: Path) -> None:
    seen = list[str]()
    with Engine.open(tmp_path / "c", embedder="hashed") as engine:
        engine.add_documents([Document("a", "The ferry leaves.")], on_progress=lambda each: seen.append(each.stage))
    assert seen
    assert flush_module.STAGE not in seen


def test_a_job_counts_what_it_adds_while_the_index_is_built(tmp_path: Path, is_told: threading.Event) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").write_text("The ferry leaves at nine.")
    heard = list[Job]()

    def note(job: Job) -> None:
        heard.append(job)
        if job.stage == flush_module.STAGE:
            is_told.set()

    with Engine.open(tmp_path / "c", embedder="hashed") as engine:
        engine.enqueue_add(*tmp_path.glob("*.md"))
        (ended,) = engine.run_jobs(on_job=note)
    assert flush_module.STAGE in {job.stage for job in heard}
    assert (ended.done, ended.total) == (3, 3)
