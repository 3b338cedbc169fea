"""Messages as they are written, where they come in another order, from other channels or from several at once."""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Message, Settings, SettingsError
from clew.core.errors import NotFound
from clew.core.protocols import Role
from clew.core.settings import ThreadConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder

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


def test_an_edit_need_not_say_again_who_wrote_a_message_and_when(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks.")])
    engine.add_messages([Message("The crane squeaks.", id="m1", channel="yard")])
    (section,) = engine.read("yard/m1").sections
    assert (section.author, section.at) == ("Ann", START + timedelta(minutes=1))
    engine.add_messages([said(1, "The mast squeaks.", author="Bo", at=START)])
    (section,) = engine.read("yard/m1").sections
    assert (section.author, section.at) == ("Bo", START)


@pytest.mark.parametrize("edits", [[], [said(0, "How do I grease the big winch?")]])
def test_an_edit_of_an_old_message_does_not_make_it_the_last_that_was_said(edits: list[Message]) -> None:
    talk = [said(0, "How do I grease the winch?"), said(2, "Has anyone seen the blue tarp?", author="Cy")]
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages([*talk, said(4, "Lunch is at noon today", author="Dee")])
        engine.add_messages(edits)
        engine.add_messages([said(8, "it is in the shed", author="Bo")])
        assert "m8" in {section.id for section in engine.read("yard/m2").sections}


def test_those_that_answer_the_same_missing_message_are_one_thread(engine: Engine, tmp_path: Path) -> None:
    talk = [said(n, f"It squeaks, {n}", reply_to="gone") for n in (1, 2, 3)]
    place = tmp_path / "yard.jsonl"
    export(place, *talk, said(4, "Lunch?", reply_to="also gone"))
    engine.add(place)
    assert {record.uri for record in engine.list()} == {"yard/m1", "yard/m4"}
    sections = engine.read("yard/m1").sections
    assert [(section.id, section.parent, section.guessed) for section in sections] == [
        ("m1", None, False),
        ("m2", 0, True),
        ("m3", 0, True),
    ]
    live = [replace(message, channel="dock", id=f"d{message.id}") for message in talk]
    engine.add_messages(live)
    assert [section.id for section in engine.read("dock/dm1").sections] == ["dm1", "dm2", "dm3"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"id": 17}, "Message(id=…) takes a text, not 17"),
        ({"reply_to": 17}, "Message(reply_to=…) takes an id, not 17"),
        ({"channel": 17}, "Message(channel=…) takes a text, not 17"),
        ({"author": None}, "Message(author=…) takes a text, not None"),
        ({"at": "2026-03-02T09:00"}, "Message(at=…) takes a datetime, not '2026-03-02T09:00'"),
    ],
)
def test_what_is_no_message_is_refused_at_the_door(engine: Engine, wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=re.escape(reason)):
        said(1, "The winch squeaks.", **wrong)
    with pytest.raises(SettingsError, match="messages must be Message objects; got a dict"):
        engine.add_messages([{"text": "hello", "channel": "yard"}])  # type: ignore[list-item]
    assert list(engine.list()) == []


def test_half_a_character_keeps_no_other_message_out(engine: Engine) -> None:
    report = engine.add_messages([said(1, "One."), said(2, "Half \ud83d of it"), said(3, "Three.")])
    assert report.added == ("m1", "m3")
    assert [(failure.source, "unpaired surrogate" in failure.reason) for failure in report.failed] == [("m2", True)]
    assert report.skipped == 0


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
def test_an_edit_keeps_what_others_add_meanwhile(tmp_path: Path, doors: int) -> None:
    opened = [Engine.open(tmp_path / "talk", embedder="hashed") for _ in range(doors)]
    opened[0].add_messages([said(0, "The winch squeaks.")])

    def reply(n: int) -> None:
        opened[0].add_messages([said(n, f"It does, {n}", id=f"r{n}", reply_to="m0")])

    def edit(n: int) -> None:
        opened[-1].add_messages([said(0, f"The winch {'squeaks ' * (n % 5)}badly, as of {n}.")])

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, n) for n in range(1, 25) for work in (reply, edit)]
        for each in done:
            each.result()
    thread = opened[0].read("yard/m0")
    chunks = opened[0].opened.store.chunks(thread.id)
    assert {section.id for section in thread.sections} == {"m0", *(f"r{n}" for n in range(1, 25))}
    assert [chunk.index for chunk in chunks] == list(range(25))
    for chunk in chunks:
        assert thread.text[chunk.start : chunk.end] == chunk.text
    for engine in opened:
        engine.close()


