"""Engines on both stores, for tests of what must not depend on the store."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clew import Engine
from tests.engine.chosen import OpenEngine

STORES = ("folder", "postgres")


@pytest.fixture(params=STORES)
def open_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenEngine]:
    """Opens an engine on a store of each kind, every time in a new collection; all are closed in the end."""
    path = tmp_path / "team.clew" if request.param == "folder" else request.getfixturevalue("postgres")
    opened: list[Engine] = []
    numbers = count()

    def open_(**options: Any) -> Engine:
        given = {"collection": f"c{next(numbers)}", **options}
        opened.append(Engine.open(path, **given))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    return open_engine(embedder="hashed")
