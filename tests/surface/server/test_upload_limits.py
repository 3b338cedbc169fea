"""Uploads beside other requests: deep names are refused, searches go on, and a drop takes only what is its own."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clew import Client
from clew.surface.server import uploads
from clew.surface.server.routes import documents
from clew.surface.server.uploads import MAX_DEPTH, ORPHAN_SECONDS
from tests.surface.server.conftest import Running, serving
from tests.surface.server.test_trees import upload
from tests.surface.server.test_watch import wait_until


def wait_added(client: Client, name: str) -> None:
    """Waits until every job is over, and checks that a document of the last is there."""
    wait_until(lambda: all(job["state"] not in ("queued", "running") for job in client.jobs()))
    assert name in {each["uri"] for each in client.list()}


def test_a_name_with_too_many_folders_is_refused_before_any_is_made(running: Running) -> None:
    deep = "d/" * MAX_DEPTH + "x.md"
    reply = upload(running, "fine.md", deep)
    assert (reply.status_code, reply.json()["error"]["type"]) == (422, "SourceError")
    assert "put the file in fewer folders" in reply.json()["error"]["message"]
    assert not running.server.uploads.folder.exists()
    assert upload(running, deep[2:]).status_code == 202


def test_an_upload_does_not_hold_searches_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        begun.set()
        assert release.wait(30)

    monkeypatch.setattr(documents, "check_readable", wait)
    with serving(folder, max_concurrent=1) as running:
        sender = threading.Thread(target=upload, args=(running, "a.md"))
        sender.start()
        try:
            assert begun.wait(30)
            assert running.post("/v1/search", {"query": "vault key"}).status_code == 200
        finally:
            release.set()
            sender.join()


@pytest.mark.slow
def test_an_upload_outlives_the_drop_of_its_collection(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()
    sync = uploads._sync_folder

    def wait(folder: Path) -> None:
        begun.set()
        assert release.wait(30)
        sync(folder)

    monkeypatch.setattr(uploads, "_sync_folder", wait)
    replies: list[Any] = []
    sender = threading.Thread(target=lambda: replies.append(upload(running, "notes/a.md")))
    sender.start()
    try:
        assert begun.wait(30)
        assert running.http.delete("/v1/collections/default").status_code == 200
    finally:
        release.set()
        sender.join()
    assert replies[0].status_code == 202, replies[0].text
    with Client(running.address) as client:
        wait_added(client, "notes/a.md")
        assert client.status()["documents"] == 1  # those of before are gone


@pytest.mark.slow
def test_what_is_acknowledged_while_a_collection_is_dropped_is_kept(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = running.server.engines.drop
    replies: list[Any] = []
    sender = threading.Thread(target=lambda: replies.append(upload(running, "b.md")))

    def drop_and_wait(name: str) -> Any:
        dropped = drop(name)
        sender.start()
        sender.join(0.5)  # an upload that does not wait for the rest of the drop is through by then
        return dropped

    monkeypatch.setattr(running.server.engines, "drop", drop_and_wait)
    assert running.http.delete("/v1/collections/default").status_code == 200
    sender.join()
    assert replies[0].status_code == 202
    with Client(running.address) as client:
        wait_added(client, "b.md")


@pytest.mark.slow
def test_a_dropped_collection_takes_its_queued_uploads_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folder) as running:
        monkeypatch.setattr(running.server.uploads, "remove_finished", lambda _: None)
        assert upload(running, "c.md").status_code == 202
        place = running.server.uploads.folder / "default"
        assert list(place.rglob("c.md"))
        assert running.http.delete("/v1/collections/default").status_code == 200
        assert not place.exists()


def test_old_uploads_of_a_collection_that_was_never_made_are_removed(folder: Path) -> None:
    place = folder / ".server" / "uploads" / "never"
    (place / "old").mkdir(parents=True)
    (place / "new").mkdir()
    before = time.time() - 2 * ORPHAN_SECONDS
    os.utime(place / "old", (before, before))
    with serving(folder):
        assert [each.name for each in place.iterdir()] == ["new"]
