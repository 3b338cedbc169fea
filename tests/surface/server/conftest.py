"""A real server on loopback, filled with a few pages and messages."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clew import Document, Engine, Message, ServerConfig
from clew.surface.server.run import make_uvicorn
from clew.surface.server.state import Server
from clew.surface.settings.load import load_invocation

PAGES = [
    Document("keys", "# Keys\n\nDan rotates the vault key on Monday.", title="Vault", uri="handbook/vault.md"),
    Document("lunch", "# Lunch\n\nSoup is served at noon.", title="Lunch", uri="handbook/lunch.md"),
    Document("salaries", "# Salaries\n\nSalaries rise by three percent in May.", title="Salaries", access={"hr"}),
]
MESSAGES = [
    Message(
        "The build server is red again.", author="ada", at=datetime(2026, 3, 1, 9, tzinfo=UTC), channel="ops", id="m1"
    ),
    Message("I restart it now.", author="ben", at=datetime(2026, 3, 1, 9, 5, tzinfo=UTC), channel="ops", id="m2"),
    Message("The board meets on Friday.", author="eve", at=datetime(2026, 3, 2, tzinfo=UTC), channel="board", id="m3"),
]


LIMITS = {  # constants by the name that `serving` takes
    "body_timeout": "guard.BODY_TIMEOUT",
    "max_connections": "run.MAX_CONNECTIONS",
    "max_json": "guard.MAX_JSON",
    "max_waiting": "state.MAX_WAITING",
}


class Running:
    """A server that runs: its address, its state, and a client of its own."""

    def __init__(self, address: str, server: Server) -> None:
        self.address = address
        self.server = server
        self.http = httpx2.Client(base_url=address, timeout=30)

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        return self.http.post(path, json=body, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.http.get(path, **options)


@contextmanager
def serving(path: str | Path, **settings: Any) -> Iterator[Running]:
    """A server over a folder or a database, on any free port, with settings, and limits that are none."""
    start = load_invocation(environ={}, overrides={"path": str(path), "embedder.name": "hashed"}, folder=Path("/"))
    limits = {LIMITS[name]: settings.pop(name) for name in LIMITS.keys() & settings.keys()}
    config = replace(ServerConfig(), **{"port": 0, "rate": 0.0, **settings})
    started = threading.Event()
    address: list[str] = []

    def on_start(given: str) -> None:
        address.append(given)
        started.set()

    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(f"clew.surface.server.{name}", value)
        server = Server(replace(start, settings=replace(start.settings, server=config)))
        running = make_uvicorn(server, on_start)
        thread = threading.Thread(target=running.run, name="test-server")
        thread.start()
        try:
            assert started.wait(30)
            made = Running(address[0].replace("0.0.0.0", "127.0.0.1"), server)
            with made.http:
                yield made
        finally:
            running.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def started(
    store: str | Path, *options: str, cwd: Path | None = None, **environ: str
) -> Iterator["subprocess.Popen[str]"]:
    """A server that `clew serve` runs in a process of its own."""
    command = [sys.executable, "-m", "clew", "--path", str(store), "serve", "--port", "0", "--embedder", "hashed"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([*command, *options], **pipes, cwd=cwd, env={**os.environ, **environ}) as process:
        try:
            yield process
        finally:
            process.kill()


def read_start(process: "subprocess.Popen[str]") -> Any:
    """What a server with `--json` says when it has started."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def fill(path: str | Path, collection: str = "default") -> None:
    """Adds the pages and messages to a collection."""
    with Engine.open(path, collection=collection, embedder="hashed") as engine:
        engine.add_documents(PAGES)
        engine.add_messages(MESSAGES)


@pytest.fixture(scope="session", autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A data folder of the tests' own: that of the user has the keys of servers over a database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a filled collection."""
    path = tmp_path / "store"
    fill(path)
    return path


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    """A server over a filled folder, without keys."""
    with serving(folder) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a filled folder for the tests of a module that change nothing."""
    path = tmp_path_factory.mktemp("shared") / "store"
    fill(path)
    with serving(path) as made:
        yield made


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A filled collection in a folder, and one on a server."""
    if request.param == "folder":
        path = str(tmp_path / "store")
    else:
        make: Callable[[], str] = request.getfixturevalue("postgres_database")
        path = make()
    fill(path)
    return path
