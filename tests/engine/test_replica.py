"""A read replica of the server: it answers searches, and the server does while it cannot be used."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clew import Engine, Settings, SettingsError, StoreConfig

DEFAULTS = Settings()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text("# Keys\n\nDan rotates the vault key on Monday.")
    return file


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
