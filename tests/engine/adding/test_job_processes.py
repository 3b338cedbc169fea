"""Workers that are real processes: they die, are stopped and race, and every job is done once, whole."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, JobConfig, Settings
from tests.engine.conftest import STORES

PAGES = 200  # of one chunk each: four batches of the pipeline
QUICK = Settings(jobs=JobConfig(lease=0.5))

# A worker whose embedder prints a line and waits before the batch of that number.
WORKER = """
import sys, time
from clew import Engine, JobConfig, Settings
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store import embed

embed.CLAIM_SECONDS = 3.0  # after which others make the vectors of a stopped process

class Embedder(HashedEmbedder):
    batches = 0
    def embed(self, texts, *, role):
        self.batches += 1
        if self.batches == int(sys.argv[2]):
            print("waiting", flush=True)
            sys.stdin.readline()
        return super().embed(texts, role=role)

settings = Settings(jobs=JobConfig(lease=float(sys.argv[3])))
with Engine.open(sys.argv[1], embedder=Embedder(), settings=settings) as engine:
    for job in engine.run_jobs():
        print(job.id, flush=True)
print("ended", flush=True)
"""


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, or the address of a database."""
    return str(tmp_path / "team.clew" if request.param == "folder" else request.getfixturevalue("postgres"))


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(PAGES):
        (folder / f"{number:03}.md").write_text(f"# Page {number}\n\nThe gauge {number} is read at noon.\n")
    return folder


@pytest.fixture
def start_worker(place: str) -> Any:
    """Starts a worker that waits before its nth batch; all are ended in the end."""
    started: list[subprocess.Popen[str]] = []

    def start(batch: int, lease: float = 0.5) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(WORKER), place, str(batch), str(lease)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def list_texts(engine: Engine) -> list[str]:
    return sorted(chunk.text for chunk in engine.opened.store.scan())


@pytest.mark.slow
def test_the_next_worker_finishes_what_a_killed_one_began(place: str, pages: Path, start_worker: Any) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        job = engine.enqueue_add(pages)
        worker = start_worker(3)
        assert read_line(worker) == "waiting"
        made = PAGES - engine.status().pending
        assert 0 < made < PAGES
        worker.kill()
        worker.wait()
        assert engine.job(job.id).state == "running"
        (ended,) = engine.run_jobs()
        assert (ended.id, ended.state, ended.attempts) == (job.id, "done", 2)
        assert (ended.result["skipped"], ended.result["embedded"]) == (PAGES, PAGES - made)
        with Engine.open(":memory:", embedder="hashed") as other:
            other.add(pages)
            assert list_texts(engine) == list_texts(other)
        assert engine.status().documents == PAGES
        assert engine.run_jobs() == []


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be stopped and continued")
@pytest.mark.slow
def test_a_worker_that_was_stopped_too_long_loses_the_job_to_another(
    place: str, pages: Path, start_worker: Any
) -> None:
    with Engine.open(place, embedder="hashed", settings=QUICK) as engine:
        job = engine.enqueue_add(pages)
        worker = start_worker(2)
        assert read_line(worker) == "waiting"
        beat = engine.job(job.id).heartbeat
        while engine.job(job.id).heartbeat == beat:
            pass
        os.kill(worker.pid, signal.SIGSTOP)  # right after a sign of life: it holds no lock
        ended = engine.run_jobs()
        while not ended:  # until the lease is over
            ended = engine.run_jobs()
        assert (ended[0].state, ended[0].attempts) == ("done", 2)
        os.kill(worker.pid, signal.SIGCONT)
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert read_line(worker) == "ended"  # without a job that it could call its own
        assert engine.job(job.id) == ended[0]
        assert engine.status().documents == PAGES


@pytest.mark.slow
def test_many_workers_do_every_job_exactly_once(place: str, pages: Path, start_worker: Any) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        queued = sorted(engine.enqueue_add(page).id for page in sorted(pages.iterdir())[:24])
        workers = [start_worker(0, lease=30) for _ in range(3)]
        done = [line for worker in workers for line in worker.communicate()[0].split()]
        assert sorted(line for line in done if line != "ended") == queued
        assert {(job.state, job.attempts, len(job.result["added"])) for job in engine.jobs()} == {("done", 1, 1)}
        assert engine.status().documents == 24
