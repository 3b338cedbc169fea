"""Messages as they are written, where they come in another order, from other channels or from several at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Message, Settings
from clew.core.settings import ThreadConfig

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def said(number: int, text: str, **given: Any) -> Message:
    at = START + timedelta(minutes=number)
    return Message(text, **{"id": f"m{number}", "channel": "yard", "author": "Ann", "at": at, **given})


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(threads=ThreadConfig(untangle=False))) as engine:
        yield engine


def test_an_edit_does_not_change_what_a_message_answers() -> None:
    flat = (said(1, "How do I grease the winch?"), said(2, "Ann: through the nipple, twice", author="Bo"))
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(flat)
        assert [section.parent for section in engine.read("yard/m1").sections] == [None, 0]
        engine.add_messages([said(2, "Ann: through the nipple, thrice", author="Bo")])
        thread = engine.read("yard/m1")
        assert "thrice" in thread.text
        assert [section.parent for section in thread.sections] == [None, 0]


@pytest.mark.parametrize("at", [{}, {"at": START}, {"at": None}, {"at": START.replace(tzinfo=None)}])
def test_messages_that_come_together_are_taken_as_they_were_sent(engine: Engine, at: dict[str, Any]) -> None:
    talk = [said(1, "The winch squeaks.", **at), said(2, "Grease it.", reply_to="m1", **at)]
    talk.append(said(3, "Did that.", reply_to="m2", **at))
    report = engine.add_messages(reversed(talk))
    assert sorted(report.added) == ["m1", "m2", "m3"]
    thread = engine.read("yard/m1")
    assert [(section.id, section.parent) for section in thread.sections] == [("m1", None), ("m2", 0), ("m3", 1)]


def test_a_thread_is_called_after_what_its_first_message_says_now(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1")])
    engine.add_messages([said(1, "The crane squeaks.")])
    assert engine.read("yard/m1").title == "#yard: The crane squeaks."


def test_messages_that_answer_each_other_are_stored_all_the_same(engine: Engine) -> None:
    engine.add_messages([said(1, "First", reply_to="m2"), said(2, "Second", reply_to="m1")])
    (record,) = engine.list()
    assert {section.id for section in engine.read(record.id).sections} == {"m1", "m2"}


def test_a_message_does_not_answer_what_was_said_later() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages([said(1, "How do I grease the winch?")])
        engine.add_messages([said(0, "Ann: through the nipple", author="Bo", at=START - timedelta(days=400))])
        assert {record.uri for record in engine.list()} == {"yard/m1", "yard/m0"}


def test_an_id_that_another_channel_has_is_reported_and_overwrites_nothing(engine: Engine) -> None:
    first, second = said(1, "The winch squeaks."), said(1, "The beans are out.", channel="kitchen")
    report = engine.add_messages([first, second, said(2, "Lunch is at noon.", channel="kitchen")])
    assert report.added == ("m1", "m2")
    assert [(failure.source, "kitchen/m1" in failure.reason) for failure in report.failed] == [("m1", True)]
    again = engine.add_messages([second, first])
    assert (again.changed, again.skipped, len(again.failed)) == ((), 1, 1)
    assert engine.read("yard/m1").text.strip() == "The winch squeaks."


@pytest.mark.parametrize("doors", [1, 2])
def test_many_may_write_to_one_thread_at_the_same_time(tmp_path: Path, doors: int) -> None:
    opened = [Engine.open(tmp_path / "talk", embedder="hashed") for _ in range(doors)]
    opened[0].add_messages([said(0, "The winch squeaks.")])

    def write(name: int) -> None:
        for n in range(12):
            engine = opened[name % doors]
            engine.add_messages([said(n, f"It does, {name} {n}", id=f"{name}-{n}", reply_to="m0")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    thread = opened[0].read("yard/m0")
    chunks = opened[0]._store.chunks(thread.id)
    assert len(thread.sections) == len(chunks) == 1 + 4 * 12
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert thread.text[chunk.start : chunk.end] == chunk.text
    for engine in opened:
        engine.close()
