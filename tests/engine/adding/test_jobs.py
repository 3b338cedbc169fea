"""Jobs through the engine, on both stores: what a worker does is what `add` would have done."""

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from clew import Engine, Filter, IngestionConfig, Job, JobConfig, NotFound, ScriptedLLM, Settings, SettingsError
from clew.core.settings import EmbedderConfig
from tests.engine.chosen import OpenEngine

QUICK = Settings(jobs=JobConfig(lease=0.2))  # signs of life twenty times a second


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.md").write_text(f"# Page {number}\n\nThe gauge {number} is read at noon.\n")
    return folder


def list_stored(engine: Engine) -> list[tuple[str, str, int]]:
    return [(record.id, record.uri, record.chunks) for record in engine.list()]


def test_a_worker_does_what_add_would_have_done(open_engine: OpenEngine, pages: Path) -> None:
    direct, engine = open_engine(embedder="hashed"), open_engine(embedder="hashed")
    expected = direct.add(pages)
    job = engine.enqueue_add(pages)
    assert (job.state, job.kind) == ("queued", "add")
    assert list_stored(engine) == []
    (ended,) = engine.run_jobs()
    assert list_stored(engine) == list_stored(direct)
    assert ended == engine.job(job.id) == engine.jobs()[0]
    assert (ended.state, ended.done, ended.total, ended.attempts, ended.error) == ("done", 6, 6, 1, "")
    assert ended.result["added"] == list(expected.added)
    assert ended.result["chunks"] == expected.chunks
    assert engine.run_jobs() == []


def test_jobs_run_in_the_order_they_were_queued_and_on_job_hears_of_them(engine: Engine, pages: Path) -> None:
    queued = [engine.enqueue_add(pages / f"{number}.md").id for number in (3, 1)]
    heard: list[tuple[str, str, int]] = []
    engine.run_jobs(on_job=lambda job: heard.append((job.id, job.state, job.done)))
    assert [each[0] for each in heard if each[1] == "done"] == queued
    assert (queued[0], "running", 1) in heard


def test_a_job_tells_how_far_each_stage_is(engine: Engine, pages: Path) -> None:
    engine.enqueue_add(pages)
    heard: dict[str, tuple[int, int | None]] = {}
    engine.run_jobs(on_job=lambda job: heard.update({job.stage: (job.done, job.total)}))
    chunks = engine.status().chunks
    assert list(heard)[-3:] == ["adding", "embedding", "added"]
    assert (heard["adding"], heard["embedding"], heard["added"]) == ((6, 6), (chunks, chunks), (6, 6))


def test_the_settings_and_options_of_the_one_who_queued_it_hold(open_engine: OpenEngine, pages: Path) -> None:
    long = pages / "long.md"
    long.write_text("# Long\n\n" + "\n\n".join(f"Paragraph {n} about the tide at Lowport." for n in range(40)))
    engine = open_engine(embedder="hashed")
    small = Settings(ingestion=IngestionConfig(chunk_size=16, chunk_overlap=0))
    engine.enqueue_add(long, settings=small)
    engine.run_jobs()
    (record,) = engine.list()
    assert record.chunks > 10
    engine.add(pages)
    (pages / "0.md").unlink()
    engine.enqueue_add(pages, sync=True)
    (job,) = engine.run_jobs()
    assert job.result["dropped"] == 1


def test_a_cost_limit_is_kept_and_the_job_says_why_it_stopped(open_engine: OpenEngine, pages: Path) -> None:
    priced = Settings(embedder=EmbedderConfig(name="hashed", price=1000.0))
    engine = open_engine(embedder="hashed", settings=priced)
    engine.enqueue_add(pages, max_cost=0.0)
    (job,) = engine.run_jobs()
    assert job.state == "done"
    assert "cost" in job.result["stopped"]
    assert engine.status().pending == engine.status().chunks > 0


