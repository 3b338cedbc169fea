"""A pooler in transaction mode: no statement depends on what another has set or prepared in its session."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from psycopg import Connection

from clew import DriverFailed, Engine, Settings, SettingsError
from clew.drivers.store.postgres.pool import Pool
from tests.pooler import PGBOUNCER, find_database, started_pooler

DEFAULTS = Settings()


def through(pooler: str, **given: object) -> Settings:
    return replace(DEFAULTS, store=replace(DEFAULTS.store, pooler=pooler, exact_below=0, **given))  # type: ignore[arg-type]


def write_pages(folder: Path, word: str) -> Path:
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.md").write_text(f"# {word} {number}\n\nThe {word} {number} is read every day.\n")
    return folder


@pytest.fixture
def fresh_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection that is taken from a pool has a session in which nothing was set, locked or prepared."""
    take: Callable[[Pool], Connection] = Pool._get_connection

    def take_fresh(pool: Pool) -> Connection:
        connection = take(pool)
        connection.execute("DISCARD ALL", prepare=False)
        return connection

    monkeypatch.setattr(Pool, "_get_connection", take_fresh)


@pytest.mark.usefixtures("fresh_sessions")
def test_all_is_found_and_changed_with_a_new_session_for_each_transaction(postgres: str, tmp_path: Path) -> None:
    pages = write_pages(tmp_path / "pages", "gauge")
    with Engine.open(postgres, embedder="hashed", settings=through(postgres)) as engine:
        assert len(engine.add(pages).added) == 4
        assert [hit.document.title for hit in engine.search("gauge 2", k=1)] == ["gauge 2"]
        engine.reembed("hashed:32")
        engine.enqueue_add(pages)
        assert [job.state for job in engine.run_jobs()] == ["done"]
        assert engine.drop(next(iter(engine.list())).id) == 1
        assert engine.status().documents == 3


def test_the_address_of_a_pooler_is_checked(postgres: str) -> None:
    with pytest.raises(SettingsError, match=r"store\.pooler is not the address"):
        Engine.open(postgres, embedder="hashed", settings=through("bouncer:6432"))
    nowhere = through("postgresql://nobody:secret@127.0.0.1:1/docs")
    with pytest.raises(DriverFailed, match=r"store\.pooler, .* cannot be reached") as caught:
        Engine.open(postgres, embedder="hashed", settings=nowhere)
    assert "secret" not in str(caught.value)
    with pytest.raises(SettingsError, match=r"store\.pooler: .* cannot be read") as unreadable:
        Engine.open(postgres, embedder="hashed", settings=through("postgresql://nobody:sec/ret@host:1/docs"))
    assert "sec" not in str(unreadable.value)


def test_a_pooler_before_another_database_is_refused(
    postgres: str, postgres_database: Callable[[str], str], tmp_path: Path
) -> None:
    with Engine.open(postgres, embedder="hashed") as engine:
        engine.add(write_pages(tmp_path / "gauge", "gauge"))
    copied, empty = postgres_database(urlsplit(postgres).path[1:]), postgres_database("template0")
    for other in (copied, empty):  # one has the same collections, the other has no tables
        secret = f"{other}{'&' if '?' in other else '?'}password=secret"
        with pytest.raises(SettingsError, match=r"store\.pooler, .*, leads to another database") as caught:
            Engine.open(postgres, embedder="hashed", settings=through(secret))
        assert "secret" not in str(caught.value)
    with Engine.open(copied, embedder="hashed") as engine:
        assert engine.status().documents == 4


@pytest.fixture
def pooler(postgres_server: str, postgres: str) -> Iterator[str]:
    """The address of the database of the test through PgBouncer."""
    with started_pooler(postgres_server) as url:
        yield find_database(url, postgres)


@pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")
def test_collections_share_two_sessions_and_each_sees_its_own(postgres: str, pooler: str, tmp_path: Path) -> None:
    words = ("gauge", "kettle", "ladder")
    engines = [Engine.open(postgres, collection=word, embedder="hashed", settings=through(pooler)) for word in words]
    for engine, word in zip(engines, words, strict=True):
        engine.add(write_pages(tmp_path / word, word))

    def ask(turn: int) -> set[str]:
        found = engines[turn % 3].search("read every day", k=10, strategy=("lexical", "hybrid")[turn % 2])
        return {hit.document.title.split()[0] for hit in found}

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(60))) == [{words[turn % 3]} for turn in range(60)]
    for engine in engines:
        engine.close()
