"""Two servers on one PostgreSQL or one Lance collection.

What one is sent the other finds, each job is done once, and one may be killed.
"""

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from clew import Client, Engine, JobConfig, Settings
from tests.soak import choose_runs
from tests.surface.server.conftest import read_start, started

PAGES = choose_runs(150, 300)  # of one upload: several batches of the pipeline


def open_client(stack: ExitStack, url: str, folder: Path) -> Client:
    """A client of a server in a process of its own."""
    served = {"CLEW_SERVER__RATE": "0", "CLEW_SERVER__FOLDER": str(folder)}
    jobs = {"CLEW_JOBS__LEASE": "2", "CLEW_JOBS__ANY_HOST": "true"}
    process = stack.enter_context(started(url, "--json", cwd=None, **served, **jobs))
    return stack.enter_context(Client(read_start(process)["address"]))


def wait_for_jobs(client: Client) -> None:
    while any(job["state"] in ("queued", "running") for job in client.jobs()):
        time.sleep(0.05)


def write_pages(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:03}.md").write_text(f"# Page {number}\n\nThe gauge {number} is read at noon.\n")
    return sorted(folder.iterdir())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["postgres", "lance"])
def test_two_servers_share_the_jobs_of_one_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres") if kind == "postgres" else f"lance://{tmp_path}/lake"
    pages = write_pages(tmp_path / "pages", 12)
    with ExitStack() as stack:
        a, b = (open_client(stack, url, tmp_path / "server") for _ in range(2))
        for number, page in enumerate(pages):
            (a, b)[number % 2].enqueue_add(page)
        wait_for_jobs(a)
        jobs = b.jobs()
        assert Counter((job["state"], job["attempts"]) for job in jobs) == {("done", 1): len(pages)}
        assert sum(len(job["result"]["added"]) for job in jobs) == len(pages)
        for client in (a, b):  # each finds what the other was sent
            assert client.search("gauge 11 noon", k=1)["hits"][0]["document"]["uri"] == "011.md"
            assert client.search("gauge 10 noon", k=1)["hits"][0]["document"]["uri"] == "010.md"

        uploaded = tmp_path / "server" / "uploads" / "late" / "one"  # of a collection that neither has open
        uploaded.parent.mkdir(parents=True, exist_ok=True)
        with Engine.open(url, collection="late", embedder="hashed") as late:
            files = write_pages(uploaded, PAGES)
            job = late.enqueue_add(*files, settings=Settings(jobs=JobConfig(any_host=True)))
            assert job.host == ""
            while not late.status().documents:
                time.sleep(0.01)
            machine_and_process = late.job(job.id).worker.rpartition("/")[0]
            os.kill(int(machine_and_process.rpartition("/")[2]), signal.SIGKILL)
            left = PAGES - late.status().documents
            while not late.job(job.id).is_finished:
                time.sleep(0.05)
            ended = late.job(job.id)
            assert (ended.state, ended.attempts, late.status().documents) == ("done", 2, PAGES)
            assert 0 < len(ended.result["added"]) <= left
