"""Uploads: what was acknowledged is added, whatever happens to the server in the middle."""

import logging
import os
import random
import signal
import threading
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import httpx2
import pytest

from clew import Client, Engine, ServerError
from clew.surface.server.uploads import ORPHAN_SECONDS, enqueue
from tests.soak import choose_runs
from tests.surface.server.conftest import Running, read_start, serving, started

log = logging.getLogger(__name__)


@pytest.mark.slow
def test_a_server_tells_that_its_collection_is_new(tmp_path: Path) -> None:
    with started(tmp_path / "typo", "--json", cwd=tmp_path) as process:
        note = f"no collection 'default' in {tmp_path / 'typo'} yet; the first upload"
        assert note in read_start(process)["note"]
    assert not (tmp_path / "typo" / "clew.db").exists()


def upload_until_it_ends(address: str, run: int, folder: Path, acknowledged: list[str]) -> None:
    """Uploads files one after the other until the server is gone."""
    with Client(address) as client, suppress(ServerError, httpx2.HTTPError):
        for number in range(40):
            name = f"page-{run}-{number}.md"
            file = folder / name
            file.write_text(f"# {name}\n\nText of {name}.")
            client.enqueue_add(file)
            acknowledged.append(name)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store"
    chance = random.Random(3)
    acknowledged: list[str] = []
    kills = choose_runs(1, 20)
    for run in range(kills):
        with started(path, "--json", cwd=tmp_path, CLEW_SERVER__RATE="0") as process:
            address = read_start(process)["address"]
            sender = threading.Thread(target=upload_until_it_ends, args=(address, run, tmp_path, acknowledged))
            sender.start()
            wanted = len(acknowledged) + chance.randint(2, 9)
            while len(acknowledged) < wanted:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))  # in the middle of the next one
            process.kill()
            sender.join()
    with (
        started(path, "--json", cwd=tmp_path, CLEW_SERVER__RATE="0") as process,
        Client(read_start(process)["address"]) as client,
    ):
        deadline = time.monotonic() + 120
        while any(job["state"] in ("queued", "running") for job in client.jobs()) and time.monotonic() < deadline:
            time.sleep(0.2)
        stored = {record["uri"] for record in client.list()}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)  # uvicorn ends in good order, then by the signal
    lost = set(acknowledged) - stored
    log.info(f"{kills} kills, {len(acknowledged)} acknowledged, {len(lost)} lost")
    assert len(acknowledged) > kills
    assert not lost
    left = {file.name for file in (path / ".server" / "uploads" / "default").rglob("*.md")}
    assert not left & set(acknowledged)  # an upload that was killed before its job is kept for an hour


@pytest.mark.slow
def test_an_upload_replaces_the_document_of_its_name(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "menu.md"
    with Client(running.address) as client:
        for text, change in (("# Menu\n\nSoup.", "added"), ("# Menu\n\nStew.", "changed")):
            file.write_text(text)
            report = client.add(file)
            assert report[change] == ["menu.md"]  # type: ignore[literal-required]
            assert client.read("menu.md")["text"] == text
        assert len([record for record in client.list() if record["uri"] == "menu.md"]) == 1


@pytest.mark.slow
def test_a_job_survives_a_restart_and_what_was_never_acknowledged_goes(folder: Path) -> None:
    with serving(folder, read_only=True) as running:  # no worker: it stays queued
        uploads = running.server.uploads
        engine = running.server.engines.get("default")
        with uploads.save("default", [("note.md", BytesIO(b"# Note\n\nThe lamp is green."))]) as kept:
            enqueue(engine, kept)
        with uploads.save("default", []) as orphan:
            pass
        old = time.time() - 2 * ORPHAN_SECONDS
        os.utime(orphan, (old, old))
    with serving(folder) as running, Client(running.address) as client:
        while client.jobs()[-1]["state"] != "done":
            time.sleep(0.05)
        assert client.read("note.md")["title"] == "Note"
        assert not orphan.exists()
        while kept.exists():
            time.sleep(0.01)
    with Engine.open(folder, embedder="hashed") as engine:
        assert engine.read("note.md").text == "# Note\n\nThe lamp is green."