def test_addresses_do_not_depend_on_where_the_worker_runs(
    request: pytest.FixtureRequest, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres = request.getfixturevalue("postgres")
    monkeypatch.chdir(tmp_path)
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.enqueue_add("pages/1.md")
    monkeypatch.chdir(pages)
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.run_jobs()
        assert [record.uri for record in engine.list()] == ["pages/1.md"]


def test_a_language_model_is_that_of_the_one_who_queued_it(open_engine: OpenEngine, pages: Path) -> None:
    name = f"models{id(pages)}"
    with_model = open_engine(embedder="hashed", collection=name, llm=ScriptedLLM([]))
    without = open_engine(embedder="hashed", collection=name)
    with_model.enqueue_add(pages / "1.md")
    (job,) = without.run_jobs()
    assert job.state == "failed"
    assert "scripted" in job.error
    without.enqueue_add(pages / "1.md")
    (job,) = with_model.run_jobs()
    assert (job.state, job.result["noted"]) == ("done", [])


def test_a_failure_is_kept_with_its_reason_and_the_next_job_runs(engine: Engine, pages: Path) -> None:
    engine.opened.store.jobs.put(Job("odd", "paint", {}))
    engine.enqueue_add(pages / "missing.md")
    odd, missing = engine.run_jobs()
    assert (odd.state, odd.error) == (
        "failed",
        "this Clew has no jobs of the kind 'paint'; update it, or queue the work with the one you have",
    )
    assert missing.state == "done"
    assert missing.result["failed"][0]["source"].endswith("missing.md")


def test_a_running_job_is_cancelled_between_batches_and_what_it_added_stays(
    open_engine: OpenEngine, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.index.add.pipeline.BATCH_CHUNKS", 1)
    monkeypatch.setattr("clew.index.add.pipeline.MAX_PREFETCH", 1)
    engine = open_engine(embedder="hashed", settings=QUICK)
    job = engine.enqueue_add(pages)

    def cancel_after_two(now: Job) -> None:
        if now.done == 2 and not now.is_finished:
            assert engine.cancel_job(job.id).state == "cancelling"
            wait_for_signs_of_life(engine, job.id)

    (ended,) = engine.run_jobs(on_job=cancel_after_two)
    assert (ended.state, ended.result) == ("cancelled", {})
    assert 2 <= len(list_stored(engine)) < 6
    assert engine.run_jobs() == []


def wait_for_signs_of_life(engine: Engine, job_id: str) -> None:
    """Returns when the worker has surely read the state that the job has now."""
    for _ in range(2):
        before = engine.job(job_id).heartbeat
        while engine.job(job_id).heartbeat == before:
            pass


def test_a_worker_that_is_stopped_gives_its_job_back(open_engine: OpenEngine, pages: Path) -> None:
    engine, stop = open_engine(embedder="hashed"), threading.Event()
    job = engine.enqueue_add(pages)
    assert engine.run_jobs(stop=stop, on_job=lambda now: stop.set() if now.done else None) == []
    assert engine.job(job.id).state == "queued"
    (ended,) = engine.run_jobs()
    assert (ended.state, ended.attempts) == ("done", 1)
    assert len(list_stored(engine)) == 6


def test_an_interrupt_gives_the_job_back(engine: Engine, pages: Path) -> None:
    job = engine.enqueue_add(pages)

    def interrupt(now: Job) -> None:
        if now.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run_jobs(on_job=interrupt)
    assert engine.job(job.id).state == "queued"


def test_a_worker_that_lost_its_lease_stops_and_changes_nothing(
    open_engine: OpenEngine, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.index.add.pipeline.BATCH_CHUNKS", 1)
    monkeypatch.setattr("clew.index.add.pipeline.MAX_PREFETCH", 1)
    engine = open_engine(embedder="hashed", settings=QUICK)
    queue, job, stop = engine.opened.store.jobs, engine.enqueue_add(pages), threading.Event()

    def take_over(now: Job) -> None:
        if now.done == 2 and queue.get(job.id).worker != "other":
            queue.claim("other", lease=-1.0, max_attempts=9, host=now.host)
            stop.wait(0.2)  # a few signs of life
            stop.set()  # or it would take the job back when the other is silent

    assert engine.run_jobs(on_job=take_over, stop=stop) == []
    taken = engine.job(job.id)
    assert (taken.state, taken.worker) == ("running", "other")
    assert len(list_stored(engine)) < 6


def test_a_job_is_given_up_after_so_many_workers(open_engine: OpenEngine, pages: Path) -> None:
    engine = open_engine(embedder="hashed", settings=replace(QUICK, jobs=JobConfig(lease=0.2)))
    queue, job = engine.opened.store.jobs, engine.enqueue_add(pages)
    for worker in ("one", "two", "three"):
        queue.claim(worker, lease=-1.0, max_attempts=9, host=job.host)
    threading.Event().wait(0.3)  # longer than the lease of the settings
    assert engine.run_jobs() == []
    assert engine.job(job.id).error.startswith("given up: 3 workers ended")


def test_waiting_workers_take_jobs_that_come_later(open_engine: OpenEngine, pages: Path) -> None:
    engine, stop = open_engine(embedder="hashed"), threading.Event()
    ended: list[Job] = []

    def end(job: Job) -> None:
        if job.is_finished:
            stop.set()

    worker = threading.Thread(target=lambda: ended.extend(engine.run_jobs(wait=True, stop=stop, on_job=end)))
    worker.start()
    job = engine.enqueue_add(pages)
    worker.join()
    assert [each.id for each in ended] == [job.id]


def test_an_engine_within_a_filter_has_no_jobs(engine: Engine, pages: Path) -> None:
    job = engine.enqueue_add(pages)
    part = engine.within(Filter(kinds={"page"}))
    for call in (part.jobs, part.run_jobs, partial(part.job, job.id), partial(part.cancel_job, job.id)):
        with pytest.raises(SettingsError, match="sees a part of the collection"):
            call()
    with pytest.raises(SettingsError, match="sees a part of the collection"):
        part.enqueue_add(pages)


def test_what_is_not_a_source_and_a_missing_job_are_refused(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="argument of its own"):
        engine.enqueue_add(["a.md"])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="argument of its own"):
        engine.enqueue_add()
    with pytest.raises(NotFound, match="no job 'x'"):
        engine.cancel_job("x")
