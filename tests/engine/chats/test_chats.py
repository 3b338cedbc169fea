"""Chats through the engine and the command line: exports become threads, and messages join them as they are written."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Engine, Filter, Message, Settings, SettingsError
from clew.core.errors import DriverFailed
from clew.core.settings import IngestionConfig, ThreadConfig
from clew.core.types import Document, Matrix
from clew.drivers.embed.hashed import HashedEmbedder

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
EXPORT = Path(__file__).parents[3] / "examples" / "chat"


def said(number: int, text: str, **given: Any) -> Message:
    at = START + timedelta(minutes=number)
    return Message(text, **{"id": f"m{number}", "channel": "yard", "author": "Ann", "at": at, **given})


TALK = (
    said(1, "The winch of crane 4 squeaks again."),
    said(2, "Did you grease it?", author="Bo", reply_to="m1"),
    said(3, "Twice. It is the bearing of the old drum.", reply_to="m2"),
    said(4, "Lunch is at noon today.", author="Cy", reply_to=None),
)


@pytest.fixture
def engine() -> Any:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(threads=ThreadConfig(untangle=False))) as engine:
        yield engine


class Counting(HashedEmbedder):
    """The hashed embedder, which keeps what it was asked and fails at one word."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, role: Any) -> Matrix:
        if any("unspeakable" in text for text in texts):
            raise DriverFailed("the model is not available; try again")
        self.asked += texts
        return np.asarray(super().embed(texts, role=role))


# -- messages as they are written


def test_replies_make_threads_and_a_reply_to_a_reply_belongs_to_the_first(engine: Engine) -> None:
    report = engine.add_messages(TALK)
    assert report.added == ("m1", "m2", "m3", "m4")
    threads = {record.uri: engine.read(record.id) for record in engine.list()}
    assert set(threads) == {"yard/m1", "yard/m4"}
    thread = threads["yard/m1"]
    assert (thread.kind, thread.meta["channel"]) == ("thread", "yard")
    assert [(section.id, section.author, section.parent) for section in thread.sections] == [
        ("m1", "Ann", None),
        ("m2", "Bo", 0),
        ("m3", "Ann", 1),
    ]
    assert thread.sections[0].start == 0
    assert thread.sections[-1].end == len(thread.text)


def test_one_by_one_is_the_same_as_at_once(engine: Engine) -> None:
    engine.add_messages(TALK)
    with Engine.open(":memory:", embedder="hashed", settings=Settings(threads=ThreadConfig(untangle=False))) as other:
        for message in TALK:
            other.add_messages([message])
        assert [record.uri for record in other.list()] == [record.uri for record in engine.list()]
        for record in engine.list():
            mine, theirs = engine.read(record.id), other.read(record.id)
            assert (mine.text, mine.sections) == (theirs.text, theirs.sections)
            assert engine.opened.store.chunks(record.id) == other.opened.store.chunks(record.id)
        for query in ("squeaks winch", "lunch", "bearing grease"):
            assert [(h.chunk.id, round(h.score, 6)) for h in engine.search(query)] == [
                (h.chunk.id, round(h.score, 6)) for h in other.search(query)
            ]


def test_a_message_is_a_chunk_that_says_what_it_answers_before_itself(engine: Engine) -> None:
    engine.add_messages(TALK)
    hit = engine.search("bearing", k=1)[0]
    assert hit.chunk.id == "m3_chunk_0"
    assert hit.chunk.text == "Twice. It is the bearing of the old drum."
    assert hit.chunk.meta == {"message": "m3", "channel": "yard", "author": "Ann", "reply_to": "m2"}
    assert hit.chunk.at == TALK[2].at
    assert "Did you grease it?" in hit.chunk.context
    assert "winch of crane 4" in hit.chunk.context


def test_a_new_message_costs_one_embedding() -> None:
    embedder = Counting()
    with Engine.open(":memory:", embedder=embedder) as engine:
        engine.add_messages(TALK)
        before = len(embedder.asked)
        assert before == 4
        report = engine.add_messages([said(5, "Then order a new bearing.", author="Bo", reply_to="m3")])
        assert (report.embedded, len(embedder.asked) - before) == (1, 1)
        assert engine.add_messages(TALK).skipped == 4
        assert len(embedder.asked) - before == 1


