"""Threads do not depend on their history: random ones end in the reply links and threads of a fresh collection."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew import Engine, Message, Settings
from clew.core.settings import ThreadConfig
from tests.engine.chats.test_living_threads import check_collection
from tests.engine.chosen import OpenEngine
from tests.soak import choose_runs

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
FLAT = Settings(threads=ThreadConfig(untangle=False))
Link = tuple[str | None, str | None]


def said(name: str, reply_to: str | None = None, minute: int = 0) -> Message:
    at = START + timedelta(minutes=minute)
    return Message(f"text of {name}", author="Ann", at=at, id=name, channel="ops", reply_to=reply_to)


def list_links(engine: Engine) -> dict[str, Link]:
    """Each message with the one that it answers, if its author said so, and the missing one that it waits for."""
    links: dict[str, Link] = {}
    for record in engine.list():
        sections = engine.opened.store.document(record.id).sections
        for section in sections:
            is_marked = section.parent is not None and not section.guessed
            parent = sections[section.parent].id if is_marked and section.parent is not None else None
            links[section.id] = (parent, section.awaits)
    return links


def list_threads(engine: Engine) -> set[frozenset[str]]:
    """The ids of the messages of each thread."""
    return {frozenset(s.id for s in engine.opened.store.document(record.id).sections) for record in engine.list()}


def make_batches(random: Random, *, circles: bool) -> Iterator[list[Message]]:
    """Messages that come, change their replies and wait; without circles each answers one of a greater number."""
    count = random.choice([6, 9, 14])
    for _ in range(random.randint(3, 9)):
        batch = []
        for number in random.sample(range(count), random.randint(1, 4)):
            others = [each for each in range(count + 2) if each > number or circles]
            reply = f"m{random.choice(others)}" if random.random() < 0.75 else None
            batch.append(said(f"m{number}", reply, random.randrange(300)))
        yield batch


def test_a_message_that_comes_with_a_change_of_what_waits_for_it_is_stored(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said("m0", "m2", 77)])
    report = engine.add_messages([said("m2", "m6", 9), said("m6", None, 181), said("m0", "m7", 296)])
    assert (set(report.added), report.changed) == ({"m2", "m6"}, ("m0",))
    assert list_links(engine) == {"m6": (None, None), "m2": ("m6", None), "m0": (None, "m7")}
    assert list_threads(engine) == {frozenset({"m2", "m6"}), frozenset({"m0"})}


def test_a_message_leaves_the_thread_of_its_name_when_its_reply_changes(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    for message in (said("m0", "m2"), said("m2", "m6", 1), said("m6", None, 2), said("m0", "m7", 3)):
        engine.add_messages([message])
    assert list_threads(engine) == {frozenset({"m2", "m6"}), frozenset({"m0"})}
    assert {record.uri for record in engine.list()} == {"ops/m0", "ops/m0~2"}
    assert [section.id for section in engine.read("ops/m0~2").sections] == ["m0"]
    engine.add_messages([said("m7", "m6", 4)])
    assert list_threads(engine) == {frozenset({"m0", "m2", "m6", "m7"})}


def test_a_reply_to_a_later_message_of_the_same_thread_follows_it(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said("a"), said("b", "a", 1), said("c", "b", 2), said("d", "a", 3)])
    engine.add_messages([said("b", "d", 1)])
    assert [section.id for section in engine.read("ops/a").sections] == ["a", "d", "b", "c"]
    assert list_links(engine) == {"a": (None, None), "d": ("a", None), "b": ("d", None), "c": ("b", None)}


def test_the_answers_to_a_dropped_message_wait_for_what_it_waited_for(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said("b", "a", 1), said("c", "b", 2)])
    engine.drop_messages("b")
    engine.add_messages([said("a")])
    assert list_links(engine) == {"a": (None, None), "c": ("a", None)}


@pytest.mark.soak
@pytest.mark.parametrize("drops", [False, True], ids=["changes", "drops"])
def test_threads_are_those_of_a_fresh_collection_whatever_came_before(open_engine: OpenEngine, drops: bool) -> None:
    for seed in range(choose_runs(3, 100)):
        random = Random(f"{seed} {drops}")
        engine = open_engine(embedder="hashed", settings=FLAT)
        final: dict[str, Message] = {}
        for batch in make_batches(random, circles=False):
            engine.add_messages(batch)
            for message in batch:
                before = final.get(message.id, message)
                final[message.id] = replace(message, reply_to=message.reply_to or before.reply_to)
            if drops and random.random() < 0.4:
                gone = final.pop(random.choice(sorted(final)))
                engine.drop_messages(gone.id)
                for message in [each for each in final.values() if each.reply_to == gone.id]:
                    final[message.id] = replace(message, reply_to=gone.reply_to)
        fresh = open_engine(embedder="hashed", settings=FLAT)
        fresh.add_messages(final.values())
        assert list_links(engine) == list_links(fresh), seed
        if not drops:  # the answers to a dropped first message stay together
            assert list_threads(engine) == list_threads(fresh), seed
        assert check_collection(engine) == check_collection(fresh), seed


@pytest.mark.soak
def test_messages_that_answer_each_other_in_circles_are_all_stored(open_engine: OpenEngine) -> None:
    for seed in range(choose_runs(2, 100)):
        random = Random(seed)
        engine = open_engine(embedder="hashed", settings=FLAT)
        final: dict[str, str] = {}
        for batch in make_batches(random, circles=True):
            assert not engine.add_messages(batch).failed
            final |= {message.id: message.text for message in batch}
            if random.random() < 0.3:
                engine.drop_messages(gone := random.choice(sorted(final)))
                del final[gone]
            assert check_collection(engine) == final, seed


def test_a_later_version_in_one_call_or_export_keeps_what_it_does_not_state(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "text": "The winch squeaks.", "author": "Ann", "at": START.isoformat()},
        {"id": "b", "text": "Grease.", "author": "Bo", "at": START.isoformat(), "reply_to": "a", "access": ["staff"]},
        {"id": "b", "text": "Grease it.", "author": "Cy"},
        {"id": "b", "text": "Grease it well."},
    ]
    place = tmp_path / "ops.jsonl"
    place.write_text("".join(json.dumps({**row, "channel": "ops"}) + "\n" for row in rows))
    exported, sent = (open_engine(embedder="hashed", settings=FLAT) for _ in range(2))
    exported.add(place)
    first = Message("Grease.", author="Bo", at=START, id="b", channel="ops", reply_to="a", access={"staff"})
    again = [Message(row["text"], author=row.get("author", ""), id="b", channel="ops") for row in rows[2:]]
    sent.add_messages([replace(said("a"), text="The winch squeaks."), first, *again])
    for engine in (exported, sent):
        document = engine.opened.store.document(next(iter(engine.list())).id)
        section = document.sections[1]
        assert list_links(engine) == {"a": (None, None), "b": ("a", None)}
        assert (section.author, section.at, section.access) == ("Cy", START, {"staff"})
        assert document.text.endswith("Grease it well.\n\n")
