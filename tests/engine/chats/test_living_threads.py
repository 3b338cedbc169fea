"""Conversations that live: messages come in any order, are edited, corrected and dropped, by several at once."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Filter, Message, Settings
from clew.core.protocols import Role
from clew.core.settings import ThreadConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.index.chunk.messages import chunk_messages
from tests.engine.chosen import OpenEngine

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
FLAT = Settings(threads=ThreadConfig(untangle=False))
EXTRACTED = replace(FLAT, ingestion=replace(FLAT.ingestion, summaries="extractive"))
SOAK = bool(os.environ.get("CLEW_SOAK"))


def said(number: int, text: str, **given: Any) -> Message:
    at = START + timedelta(minutes=number)
    return Message(text, **{"id": f"m{number}", "channel": "yard", "author": "Ann", "at": at, **given})


def list_parents(engine: Engine, uri: str) -> list[tuple[str, str | None, bool]]:
    """Each message of a thread with the one that it answers and whether that was guessed."""
    sections = engine.read(uri).sections
    return [(s.id, None if s.parent is None else sections[s.parent].id, s.guessed) for s in sections]


def check_collection(engine: Engine) -> dict[str, str]:
    """The texts of all messages by id, after a check that all that is stored of them fits together."""
    texts: dict[str, str] = {}
    store = engine.opened.store
    for record in engine.list():
        document = store.document(record.id)
        assert [s.start for s in document.sections] == [0, *(s.end for s in document.sections[:-1])]
        assert document.sections[-1].end == len(document.text) == record.chars
        chunks = store.chunks(record.id)
        assert [c.index for c in chunks] == list(range(record.chunks))
        for chunk in chunks:
            assert chunk.text == document.text[chunk.start : chunk.end]
        assert store.chunks_by_id([c.id for c in chunks]) == {c.id: c for c in chunks}
        settings = engine.opened.settings
        fresh = chunk_messages(
            document,
            range(len(document.sections)),
            config=settings.ingestion,
            threads=settings.threads,
            count=engine.opened.embedder.count,
        )
        assert chunks == fresh, "another chunk than that of the whole thread"
        for section in document.sections:
            assert section.id not in texts, "a message in two threads"
            texts[section.id] = document.text[section.start : section.end].strip()
        assert {c.meta["message"] for c in chunks} == {s.id for s in document.sections}
    return texts


class Counted(HashedEmbedder):
    """Counts the texts that it embeds."""

    texts = 0

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        self.texts += len(texts)
        return super().embed(texts, role=role)


# -- a reply that comes before what it answers


def test_a_reply_that_came_before_its_parent_joins_it_when_it_comes(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(2, "Grease it.", reply_to="m1")])
    engine.add_messages(
        [said(3, "With tallow.", reply_to="m2"), said(4, "Oil is better for an old winch.", reply_to="m1")]
    )
    assert len(list(engine.list())) == 1
    engine.add_messages([said(1, "The winch squeaks.")])
    (record,) = engine.list()
    expected = [("m1", None, False), ("m2", "m1", False), ("m3", "m2", False), ("m4", "m1", False)]
    assert list_parents(engine, record.id) == expected
    assert record.title == "#yard: The winch squeaks."
    assert "The winch squeaks." in engine.opened.store.chunks_by_id(["m4_chunk_0"])["m4_chunk_0"].context
    assert len(check_collection(engine)) == 4
    assert engine.add_messages([said(2, "Grease it.", reply_to="m1")]).skipped == 1


def test_a_thread_that_waits_moves_into_that_of_its_parent(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks.")])
    engine.add_messages([said(3, "With tallow.", reply_to="m2"), said(4, "Done.", reply_to="m3")])
    assert len(list(engine.list())) == 2
    engine.add_messages([said(2, "Grease it.", reply_to="m1")])
    (record,) = engine.list()
    expected = [("m1", None, False), ("m2", "m1", False), ("m3", "m2", False), ("m4", "m3", False)]
    assert list_parents(engine, record.id) == expected
    assert len(check_collection(engine)) == 4
    assert {hit.chunk.doc_id for hit in engine.search("tallow", k=5)} == {record.id}


def test_what_waits_in_an_export_joins_the_message_that_is_sent_later(open_engine: OpenEngine, tmp_path: Path) -> None:
    engine, place = open_engine(embedder="hashed", settings=FLAT), tmp_path / "yard.jsonl"
    row = {"channel": "yard", "author": "Bo", "text": "Grease it.", "id": "m2", "reply_to": "m1"}
    place.write_text(json.dumps({**row, "at": START.isoformat()}) + "\n")
    engine.add(place)
    engine.add_messages([said(1, "The winch squeaks.")])
    (record,) = engine.list()
    assert list_parents(engine, record.id) == [("m1", None, False), ("m2", "m1", False)]


def test_a_message_that_waits_still_does_after_export_and_restore(open_engine: OpenEngine, tmp_path: Path) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(2, "Grease it.", reply_to="m1")])
    engine.export(tmp_path / "bundle")
    other = open_engine(embedder="hashed", settings=FLAT)
    other.restore(tmp_path / "bundle")
    other.add_messages([said(1, "The winch squeaks.")])
    (record,) = other.list()
    assert list_parents(other, record.id) == [("m1", None, False), ("m2", "m1", False)]


# -- corrections


@pytest.mark.parametrize("correction", [{"author": "Bo"}, {"at": START + timedelta(days=3)}])
def test_a_corrected_author_or_time_is_a_change(open_engine: OpenEngine, correction: dict[str, Any]) -> None:
    counting = Counted()
    engine = open_engine(embedder=counting, settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1")])
    counting.texts = 0
    report = engine.add_messages([said(1, "The winch squeaks.", **correction)])
    assert (report.changed, report.skipped, counting.texts) == (("m1",), 0, 1)
    section = engine.read("yard/m1").sections[0]
    hit = engine.search("winch", k=1)[0].chunk
    for name, value in correction.items():
        assert getattr(section, name) == value
        assert (hit.at if name == "at" else hit.meta[name]) == value
    assert engine.add_messages([said(1, "The winch squeaks.", **correction)]).skipped == 1


def test_a_corrected_reply_moves_a_message_and_its_answers(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Lunch?"), said(3, "Beans.", reply_to="m1")])
    engine.add_messages([said(4, "Beans and soup again, like Monday?", reply_to="m3")])
    engine.add_messages([said(5, "Grease it.", reply_to="m1")])
    report = engine.add_messages([said(3, "Beans.", reply_to="m2")])
    assert report.changed == ("m3",)
    assert list_parents(engine, "yard/m1") == [("m1", None, False), ("m5", "m1", False)]
    assert list_parents(engine, "yard/m2") == [("m2", None, False), ("m3", "m2", False), ("m4", "m3", False)]
    context = engine.opened.store.chunks_by_id(["m4_chunk_0"])["m4_chunk_0"].context
    assert "Lunch?" in context
    assert "winch" not in context
    assert len(check_collection(engine)) == 5
    assert engine.add_messages([said(5, "Grease it.", reply_to="m2"), said(1, "The winch!")]).changed == ("m5", "m1")
    assert [record.uri for record in engine.list()] == ["yard/m1", "yard/m2"]
    engine.add_messages([said(1, "The winch!", reply_to="m4")])  # the last of its thread: the thread goes
    assert [record.uri for record in engine.list()] == ["yard/m2"]
    assert len(check_collection(engine)) == 5


def test_a_reply_that_is_corrected_to_what_has_not_come_waits_for_it(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks."), said(3, "Beans.", reply_to="m1")])
    assert engine.add_messages([said(3, "Beans.", reply_to="m2")]).changed == ("m3",)
    assert len(list(engine.list())) == 2
    engine.add_messages([said(2, "Lunch?")])
    assert list_parents(engine, "yard/m1") == [("m1", None, False)]
    assert list_parents(engine, "yard/m3") == [("m2", None, False), ("m3", "m2", False)]


def test_messages_never_answer_each_other_in_a_circle(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1")])
    assert engine.add_messages([said(1, "The winch squeaks.", reply_to="m2")]).skipped == 1
    assert list_parents(engine, "yard/m1") == [("m1", None, False), ("m2", "m1", False)]


def test_a_reply_that_is_marked_beats_one_that_was_guessed(engine: Engine) -> None:
    flat = [said(1, "How do I grease the winch?"), said(2, "Has anyone seen the blue tarp?", author="Cy")]
    engine.add_messages([*flat, said(3, "Ann: through the nipple, twice", author="Bo")])
    assert list_parents(engine, "yard/m1") == [("m1", None, False), ("m3", "m1", True)]
    again = [said(3, "Ann: through the nipple, twice", author="Bo", reply_to="m1")]
    assert engine.add_messages(again).changed == ("m3",)
    assert list_parents(engine, "yard/m1") == [("m1", None, False), ("m3", "m1", False)]
    assert engine.add_messages(again).skipped == 1
    engine.add_messages([said(3, "Ann: through the nipple, twice", author="Bo", reply_to="m2")])
    assert list_parents(engine, "yard/m2") == [("m2", None, False), ("m3", "m2", False)]


# -- what dies with the text


@pytest.mark.parametrize("change", ["edit", "drop", "append"])
def test_a_summary_dies_with_the_text_that_it_was_made_of(open_engine: OpenEngine, change: str) -> None:
    engine = open_engine(embedder="hashed", settings=FLAT)
    engine.add_messages([said(1, "The winch squeaks."), said(2, "The vault code is 9041.", reply_to="m1")])
    store = engine.opened.store
    (record,) = engine.list()
    vector = engine.opened.embedder.embed(["The vault code is 9041."], role="passage")[0]
    store.summarise(record.id, "The vault code is 9041.", vector)
    assert store.search_documents(vector, 1)
    if change == "edit":
        engine.add_messages([said(2, "The vault is open.")])
    elif change == "drop":
        engine.drop_messages("m2")
    else:
        engine.add_messages([said(3, "Grease it.", reply_to="m1")])
    (now,) = engine.list()
    assert (now.summary, store.search_documents(vector, 1)) == ("", [])
    if change != "append":
        assert "9041" not in str(now)
        assert all("9041" not in chunk.index_text for chunk in store.chunks(record.id))
    extracting = open_engine(embedder="hashed", settings=EXTRACTED, collection=engine.opened.collection)
    assert extracting.backfill().changed


# -- long threads


def test_an_edit_and_a_drop_embed_nothing_but_the_edited_message(open_engine: OpenEngine) -> None:
    counting = Counted()
    engine = open_engine(embedder=counting, settings=FLAT)
    engine.add_messages(
        [said(n, f"Message {n} of the thread.", reply_to=f"m{n - 1}" if n else None) for n in range(300)]
    )
    counting.texts = 0
    engine.add_messages([said(150, "Message one hundred and fifty.")])
    assert counting.texts == 1
    assert engine.drop_messages("m20", "m150") == 2
    assert counting.texts == 1  # what was said before a message is indexed with it and not embedded
    texts = check_collection(engine)
    assert len(texts) == 298
    sections = engine.read("yard/m0").sections
    assert [s.parent for s in sections] == [None, *range(297)]
    hit = engine.search("Message 299", k=1, strategy="lexical")[0].chunk
    assert (hit.index, hit.total) == (297, 298)
    assert engine.read("yard/m0").text[hit.start : hit.end] == hit.text


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.slow
def test_random_histories_keep_every_message_once(open_engine: OpenEngine) -> None:
    for seed in range(100 if SOAK else 2):
        rng = random.Random(seed)
        engine = open_engine(embedder="hashed", settings=FLAT)
        talk = {
            f"m{n}": said(n, f"word{n} of {seed}", reply_to=f"m{rng.randrange(24)}" if n % 4 else None)
            for n in range(24)
        }
        stored: dict[str, str] = {}
        for _ in range(30):
            kind = rng.choice(["add", "add", "edit", "drop", "answer"])
            if kind == "add" or not stored:
                ids = rng.sample(sorted(talk), 2)
                engine.add_messages([talk[each] for each in ids])
                stored |= {each: talk[each].text for each in ids}
            else:
                chosen = rng.choice(sorted(stored))
                number = int(chosen[1:])
                if kind == "drop":
                    engine.drop_messages(chosen)
                    del stored[chosen]
                elif kind == "edit":
                    stored[chosen] = f"word{number} edited {rng.randrange(9)}"
                    engine.add_messages([said(number, stored[chosen])])
                else:
                    parent = f"m{rng.randrange(24)}"
                    engine.add_messages([said(number, stored[chosen], reply_to=parent)])
            assert check_collection(engine) == stored


# -- several at once


def live(path: str, collection: str, name: str, seed: int, steps: int) -> None:
    """Adds messages to one thread, edits some of them and drops others; prints what must be there in the end."""
    rng, mine = random.Random(f"{seed} {name}"), dict[str, str]()
    with Engine.open(path, collection=collection, embedder="hashed", settings=FLAT) as engine:
        for n in range(steps):
            kind = rng.choice(["add", "add", "edit", "drop", "shared"])
            if kind == "add" or not mine:
                parent = rng.choice(["root", *mine])
                key = f"{name}{n}"
                mine[key] = f"Message {n} of {name}."
                engine.add_messages([Message(mine[key], author=name, id=key, channel="yard", reply_to=parent)])
            elif kind == "edit":
                key = rng.choice(sorted(mine))
                mine[key] = f"Message {n} of {name}, edited {'again ' * rng.randrange(4)}."
                engine.add_messages([Message(mine[key], author=name, id=key, channel="yard")])
            elif kind == "drop":
                key = rng.choice(sorted(mine))
                engine.drop_messages(key)
                del mine[key]
            else:  # all edit the message that all others answer
                engine.add_messages([Message(f"The winch squeaks, says {name} at {n}.", id="root", channel="yard")])
    sys.stdout.write(json.dumps(mine))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["folder", "postgres"])
@pytest.mark.slow
def test_several_processes_live_in_one_thread(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = str(tmp_path / "talk") if kind == "folder" else str(request.getfixturevalue("postgres"))
    for seed in range(20 if SOAK else 1):
        collection = f"c{seed}"
        with Engine.open(path, collection=collection, embedder="hashed", settings=FLAT) as engine:
            engine.add_messages([Message("The winch squeaks.", id="root", channel="yard")])
            command = [sys.executable, "-m", "tests.engine.chats.test_living_threads", path, collection]
            others = [
                subprocess.Popen([*command, name, str(seed), "40" if SOAK else "12"], stdout=-1, stderr=-1, text=True)
                for name in "abc"
            ]
            expected: dict[str, str] = {}
            for other in others:
                out, err = other.communicate(timeout=280)
                assert other.returncode == 0, err
                expected |= json.loads(out)
            texts = check_collection(engine)
            assert texts.pop("root").startswith("The winch squeaks")
            assert texts == expected
            assert len(list(engine.list())) == 1


if __name__ == "__main__":
    live(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))


def test_new_labels_of_a_message_take_its_words_from_those_that_follow_it(engine: Engine) -> None:
    a = said(0, "what is new", id="a")
    b = said(1, "zebrafish merger friday", id="b", reply_to="a")
    c = said(2, "lunch at noon in the canteen today", id="c", reply_to="a")
    engine.add_messages([a, b, c])
    staff = engine.within(Filter(access={"staff"}))

    def find(who: Engine) -> set[str]:
        return {hit.chunk.meta["message"] for hit in who.search("zebrafish merger", strategy="lexical")}

    assert find(staff) == {"b", "c"}
    assert engine.add_messages([replace(b, access={"hr"})]).changed == ("b",)
    assert find(staff) == set()
    assert find(engine) == {"b"}
    assert engine.add_messages([b]).skipped == 1  # without labels it keeps those that it has
    assert find(staff) == set()
    engine.add_messages([replace(b, access={"hr", "staff"})])
    assert find(staff) == {"b"}
    engine.drop_messages("b")
    engine.add_messages([b])
    assert "b" in find(staff)