def test_an_edited_message_replaces_itself(engine: Engine) -> None:
    engine.add_messages(TALK)
    report = engine.add_messages([said(2, "Did you oil the pulley?", author="Bo", reply_to="m1")])
    assert (report.added, report.changed, report.skipped) == ((), ("m2",), 0)
    thread = engine.read("yard/m1")
    assert "Did you oil the pulley?" in thread.text
    assert "grease" not in thread.text
    assert engine.search("pulley", k=1)[0].chunk.id == "m2_chunk_0"
    assert all("grease" not in chunk.index_text for chunk in engine.opened.store.chunks(thread.id))
    for chunk in engine.opened.store.chunks(thread.id):
        assert thread.text[chunk.start : chunk.end] == chunk.text


def test_what_cannot_be_embedded_is_stored_with_its_words() -> None:
    with Engine.open(":memory:", embedder=Counting()) as engine:
        report = engine.add_messages([TALK[0], said(9, "unspeakable", reply_to="m1"), TALK[3]])
        assert (report.added, report.failed, engine.status().pending) == (("m1", "m9", "m4"), (), 1)
        assert [(note.source, "try again" in note.reason) for note in report.noted] == [("m9", True)]
        assert engine.search("winch lunch")[0].chunk.id in ("m1_chunk_0", "m4_chunk_0")
        assert engine.opened.store.search_terms({"unspeak": 1, "unspeakable": 1}, 3)[0].chunk.id == "m9_chunk_0"


def test_messages_must_say_where_they_were_written(engine: Engine) -> None:
    with pytest.raises(SettingsError, match=r"message .* has no channel; set Message\.channel"):
        engine.add_messages([said(1, "lost", channel="")])
    assert engine.add_messages([]).added == ()
    assert engine.add_messages([said(7, "   ")]).skipped == 1
    assert engine.status().chunks == 0


def test_a_long_message_is_cut_and_rebuilt_exactly() -> None:
    text = "\n".join(f"Sentence number {n} of a very long report about the harbour." for n in range(60))
    settings = Settings(ingestion=IngestionConfig(chunk_size=64, chunk_overlap=8))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        engine.add_messages([said(1, text), said(2, "short", reply_to="m1")])
        thread = engine.read("yard/m1")
        parts = [chunk for chunk in engine.opened.store.chunks(thread.id) if chunk.meta["message"] == "m1"]
        assert [chunk.id for chunk in parts] == [f"m1_chunk_{n}" for n in range(len(parts))]
        assert [chunk.meta["chunk_index"] for chunk in parts] == list(range(len(parts)))
        assert {chunk.meta["total_chunks"] for chunk in parts} == {len(parts)}
        assert len(parts) > 3
        rebuilt = " " * len(text)
        for chunk in parts:
            rebuilt = rebuilt[: chunk.start] + chunk.text + rebuilt[chunk.end :]
        assert rebuilt.split() == text.split()  # only white space is between chunks
        assert engine.add_messages([said(1, text)]).skipped == 1


def test_channels_authors_and_times_are_filters(engine: Engine) -> None:
    engine.add_messages([*TALK, said(6, "The winch upstairs is fine.", channel="loft", author="Di")])
    assert {hit.chunk.id for hit in engine.search("winch", where=Filter(channels={"loft"}))} == {"m6_chunk_0"}
    assert {hit.chunk.meta["author"] for hit in engine.search("winch grease", where=Filter(authors={"Bo"}))} == {"Bo"}
    late = Filter(since=START + timedelta(minutes=3))
    assert {hit.chunk.id for hit in engine.search("winch bearing lunch", where=late)} <= {
        "m3_chunk_0",
        "m4_chunk_0",
        "m6_chunk_0",
    }


# -- the settings of threads


def flat() -> list[Message]:
    """Two conversations that cross in a channel where nobody replies by name of the message."""
    lines = [
        ("Ann", "Bo: where is the key of the boat house?"),
        ("Cy", "anyone seen the soup ladle in the galley?"),
        ("Bo", "Ann: the key of the boat house hangs by the door"),
        ("Di", "Cy: the soup ladle is in the sink of the galley"),
        ("Ann", "Bo: thanks, found the key"),
        ("Cy", "Di: thanks, found the ladle"),
    ]
    return [said(n, text, author=author) for n, (author, text) in enumerate(lines)]


