"""Damage to the files of a collection: every one of them is an error of Clew's own, or changes nothing."""

import random
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clew import ClewError, CollectionDamaged, Engine, Filter, Message, Settings
from clew.core.types import Document
from tests.soak import choose_runs

SHARD = Settings(store=replace(Settings().store, exact_below=0))
QUERIES = ("vault keys", "rota of the week", "w7 w12 w30", "badger", "w99")
WHOLE = "whole"


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in memory where there is such a thing."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def make_documents() -> list[Document]:
    rng = random.Random(3)
    words = [f"w{number}" for number in range(120)] + ["vault", "keys", "rota", "week", "badger"]
    return [
        Document(f"d{number}", ". ".join(" ".join(rng.choices(words, k=40)) for _ in range(6)), ())
        for number in range(30)
    ]


def fill(root: Path, settings: Settings) -> None:
    """Fills a collection, and leaves beside it a copy as a killed process leaves it, with changes in the log alone."""
    with Engine.open(root / "closed", embedder="hashed:32", settings=settings) as engine:
        engine.add_documents(make_documents()[:20])
        start = datetime(2024, 5, 1, tzinfo=UTC)
        engine.add_messages(
            [
                Message(f"the rota of week {n}, says w{n}", "ann", start + timedelta(minutes=n), f"m{n}", "ops")
                for n in range(12)
            ]
        )
        engine.add_documents(make_documents()[20:])
        engine.drop("d3")
        engine.search("vault")
    with Engine.open(root / "closed", embedder="hashed:32", settings=settings) as engine:
        engine.drop("d4")
        engine.search("vault")
        shutil.copytree(root / "closed", root / "killed")
        engine.add_documents([make_documents()[4]])
        shutil.copytree(root / "closed", root / "killed again")
        engine.search("vault")


def probe(root: Path, settings: Settings) -> list[Any]:
    """All that a reader can see of a collection."""
    with Engine.open(root, embedder="hashed:32", settings=settings, create=False) as engine:
        seen: list[Any] = []
        for query in QUERIES:
            for strategy in ("lexical", "semantic", "hybrid"):
                hits = engine.search(query, k=8, strategy=strategy)
                seen.append([(hit.chunk.id, hit.chunk.text, hit.chunk.start, round(hit.score, 5)) for hit in hits])
        records = list(engine.list())
        seen.append([(record.id, record.title, record.chunks) for record in records])
        seen += [engine.read(record.id) for record in records]
        return seen


def examine(root: Path, settings: Settings) -> None:
    """Runs what meets damaged rows: a list within a filter, an examination and a repair."""
    with (
        suppress(ClewError),
        Engine.open(root, embedder="hashed:32", settings=settings, create=False) as engine,
    ):
        for call in (
            lambda: list(engine.within(Filter(channels={"ops"})).list()),
            lambda: list(engine.list()),
            lambda: engine.doctor(full=True),
            lambda: engine.doctor(repair=True),
        ):
            with suppress(ClewError):
                call()


def damage(rng: random.Random, file: Path) -> str:
    """Damages a file in one way or another; which."""
    data = bytearray(file.read_bytes())
    kind = rng.choice(("flip", "flip", "flip", "zero", "truncate", "garbage"))
    at = rng.randrange(len(data))
    if kind == "flip":
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "zero":
        size = rng.choice((512, 4096))
        data[at : at + size] = bytes(min(size, len(data) - at))
    elif kind == "truncate":
        del data[at:]
    else:
        data[at : at + 64] = rng.randbytes(min(64, len(data) - at))
    file.write_bytes(bytes(data))
    return kind


def pick_file(rng: random.Random, root: Path) -> Path:
    """A file of the database, its log or the index that holds something."""
    folder = root / "default"
    choices = [[folder / "clew.db"], [folder / "clew.db-wal"], sorted((folder / "index").rglob("*"))]
    files = [[each for each in some if each.is_file() and each.stat().st_size] for some in choices]
    return rng.choice(rng.choice([some for some in files if some]))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("settings", [Settings(), SHARD], ids=["exact", "shard"])
@pytest.mark.slow
def test_no_damage_is_silent_or_raises_anything_but_an_error_of_clew(place: Path, settings: Settings) -> None:
    root = place / ("shard" if settings is SHARD else "exact")
    root.mkdir()
    fill(root, settings)
    states = ("closed", "killed", "killed again")
    wanted = {}
    for state in states:
        shutil.copytree(root / state, root / "copy")
        wanted[state] = probe(root / "copy", settings)
        shutil.rmtree(root / "copy")
    rng, outcomes = random.Random(11), Counter[str]()
    for _ in range(choose_runs(16, 150)):
        state = rng.choice(states)
        shutil.copytree(root / state, root / "copy")
        file = pick_file(rng, root / "copy")
        kind = damage(rng, file)
        name = f"{file.name.partition('-')[0] if 'index' in str(file) else file.name} {kind} {state}"
        try:
            found = probe(root / "copy", settings)
            assert found == wanted[state], f"{name}: other results, and no error"
            outcomes["same"] += 1
        except ClewError:
            outcomes["error"] += 1
        examine(root / "copy", settings)
        shutil.rmtree(root / "copy")
    sys.stdout.write(f"\ndamages, {root.name}: {dict(outcomes)}, 0 silent, 0 bare tracebacks\n")
    assert outcomes["error"]


@pytest.mark.parametrize("settings", [Settings(), SHARD], ids=["exact", "shard"])
def test_a_damaged_record_of_a_message_is_named_by_a_search(tmp_path: Path, settings: Settings) -> None:
    fill(tmp_path, settings)
    with closing(sqlite3.connect(tmp_path / "closed" / "default" / "clew.db")) as db, db:
        db.execute("UPDATE chunks SET meta = replace(meta, '\"channel\"', '*channel\"') WHERE piece IS NOT NULL")
    with (
        Engine.open(tmp_path / "closed", embedder="hashed:32", settings=settings) as engine,
        pytest.raises(CollectionDamaged, match=r"message|chunk"),
    ):
        engine.search("rota of the week")