def test_a_message_that_two_deliver_at_once_keeps_its_replies(tmp_path: Path) -> None:
    class Interrupted(HashedEmbedder):
        """While the first message is embedded here, another adds it together with a reply."""

        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if not list(other.list()):
                other.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1")])
            return super().embed(texts, role=role)

    with (
        Engine.open(tmp_path / "talk", embedder="hashed") as other,
        Engine.open(tmp_path / "talk", embedder=Interrupted()) as engine,
    ):
        engine.add_messages([said(1, "The winch squeaks.")])
        assert [section.id for section in engine.read("yard/m1").sections] == ["m1", "m2"]


# -- messages that are taken out


def test_a_message_is_dropped_from_its_thread_and_the_rest_of_it_stays(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Is it the bearing?", reply_to="m1")])
    engine.add_messages([said(3, "Grease it with tallow.", reply_to="m2"), said(4, "Done.", reply_to="m3")])
    assert engine.drop_messages("m2") == 1
    thread = engine.read("yard/m1")
    assert [(section.id, section.parent) for section in thread.sections] == [("m1", None), ("m3", 0), ("m4", 1)]
    assert "bearing" not in thread.text
    chunks = engine.opened.store.chunks(thread.id)
    assert [(chunk.id, thread.text[chunk.start : chunk.end]) for chunk in chunks] == [
        ("m1_chunk_0", "The winch squeaks."),
        ("m3_chunk_0", "Grease it with tallow."),
        ("m4_chunk_0", "Done."),
    ]
    assert all("bearing" not in chunk.index_text for chunk in chunks)
    assert engine.search("bearing", strategy="lexical") == []
    engine.add_messages([said(5, "Thank you.", reply_to="m4")])  # and it grows as before
    assert [section.id for section in engine.read("yard/m1").sections] == ["m1", "m3", "m4", "m5"]


def test_the_first_and_the_last_message_of_a_thread_can_be_dropped(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1"), said(9, "Lunch?")])
    assert engine.drop_messages("m1") == 1
    assert engine.read("yard/m1").title == "#yard: Grease it."
    assert engine.drop_messages("m2", "m9") == 2
    assert list(engine.list()) == []


def test_a_first_message_that_comes_back_finds_its_replies_there(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1")])
    engine.drop_messages("m1")
    engine.add_messages([said(1, "The winch squeaks.")])
    assert {section.id for section in engine.read("yard/m1").sections} == {"m1", "m2"}


def test_of_messages_that_are_not_all_there_none_is_dropped(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks.")])
    with pytest.raises(NotFound, match="no message 'm7'"):
        engine.drop_messages("m1", "m7")
    assert [record.uri for record in engine.list()] == ["yard/m1"]


# -- an export that is added again


def test_what_was_said_since_an_export_stays_when_a_newer_one_is_still_too_old_for_it(
    engine: Engine, tmp_path: Path
) -> None:
    place = tmp_path / "yard.jsonl"
    export(place, said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1"))
    engine.add(place)
    engine.add_messages([said(30, "Greased, and it still does.", reply_to="m1")])
    assert engine.add(place).skipped == 1
    export(place, said(1, "The winch squeaks."), said(2, "Oil it.", reply_to="m1"), said(20, "Twice.", reply_to="m1"))
    assert engine.add(place).changed == ("yard/m1",)
    thread = engine.read("yard/m1")
    assert [section.id for section in thread.sections] == ["m1", "m2", "m20", "m30"]
    assert "Oil it." in thread.text
    assert "still does" in engine.search("still does", k=1)[0].chunk.text
    export(place, said(1, "The winch squeaks."), said(40, "New bearing.", reply_to="m1"))
    engine.add(place)  # it is newer than all that was said, so what it does not hold was deleted
    assert [section.id for section in engine.read("yard/m1").sections] == ["m1", "m40"]


def test_what_was_said_at_no_time_since_an_export_stays_too(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "yard.jsonl"
    for at in (START, None):
        channel = "dated" if at else "undated"
        here = {"at": at, "channel": channel}
        first, second = said(1, "The winch squeaks.", **here, id=f"{channel}1"), said(2, "Oil it.", **here, id=channel)
        export(place, first)
        engine.add(place)
        engine.add_messages([said(3, "It still does.", **{**here, "at": None}, id=f"{channel}3", reply_to=first.id)])
        export(place, first, replace(second, reply_to=first.id))
        engine.add(place)
        sections = engine.read(f"{channel}/{channel}1").sections
        assert [section.id for section in sections] == [f"{channel}1", channel, f"{channel}3"]


@pytest.mark.parametrize("is_new", [False, True])
def test_what_is_said_while_an_export_is_added_stays(tmp_path: Path, is_new: bool) -> None:
    class Interrupted(HashedEmbedder):
        """While the export is embedded here, another adds a message to its thread."""

        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if waiting:
                other.add_messages([waiting.pop()])
            return super().embed(texts, role=role)

    place = tmp_path / "yard.jsonl"
    first = said(1, "The winch squeaks.")
    waiting: list[Message] = []
    with (
        Engine.open(tmp_path / "talk", embedder="hashed") as other,
        Engine.open(tmp_path / "talk", embedder=Interrupted()) as engine,
    ):
        if not is_new:
            export(place, first)
            engine.add(place)
        export(place, first, said(2, "Grease it.", reply_to="m1"))
        waiting.append(first if is_new else said(30, "It still does.", reply_to="m1"))
        report = engine.add(place)
        assert (report.failed, len(report.added) + len(report.changed)) == ((), 1)
        expected = ["m1", "m2"] if is_new else ["m1", "m2", "m30"]
        assert [section.id for section in engine.read("yard/m1").sections] == expected
        assert engine.add(place).skipped == 1


def test_two_may_add_the_same_export_at_the_same_time(tmp_path: Path) -> None:
    place = tmp_path / "yard.jsonl"
    export(place, *(said(n, f"Message {n}", reply_to=f"m{n - n % 3}" if n % 3 else None) for n in range(300)))
    flat = Settings(threads=ThreadConfig(untangle=False))
    opened = [Engine.open(tmp_path / "talk", embedder="hashed", settings=flat) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda engine: engine.add(place), opened))
    assert [report.failed for report in reports] == [(), ()]
    assert len(list(opened[0].list())) == 100
    assert opened[1].add(place).skipped == 100
    for engine in opened:
        engine.close()


def test_exports_whose_channels_share_ids_are_reported_and_the_rest_is_added(engine: Engine, tmp_path: Path) -> None:
    one, two, three = (tmp_path / f"{name}.jsonl" for name in ("one", "two", "three"))
    export(one, *(said(n, f"The winch squeaks, {n}.") for n in range(6)))
    export(two, *(said(n, f"The beans are out, {n}.", channel="kitchen") for n in range(7)))
    export(three, said(9, "Rain.", channel="weather"))
    for places in ((one, two, three), (two, one)):
        report = engine.add(*places)
        assert [failure.source for failure in report.failed] == [f"kitchen/m{n}" for n in range(6)]
        assert report.failed[0].reason.startswith(
            "a message of #yard has the same id as m0 of #kitchen; make ids unique"
        )
    assert {record.uri for record in engine.list()} == {*(f"yard/m{n}" for n in range(6)), "kitchen/m6", "weather/m9"}


def test_a_thread_loses_only_the_messages_whose_ids_another_channel_has(engine: Engine, tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    export(one, said(2, "The winch squeaks."))
    talk = [said(1, "The beans are out."), said(2, "Buy some.", reply_to="m1"), said(3, "Done.", reply_to="m2")]
    export(two, *(replace(message, channel="kitchen") for message in talk))
    report = engine.add(one, two)
    assert [failure.source for failure in report.failed] == ["kitchen/m1"]
    assert "a message of #yard has the same id as m2 of #kitchen" in report.failed[0].reason
    sections = engine.read("kitchen/m1").sections
    assert [(section.id, section.parent) for section in sections] == [("m1", None), ("m3", 0)]
    assert engine.read("yard/m2").text.strip() == "The winch squeaks."
    assert all("Buy" not in chunk.embed_text for chunk in engine.opened.store.scan())


def test_two_exports_of_one_thread_are_not_taken_together(engine: Engine, tmp_path: Path) -> None:
    older, newer = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    export(older, said(1, "The winch squeaks."))
    export(newer, said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1"))
    (failure,) = engine.add(older, newer).failed
    assert (failure.source, "add the newer of the two by itself" in failure.reason) == ("yard/m1", True)
    assert engine.add(newer).changed == ("yard/m1",)


def test_what_an_export_holds_no_more_is_gone_once_it_holds_what_was_said_later(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "yard.jsonl"
    export(place, said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1"))
    engine.add(place)
    export(place, said(1, "The winch squeaks!"))  # deleted, or an export that is older: nothing is lost on a guess
    engine.add(place)
    assert [section.id for section in engine.read("yard/m1").sections] == ["m1", "m2"]
    assert engine.add(place).skipped == 1
    export(place, said(1, "The winch squeaks!"), said(3, "Lunch?"))
    engine.add(place)
    assert [section.id for section in engine.read("yard/m1").sections] == ["m1"]


def test_an_older_export_takes_nothing_away(engine: Engine, tmp_path: Path) -> None:
    old, new = tmp_path / "january.jsonl", tmp_path / "february.jsonl"
    export(old, said(1, "The winch squeaks."))
    export(new, said(1, "The winch squeaks."), said(2, "Grease it.", reply_to="m1"))
    engine.add(new)
    engine.add(old)
    assert [section.id for section in engine.read("yard/m1").sections] == ["m1", "m2"]


def test_the_first_message_of_a_thread_can_be_deleted(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "yard.jsonl"
    replies = [said(2, "Take that back.", reply_to="m1"), said(3, "Please do.", reply_to="m1")]
    export(place, said(1, "The password is tallow."), *replies, said(4, "Lunch?"))
    engine.add(place)
    engine.add_messages([said(9, "Done.", reply_to="m1")])
    export(place, *replies, said(4, "Lunch?"))
    engine.add(place)
    assert engine.search("tallow", strategy="lexical") == []
    found = {record.uri: [section.id for section in engine.read(record.id).sections] for record in engine.list()}
    assert found == {"yard/m2": ["m2", "m3"], "yard/m4": ["m4"], "yard/m1": ["m9"]}


def test_a_message_that_an_export_has_in_another_thread_moves_there(engine: Engine, tmp_path: Path) -> None:
    engine.add_messages([said(1, "The winch squeaks."), said(2, "It is the bearing."), said(3, "Sure?", reply_to="m2")])
    place = tmp_path / "yard.jsonl"
    export(place, said(1, "The winch squeaks."), said(2, "It is the bearing.", reply_to="m1"), said(3, "Sure?"))
    report = engine.add(place)
    assert report.failed == ()
    found = {record.uri: [section.id for section in engine.read(record.id).sections] for record in engine.list()}
    assert found == {"yard/m1": ["m1", "m2"], "yard/m3": ["m3"]}
    assert [hit.chunk.doc_id for hit in engine.search("bearing", strategy="lexical")] == [engine.read("yard/m1").id]


def test_an_export_that_moved_messages_has_nothing_new_the_second_time(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "yard.jsonl"
    first, other = said(1, "The winch squeaks."), said(2, "The mast creaks.")
    for here, there in (("m1", "m2"), ("m2", "m1")):
        export(place, first, other, said(3, "Grease it.", reply_to=here), said(4, "Tar it.", reply_to=there))
        engine.add(place)
    found = {record.uri: [section.id for section in engine.read(record.id).sections] for record in engine.list()}
    assert found == {"yard/m1": ["m1", "m4"], "yard/m2": ["m2", "m3"]}
    assert engine.add(place).skipped == 2


def export(place: Path, *messages: Message) -> None:
    rows = [
        {"id": m.id, "text": m.text, "author": m.author, "at": m.at and m.at.isoformat(), "channel": m.channel}
        | ({"reply_to": m.reply_to} if m.reply_to else {})
        for m in messages
    ]
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_messages_are_dropped_by_names_and_not_by_a_list(engine: Engine) -> None:
    engine.add_messages([said(1, "The winch squeaks.")])
    for drop in (engine.drop_messages, engine.drop):
        with pytest.raises(SettingsError, match=r"as an argument of its own: drop\w*\(\*names\)"):
            drop(["m1"])  # type: ignore[arg-type]
