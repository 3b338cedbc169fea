"""What a change of a thread or a window reads does not grow with the thread, on every store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clew import Engine, Message, Settings
from clew.drivers.store.backend import BLOCK, Columns, Select
from clew.drivers.store.lance.snapshot import LanceSnapshot
from clew.drivers.store.postgres.rows import PostgresSnapshot
from clew.drivers.store.sqlite.rows import SqliteSnapshot
from tests.engine.chosen import OpenEngine

START = datetime(2026, 5, 1, tzinfo=UTC)
SCANNED = Settings(store=replace(Settings().store, exact_below=0))
SHORT, LONG = 300, 300 + 21 * 128  # the last block of both is equally full


def say(number: int, *, text: str = "the lamp on the quay is out again", parent: int | None = None) -> Message:
    """A message that answers the one before it, so that the chain of the last is the whole thread."""
    answered = number - 1 if parent is None else parent
    word = " harbour" if number % 100 == 50 else ""
    at = START + timedelta(minutes=number)
    return Message(f"{number}: {text}{word}", "ana", at, f"m{number}", "ops", f"m{answered}" if number else None)


@contextmanager
def count_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Select, int]]]:
    """The reads of rows, and how many each gave."""
    reads: list[tuple[Select, int]] = []
    with monkeypatch.context() as patched:
        for kind in (SqliteSnapshot, PostgresSnapshot, LanceSnapshot):
            patched.setattr(kind, "find", _counted(kind.find, reads))
        yield reads


def _counted(find: Callable[..., list[Columns]], reads: list[tuple[Select, int]]) -> Callable[..., list[Columns]]:
    def counted(snapshot: object, wanted: Select, columns: object) -> list[Columns]:
        found = find(snapshot, wanted, columns)
        reads.append((wanted, len(found)))
        return found

    return counted


CALLS: dict[str, Callable[[Engine, int], object]] = {
    "edit": lambda engine, size: engine.add_messages([say(size // 3, text="the lamp is mended")]),
    "drop": lambda engine, size: engine.drop_messages(f"m{size // 2}"),
    "new": lambda engine, size: engine.add_messages([say(size)]),
    "window": lambda engine, size: engine.window("ops", "harbour", tokens=300, now=START + timedelta(minutes=size)),
}


def measure_reads(engine: Engine, size: int, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The reads of a call, and their rows without the sizes of blocks, of which a thread has one for 128 messages."""
    with count_reads(monkeypatch) as reads:
        CALLS[name](engine, size)
    return len(reads), sum(rows for wanted, rows in reads if wanted.kind != BLOCK)


def check_reads(open_one: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = open_one("short"), open_one("long")
    short.add_messages([say(number) for number in range(SHORT)])
    long.add_messages([say(number) for number in range(LONG)])
    for name in CALLS:
        few = measure_reads(short, SHORT, name, monkeypatch)
        many = measure_reads(long, LONG, name, monkeypatch)
        spare = 2 if name == "window" else 1.1  # what is near the hits of the shorter one overlaps
        assert many[0] <= few[0] * spare + 2, (name, few, many)
        assert many[1] <= few[1] * spare, (name, few, many)


@pytest.mark.slow
def test_no_more_is_read_of_a_longer_thread(open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    check_reads(lambda name: open_engine(embedder="hashed", collection=name), monkeypatch)


@pytest.mark.slow
def test_no_more_is_read_of_a_longer_thread_in_lance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Engine] = []

    def open_one(name: str) -> Engine:
        opened.append(Engine.open(f"lance://{tmp_path}/{name}", embedder="hashed", settings=SCANNED))
        return opened[-1]

    check_reads(open_one, monkeypatch)
    for engine in opened:
        engine.close()
