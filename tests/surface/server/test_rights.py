"""Who may use what keeps or removes: chats, erasures, the doctor, whole collections."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Engine, Filter
from tests.surface.server.conftest import fill, serving
from tests.surface.server.test_guard import bearer

QUESTION = "who rotates the vault key?"
WRITING: list[tuple[str, str, Any]] = [
    ("POST", "/v1/sessions/work", {"query": QUESTION}),
    ("GET", "/v1/sessions/work", None),
    ("GET", "/v1/sessions", None),
    ("DELETE", "/v1/sessions/work", None),
    ("GET", "/v1/doctor", None),
    ("GET", "/v1/evaluations", None),
    ("POST", "/v1/erase", {"author": "ada", "dry_run": True}),
    ("DELETE", "/v1/collections/default", None),
]


@pytest.mark.parametrize("kind", ["reads", "filtered", "read-only server", "another collection"])
@pytest.mark.slow
def test_it_needs_the_right_to_write(folder: Path, kind: str) -> None:
    with serving(folder, read_only=kind == "read-only server") as running:
        _, token = running.server.keys.add(
            kind,
            rights="read" if kind in ("reads", "filtered") else "write",
            where=Filter(channels={"ops"}) if kind == "filtered" else Filter(),
            collections=frozenset({"other"}) if kind == "another collection" else None,
        )
        for method, path, body in WRITING:
            place = path if "collections" in path else f"{path}?collection=default"
            reply = running.http.request(method, place, json=body, headers=bearer(token))
            assert (reply.status_code, reply.json()["error"]["type"]) == (403, "NotAllowed"), path
    with Engine.open(folder, embedder="hashed") as engine:
        assert engine.status().documents == 6
        assert engine.sessions.list_sessions() == []


@pytest.mark.slow
def test_who_may_write_may_do_it_all(folder: Path) -> None:
    with serving(folder) as running:
        _, token = running.server.keys.add("writer", rights="write")
        for method, path, body in WRITING:
            assert running.http.request(method, path, json=body, headers=bearer(token)).status_code == 200, path
        assert running.get("/v1/status", headers=bearer(token)).status_code == 404
        assert running.get("/v1/jobs?collection=other", headers=bearer(token)).status_code == 404
        assert running.get("/v1/collections", headers=bearer(token)).json() == {"collections": []}  # it made none


def wait_for(status: int, statuses: set[int]) -> None:
    """Waits until a request was answered with a status."""
    deadline = time.monotonic() + 60
    while status not in statuses and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.slow
def test_searches_while_a_collection_is_removed_end_in_good_order(place: str, tmp_path: Path) -> None:
    statuses: set[int] = set()
    with serving(place, folder=str(tmp_path / "server")) as running:
        gone = threading.Event()

        def ask() -> None:
            while not gone.is_set():
                statuses.add(running.post("/v1/search", {"query": QUESTION}).status_code)

        asking = [threading.Thread(target=ask) for _ in range(4)]
        for each in asking:
            each.start()
        try:
            with Client(running.address) as client:
                wait_for(200, statuses)
                assert client.drop_collection("default")["dropped"]["documents"] == 6
                wait_for(404, statuses)
        finally:
            gone.set()
            for each in asking:
                each.join()
        assert statuses == {200, 404}
        fill(place)
        assert running.post("/v1/search", {"query": QUESTION}).status_code == 200