def test_a_flat_channel_is_untangled_unless_it_is_not_wanted() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(flat())
        threads = [{section.id for section in engine.read(record.id).sections} for record in engine.list()]
        assert {"m0", "m2", "m4"} in threads
        assert {"m1", "m3", "m5"} in threads
    plain = Settings(threads=ThreadConfig(untangle=False))
    with Engine.open(":memory:", embedder="hashed", settings=plain) as engine:
        engine.add_messages(flat())
        assert engine.status().documents == 6


def test_untangling_live_is_the_same_as_at_once() -> None:
    found = []
    for batches in ([flat()], [[message] for message in flat()]):
        with Engine.open(":memory:", embedder="hashed") as engine:
            for batch in batches:
                engine.add_messages(batch)
            found.append({record.uri: engine.read(record.id).text for record in engine.list()})
    assert found[0] == found[1]


def test_found_links_do_not_reach_over_a_long_silence() -> None:
    for hours, threads in ((5, 1), (13, 2)):
        at = START + timedelta(hours=hours)
        late = said(0, "Ann: the key of the boat house hangs by the door", id="late", author="Bo", at=at)
        with Engine.open(":memory:", embedder="hashed") as engine:
            engine.add_messages([flat()[0], late])
            assert engine.status().documents == threads


def test_how_much_is_said_before_a_message() -> None:
    contexts = {}
    for before in (0, 1, 2):
        settings = Settings(threads=ThreadConfig(untangle=False, before=before))
        with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
            engine.add_messages(TALK)
            contexts[before] = engine.search("bearing", k=1)[0].chunk.context
    assert "grease" not in contexts[0]
    assert "grease" in contexts[1]
    assert "winch" not in contexts[1]
    assert "winch" in contexts[2]


# -- exports


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.slow
def test_an_export_becomes_threads(tmp_path: Path, packed: bool) -> None:
    place = EXPORT
    if packed:
        place = Path(shutil.make_archive(str(tmp_path / "export"), "zip", EXPORT))
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(place)
        assert not report.failed
        assert len(report.added) == engine.status().documents > 100
        assert any("deleted" in note.reason for note in report.noted)
        assert {record.kind for record in engine.list()} == {"thread"}
        again = engine.add(place)
        assert (again.added, again.changed, again.skipped) == ((), (), len(report.added))


def test_a_changed_thread_embeds_only_what_changed(tmp_path: Path) -> None:
    lines = [
        {"text": f"message {n} about the {word}", "author": "Ann", "channel": "yard", "id": f"i{n}", "reply_to": "i0"}
        for n, word in enumerate(("winch", "crane", "rope", "boat", "quay", "buoy", "mast"))
    ]
    del lines[0]["reply_to"]
    file = tmp_path / "talk.jsonl"
    embedder = Counting()
    with Engine.open(":memory:", embedder=embedder, settings=Settings(threads=ThreadConfig(before=0))) as engine:
        file.write_text("\n".join(map(json.dumps, lines)))
        engine.add(file)
        before = len(embedder.asked)
        lines[3]["text"] = "message 3 about the anchor, edited"
        file.write_text("\n".join(map(json.dumps, lines)))
        report = engine.add(file)
        assert (len(report.changed), report.embedded, report.reused) == (1, 1, 6)
        assert len(embedder.asked) - before == 1
        assert engine.search("anchor edited", k=1)[0].chunk.id == "i3_chunk_0"


def test_a_thread_that_a_program_wrote_as_plain_text_is_a_page_of_that_kind(engine: Engine) -> None:
    engine.add_documents([Document("chat", "eve: Soup again?", kind="thread", uri="chat")])
    assert engine.search("soup", k=1)[0].chunk.text == "eve: Soup again?"


def test_a_message_of_a_known_id_replaces_the_first_and_is_noted_so(engine: Engine, tmp_path: Path) -> None:
    lines = [
        {"id": "7", "text": text, "author": "Ann", "channel": "yard"} for text in ("The drum turns.", "It stopped.")
    ]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = engine.add(tmp_path / "chat.jsonl")
    assert [hit.chunk.text for hit in engine.search("drum stopped", k=5)] == ["It stopped."]
    assert [each.reason for each in report.noted] == [
        "skipped or assumed: 1 message with the id of an earlier one (which it replaces)"
    ]
