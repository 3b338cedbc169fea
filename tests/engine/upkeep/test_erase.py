"""Erasure: what is erased is found by no verb, in no byte of the folder or the lake and in no row of the server.

There are 60 canaries, 1,000 in `make soak` (`-s` prints the numbers), spread over pages, messages, summaries, contexts,
chat sessions, staged vectors and caches.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from clew import Document, Engine, Message, NotFound, Receipt, SettingsError
from clew.core.jobs import Job
from clew.core.settings import IngestionConfig, LLMConfig, RerankerConfig, Settings, StoreConfig
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.wrapped import CachedEmbedder
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.scripted import ScriptedLLM
from tests import leftovers
from tests.soak import choose_runs

CANARIES = choose_runs(60, 1000)
CANARY = re.compile(r"zqcanary\w+")
DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
SETTINGS = Settings(reranker=RerankerConfig(name="overlap"), ingestion=IngestionConfig())


def canary(number: int) -> str:
    """A word that nothing else has, with letters outside ASCII, so that JSON may escape it."""
    return f"zqcanary{number:05d}käfig"


@dataclass(frozen=True)
class Place:
    """Where collections are kept: a folder, a server or a lake."""

    path: Any
    kind: str = "folder"

    def read_everything(self) -> leftovers.Stored:
        """Every byte of the folder or the lake, or every value of every table of the server, as bytes."""
        if self.kind == "folder":
            return leftovers.read_folder(self.path / "default")
        if self.kind == "lance":
            return leftovers.read_lake(f"{self.path}/default".removeprefix("lance://"))
        return leftovers.read_server(psycopg.connect(self.path))

    def count_places(self, text: str, vectors: Iterable[np.ndarray] = ()) -> dict[str, int]:
        """Where a text or a vector stands, in the forms in which it may be stored, and how often."""
        needles = leftovers.list_forms(text).union(*map(leftovers.list_vector_forms, vectors))
        return leftovers.find_leftovers(needles, self.read_everything())


@pytest.fixture(params=["folder", "postgres", "lance"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder, a server, or a lake."""
    if request.param == "folder":
        return Place(tmp_path / "team.clew")
    if request.param == "lance":
        return Place(f"lance://{tmp_path}/lake", "lance")
    return Place(request.getfixturevalue("postgres"), "postgres")


EXTRACTED = replace(SETTINGS, ingestion=replace(SETTINGS.ingestion, summaries="extractive"))


def open_engine(place: Place, **options: Any) -> Engine:
    return Engine.open(place.path, **{"embedder": "hashed", "settings": SETTINGS, **options})


def make_chat(count: int, *, first: int = 0, channel: str = "ops") -> list[Message]:
    """Messages by dan, with a canary each, and by eve, in turn, all in one thread."""
    return [
        Message(
            f"The boat of {canary(first + number)} needs paint."
            if number % 2 == 0
            else f"Fine, slot {number} is free.",
            author="dan" if number % 2 == 0 else "eve",
            at=DAY + timedelta(minutes=number),
            id=f"{channel}-{number}",
            channel=channel,
            reply_to=f"{channel}-0" if number else None,
        )
        for number in range(count)
    ]


def test_an_erased_page_is_in_no_verb_and_in_no_byte(place: Place) -> None:
    with open_engine(place, settings=EXTRACTED) as engine:
        text = f"# Crane\n\nThe crane {canary(1)} lifts nine tons."
        engine.add_documents([Document("crane", text, uri="crane.md"), Document("tide", "The tide turns at noon.")])
        engine.backfill()
        engine.search(canary(1))
        (stored,) = engine.opened.store.stored_documents(["crane"])
        assert stored.summary_vector is not None
        vectors = [*stored.vectors, stored.summary_vector]
        assert all(place.count_places(canary(1), [vector]) for vector in vectors)
        receipt = engine.erase(["crane.md"])
        assert (receipt.documents, receipt.undone) == (("crane",), ())
        assert (receipt.chunks, receipt.vectors, receipt.summaries) == (1, 2, 1)
        assert receipt.postings > 5
        assert receipt.overwritten
        assert receipt.complete
        assert not receipt.dry_run
        assert not receipt.resumed
        assert [record.id for record in engine.list()] == ["tide"]
        assert [hit.chunk.doc_id for hit in engine.search(f"crane {canary(1)}")] in ([], ["tide"])
        with pytest.raises(NotFound):
            engine.read("crane")
    assert not place.count_places(canary(1), vectors)


def test_an_authors_messages_go_and_the_contexts_of_their_neighbours_are_rebuilt(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(8))
        engine.add_messages([Message("Quite another matter.", author="dan", id="x", channel="misc", at=DAY)])
        engine.add_documents(
            [
                Document("plan", "A plan of the harbour.", meta={"author": "dan"}),
                Document("tide", "Noon tide, dan said."),
            ]
        )
        engine.backfill()
        before = {chunk.id: chunk for chunk in engine.opened.store.scan()}
        assert any(canary(0) in chunk.context for chunk in before.values() if chunk.meta.get("author") == "eve")
        receipt = engine.erase(author="dan")
        assert receipt.complete
        assert sorted(receipt.messages) == ["ops-0", "ops-2", "ops-4", "ops-6", "x"]
        assert sorted(set(receipt.documents) & {"plan", "tide"}) == ["plan"]
        assert receipt.contexts == 4  # each answer of eve had one of his messages in its context
        after = list(engine.opened.store.scan())
        assert {chunk.meta.get("author") for chunk in after} == {"eve", None}
        assert not any("zqcanary" in chunk.index_text for chunk in after)
        rebuilt = engine.opened.store.vectors([chunk.id for chunk in after])
        expected = engine.opened.embedder.embed([chunk.embed_text for chunk in after], role="passage")
        assert np.allclose([rebuilt[chunk.id] for chunk in after], expected)
        (thread,) = engine.list(engine_filter("thread"))
        assert "zqcanary" not in thread.title
        assert "zqcanary" not in thread.summary
        assert receipt.named_by == ("tide",)
        with pytest.raises(NotFound):
            engine.profile("dan")
    for number in range(8):
        assert not place.count_places(canary(number))


def engine_filter(kind: str) -> Any:
    from clew import Filter

    return Filter(kinds=frozenset({kind}))


def test_a_channel_goes_whole_and_others_stay(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages([*make_chat(4), *make_chat(2, first=50, channel="misc")])
        receipt = engine.erase(channel="ops")
        assert receipt.complete
        assert len(receipt.messages) == 4
        assert engine.channels() == ["misc"]
        assert place.count_places(canary(50))
    assert not place.count_places(canary(0))


def test_a_summary_that_tells_an_erased_message_goes_with_it(place: Place) -> None:
    llm = ScriptedLLM([f"They speak of {canary(0)} and {canary(900)} only."])
    with open_engine(place, llm=llm) as engine:
        engine.add_messages(make_chat(4))
        engine.backfill()
        assert place.count_places(canary(900))
        receipt = engine.erase(author="dan")
        assert receipt.complete
        assert receipt.summaries == 1
        assert [record.summary for record in engine.list()] == [""]
    assert not place.count_places(canary(900))


def make_busy_chat(author: str) -> list[Message]:
    """Three people in three threads; each says two sentences that nobody else says."""
    people = (author, "eve", "frank")
    return [
        Message(
            f"Warehouse{at}x{thread} receives shipment{at}y{thread} before noon{at}z{thread} today. "
            f"Inspector{at}a{thread} approves certificate{at}b{thread} after lunch{at}c{thread} then.",
            author=people[(at + thread) % 3],
            at=DAY + timedelta(minutes=at),
            id=f"t{thread}-{at}",
            channel=f"quay{thread}",
            reply_to=f"t{thread}-0" if at else None,
        )
        for thread in range(3)
        for at in range(9)
    ]


def test_a_summary_made_of_what_others_said_is_not_looked_for(place: Place) -> None:
    with open_engine(place, settings=EXTRACTED) as engine:
        engine.add_messages(make_busy_chat("wolfgang.petersen"))
        quote = "He said: Warehouse0x0 receives shipment0y0 before noon0z0 today."
        engine.add_messages([Message(quote, author="eve", id="quote", channel="quay0", at=DAY, reply_to="t0-0")])
        engine.backfill()
        summaries = " ".join(record.summary for record in engine.list())
        others = [message for message in make_busy_chat("dan") if message.author != "dan"]
        assert any(message.text.split(". ")[0] in summaries for message in others)
        receipt = engine.erase(author="wolfgang.petersen")
        assert_complete(receipt)
        assert receipt.summaries == 3
        assert receipt.quoted_by == ("quote",)
        assert receipt.named_by == ()
        with pytest.raises(SettingsError, match="nothing to erase"):
            engine.erase()  # nothing is left to finish


def test_a_title_made_of_what_another_said_too_is_theirs(place: Place) -> None:
    said = "Deliveries for the warehouse should go through the southern gate instead of this one all week."
    with open_engine(place) as engine:
        engine.add_messages(
            [
                Message(said, author="dan", id="a", channel="ops", at=DAY),
                Message("Where do they go?", author="dan", id="b", channel="ops", at=DAY + timedelta(days=3)),
                Message(said, author="eve", id="c", channel="ops", at=DAY + timedelta(days=3), reply_to="b"),
            ]
        )
        assert len(list(engine.list())) == 2
        assert engine.erase(author="dan", dry_run=True).quoted_by == ("c",)
        receipt = engine.erase(author="dan")
        assert [record.title[:20] for record in engine.list()] == ["#ops: Deliveries for"]
        assert_complete(receipt)
        assert receipt.quoted_by == ("c",)


def test_an_incomplete_erasure_is_finished_after_new_summaries(place: Place) -> None:
    with open_engine(place, settings=EXTRACTED) as engine:
        engine.add_messages(make_busy_chat("dan"))
        engine.backfill()
        insert_jobs(engine, [("one", "running", "Warehouse0x0 receives shipment0y0")])
        assert not engine.erase(author="dan").complete
        engine.backfill()
        assert engine.opened.store.jobs.finish("one", "worker", state="done")
        receipt = engine.erase()
        assert receipt.resumed
        assert receipt.jobs == 1
        assert_complete(receipt)
        assert receipt.quoted_by == ()
        assert all(record.summary for record in engine.list())


def test_what_names_the_author_outside_of_its_text_is_reported_and_stays(place: Place) -> None:
    name = "wolfgang.petersen"
    about = [
        Document("by title", "One.", title=f"Interview with {name.title()}"),
        Document("by address", "Two.", uri=f"people/{name}.md"),
        Document("by meta", "Three.", meta={"review": [{"by": name}]}),
        Document("by label", "Four.", access=frozenset({f"user_{name}"})),
        Document("by none", "Five.", title="Wolfgang", meta={"author": f"{name}2"}),
    ]
    with open_engine(place) as engine:
        engine.add_documents(about)
        engine.add_messages(
            [
                Message("The crane is mine.", author=name, id=f"{name}-1", channel="ops", at=DAY),
                Message("It is not.", author="eve", id="b", channel="ops", at=DAY, reply_to=f"{name}-1"),
                Message("Hello there.", author="eve", id="c", channel=f"dm-{name}", at=DAY),
            ]
        )
        receipt = engine.erase(author=name)
        assert_complete(receipt)
        threads = {f"ops/{name}-1", f"dm-{name}/c"}
        assert sorted(receipt.named_by) == sorted({"by title", f"people/{name}.md", "by meta", "by label", *threads})
        assert {record.uri or record.id for record in engine.list()} == {*receipt.named_by, "by none"}


def test_the_receipt_says_that_an_export_brings_messages_back(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(4))
        engine.add_documents([Document("tide", "The tide turns at noon.")])
        assert not any("chat export" in note for note in engine.erase(["tide"]).notes)
        assert any("chat export" in note for note in engine.erase(author="dan").notes)


def test_others_who_quote_an_erased_text_are_reported_and_stay(place: Place) -> None:
    with open_engine(place) as engine:
        said = "I will resign on Friday and tell nobody before that day."
        engine.add_messages([Message(said, author="dan", id="a1", channel="ops", at=DAY)])
        quote = Message(f'He wrote: "{said}"', author="eve", id="b1", channel="ops", at=DAY, reply_to="a1")
        engine.add_messages([quote])
        receipt = engine.erase(author="dan")
        assert receipt.quoted_by == ("b1",)
        assert receipt.complete  # what others say is theirs, and cannot be told from the erased text
        assert [hit.chunk.meta["message"] for hit in engine.search("resign on Friday")] == ["b1"]


def test_a_dry_run_counts_and_changes_nothing(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(4))
        change = engine.status().change
        planned = engine.erase(author="dan", dry_run=True)
        assert planned.dry_run
        assert len(planned.messages) == 2
        assert planned.chunks == 2
        assert engine.status().change == change
        assert len(list(engine.opened.store.scan())) == 4


def test_what_is_named_must_be_there_and_of_one_kind(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(4))
        with pytest.raises(NotFound, match="did you mean dan"):
            engine.erase(author="dann")
        with pytest.raises(NotFound, match="channel"):
            engine.erase(channel="none")
        with pytest.raises(NotFound):
            engine.erase(["nothing.md"])
        with pytest.raises(SettingsError, match="nothing to erase"):
            engine.erase()
        with pytest.raises(SettingsError, match="one kind"):
            engine.erase(["a"], author="dan")
        with pytest.raises(SettingsError, match="list"):
            engine.erase("a")


def test_an_engine_that_sees_a_part_erases_nothing(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(4))
        with pytest.raises(SettingsError, match="only reads"):
            engine.within(engine_filter("thread")).erase(author="dan")
        assert len(list(engine.opened.store.scan())) == 4


def test_the_selector_can_be_proved_without_the_name(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(2))
        receipt = engine.erase(author="dan")
    assert receipt.selector == "author dan"
    assert len(receipt.selector_hash) == 64
    assert "dan" not in receipt.selector_hash
    assert receipt.selector_hash == replace(receipt, messages=()).selector_hash


def test_a_source_that_remains_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crane.md").write_text(f"# Crane\n\nIt is {canary(1)}.\n", encoding="utf-8")
    with Engine.open(tmp_path / "team.clew", embedder="hashed", settings=SETTINGS) as engine:
        engine.add(tmp_path / "crane.md")
        assert engine.erase(["crane.md"]).sources == ("crane.md",)


def test_a_split_source_is_erased_by_its_name_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"# Book\n\n## Keys\n\nIt is {canary(1)}.\n\n## Soup\n\nIt is {canary(2)}.\n\n## Tide\n\nNoon.\n"
    (tmp_path / "book.md").write_text(text, encoding="utf-8")
    place = Place(tmp_path / "team.clew")
    settings = replace(SETTINGS, ingestion=IngestionConfig(sections=True))
    with open_engine(place, settings=settings) as engine:
        engine.add("book.md")
        assert len(list(engine.list())) == 3
        one = engine.erase(["book.md#section-1"])
        assert (len(one.documents), one.sources, one.complete) == (1, ("book.md",), True)
        rest = engine.erase(["book.md"])
        assert (len(rest.documents), rest.sources, rest.complete) == (2, ("book.md",), True)
        assert not list(engine.list())
    assert not place.count_places(canary(2))


def test_staged_vectors_go_too(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_messages(make_chat(6))
        engine.opened.store.stage_vectors(HashedEmbedder(32))
        receipt = engine.erase(author="dan")
        assert receipt.complete
        staged = HashedEmbedder(32)
        assert engine.opened.store.stage_vectors(staged) == 3  # of the contexts that were rebuilt, and of no other


def test_caches_are_cleared_and_the_receipt_says_so(place: Place, tmp_path: Path) -> None:
    embedder = CachedEmbedder(HashedEmbedder(), tmp_path / "vectors.db")
    llm = CachedLLM(ScriptedLLM([f"It is about {canary(0)}."]), tmp_path / "answers.db")
    with open_engine(place, embedder=embedder, llm=llm) as engine:
        engine.add_messages(make_chat(4))
        engine.backfill()
        assert canary(0).encode() in (tmp_path / "answers.db").read_bytes()
        receipt = engine.erase(author="dan")
        assert receipt.complete
        assert receipt.cache_entries >= 5
        assert len([note for note in receipt.notes if "cache" in note]) == 2
    assert canary(0).encode() not in (tmp_path / "answers.db").read_bytes()
    with closing(__import__("sqlite3").connect(tmp_path / "vectors.db")) as db:
        kept = db.execute("SELECT count(*) FROM entries").fetchone()[0]
    assert kept == 0


def test_finished_jobs_that_name_it_are_deleted(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_documents([Document("crane", f"The crane {canary(1)}."), Document("tide", "Noon tide.")])
        jobs = [("one", "done", canary(1)), ("two", "done", "other"), ("three", "running", canary(1))]
        insert_jobs(engine, jobs)
        receipt = engine.erase(["crane"])
        assert receipt.jobs == 1
        assert "the job three" in receipt.undone[0]  # a running job is not taken away
        assert not receipt.complete
        assert place.count_places(canary(1))
        assert not engine.erase().complete
        assert engine.opened.store.jobs.finish("three", "worker", state="done")
        again = engine.erase()
        assert (again.complete, again.resumed, again.jobs) == (True, True, 1)
        assert [job.id for job in engine.opened.store.jobs.all()] == ["two"]
    assert not place.count_places(canary(1))


def insert_jobs(engine: Engine, jobs: list[tuple[str, str, str]]) -> None:
    for job, state, text in jobs:
        engine.opened.store.jobs.put(Job(job, "add", {"text": text}, state=state, worker="worker"))  # type: ignore[arg-type]


def test_saved_chats_lose_what_they_quote(place: Place) -> None:
    with open_engine(place) as engine:
        engine.add_documents(
            [Document("crane", f"The crane {canary(1)} lifts nine tons."), Document("tide", "The tide turns at noon.")]
        )
        for name, question in (("work", "what lifts nine tons?"), ("sea", "when does the tide turn?")):
            engine.chat(name).ask(question, k=1)
        assert place.count_places(canary(1))
        receipt = engine.erase(["crane"])
        assert receipt.complete
        assert receipt.sessions == 1
    with open_engine(place) as engine:
        work, sea = engine.chat("work"), engine.chat("sea")
        assert [message.text for message in work.messages] == ["what lifts nine tons?", "[erased]"]
        assert "The tide turns at noon." in sea.messages[1].text
        assert "crane" not in work.numbers
    assert not place.count_places(canary(1))


@pytest.mark.parametrize("is_held", [False, True], ids=["alone", "held by another"])
@pytest.mark.slow
def test_the_index_on_disk_is_rebuilt(tmp_path: Path, is_held: bool) -> None:
    place = Place(tmp_path / "team.clew")
    settings = replace(SETTINGS, store=StoreConfig(exact_below=10))
    with open_engine(place, settings=settings) as engine, open_engine(place, settings=settings) as other:
        engine.add_messages(make_chat(40))
        vector = engine.opened.store.vectors(["ops-0_chunk_0"])["ops-0_chunk_0"].tobytes()
        (other if is_held else engine).search("paint")
        engine.opened.store.flush()
        assert any(vector in data for name, data in place.read_everything() if "/index/" in name)
        receipt = engine.erase(author="dan")
        assert receipt.complete
        assert not any(vector in data for _, data in place.read_everything())
        for each in (other, engine):  # whoever has it open goes on
            hits = each.search(f"the boat of {canary(0)} needs paint", k=40)
            assert hits
            assert {hit.chunk.meta["author"] for hit in hits} == {"eve"}
        other.add_messages([Message("One more boat.", author="eve", id="late", channel="ops", at=DAY)])
        assert engine.search("One more boat.")[0].chunk.meta["message"] == "late"


LIVE = """
import sys
from dataclasses import replace
from clew import Engine, Message, Settings, StoreConfig
path, settings = sys.argv[1], replace(Settings(), store=StoreConfig(exact_below=10))
with Engine.open(path, embedder="hashed", settings=settings) as engine:
    engine.search("paint")
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        engine.add_messages([Message(f"Buoy {number} is out.", author="eve", id=f"live-{number}", channel="sea")])
        hits = engine.search(f"Buoy {number} is out. The boat needs paint.", k=50)
        assert any(hit.chunk.meta["message"] == f"live-{number}" for hit in hits)
        print(sum(hit.chunk.meta["author"] == "dan" for hit in hits), flush=True)
"""


@pytest.mark.parametrize("place", ["folder", "postgres"], indirect=True)  # in Lance a search that has begun may fail
@pytest.mark.slow
def test_other_processes_that_have_it_open_go_on(place: Place) -> None:
    settings = replace(SETTINGS, store=StoreConfig(exact_below=10))
    with open_engine(place, settings=settings) as engine:
        engine.add_messages(make_chat(40))
    command = [sys.executable, "-c", LIVE, str(place.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as live:
        assert live.stdin is not None
        assert live.stdout is not None

        def go() -> str:
            assert live.stdin is not None
            assert live.stdout is not None
            live.stdin.write("go\n")
            live.stdin.flush()
            return live.stdout.readline().strip()

        assert live.stdout.readline() == "ready\n"
        assert int(go()) > 0
        with open_engine(place, settings=settings) as engine:
            working = threading.Thread(target=lambda: [go() for _ in range(5)])
            working.start()
            receipt = engine.erase(author="dan")
            working.join()
            assert_complete(receipt)
            assert go() == "0"
            assert len(list(engine.opened.store.scan(engine_filter("thread")))) == 20 + 7
        live.stdin.close()
        assert live.wait() == 0


CRASH = """
import os, sys
import clew.index.erase as remove
import clew.engine.erase as erase
from clew import Engine
step, path = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), 9)
engine = Engine.open(path, embedder="hashed")
if step == "remove":
    count = iter(range(100))
    real = remove._remove_messages
    remove._remove_messages = lambda *a: real(*a) if next(count) < 1 else die()
elif step == "scrub":
    erase.scrub = die
elif step == "caches":
    erase._clear_caches = die
elif step == "purge":
    type(engine.opened.store).purge = die
engine.erase(author="dan")
"""


@pytest.mark.parametrize("step", ["scrub", "remove", "caches", "purge"])
@pytest.mark.slow
def test_an_erasure_that_was_killed_is_finished_by_the_next(place: Place, step: str) -> None:
    with open_engine(place) as engine:
        for number in range(3):
            engine.add_messages(make_chat(4, first=10 * number, channel=f"c{number}"))
        engine.backfill()
        engine.chat("work").ask(f"what of {canary(0)}?")
    done = subprocess.run([sys.executable, "-c", CRASH, step, str(place.path)], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    with open_engine(place) as engine:
        engine.search("paint")  # it opens, and can be searched
        receipt = engine.erase(author="dan") if step == "remove" else engine.erase()
        assert receipt.resumed
        assert receipt.complete
        assert receipt.selector == "author dan"
        assert len(receipt.messages) == 6
        assert receipt.chunks == 6
        assert {chunk.meta["author"] for chunk in engine.opened.store.scan()} == {"eve"}
        with pytest.raises(SettingsError):
            engine.erase()  # nothing is left to finish
    for number in (0, 2, 10, 12, 20, 22):
        assert not place.count_places(canary(number))


def test_a_role_that_may_not_rewrite_tables_says_so(postgres: str) -> None:
    owner = Place(postgres, "postgres")
    with open_engine(owner) as engine:
        engine.add_messages(make_chat(4))
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER ROLE clew_app PASSWORD 'app'")
    app = replace(owner, path=psycopg.conninfo.make_conninfo(postgres, user="clew_app", password="app"))
    url = postgres.replace("postgresql://", "postgresql://clew_app:app@", 1) if "@" not in postgres else None
    address = url or "postgresql://clew_app:app@" + postgres.split("@", 1)[1]
    with open_engine(replace(app, path=address)) as engine:
        receipt = engine.erase(author="dan")
    assert not receipt.complete
    assert not receipt.overwritten
    assert any("VACUUM (FULL, ANALYZE) clew." in text and " clew.chunks" in text for text in receipt.undone)
    assert not owner.count_places(canary(0)).keys() - {"pg_stats"}


def test_the_files_of_the_servers_tables_hold_none_of_it(postgres: str) -> None:
    place = Place(postgres, "postgres")
    with open_engine(place) as engine:
        engine.add_messages(make_chat(40))
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("ANALYZE")
            needles = leftovers.list_forms(canary(0))
            assert leftovers.find_leftovers(needles, leftovers.read_server_files(connection))
            receipt = engine.erase(author="dan")
            assert not leftovers.find_leftovers(needles, leftovers.read_server_files(connection))
    assert receipt.complete
    assert any("write-ahead log" in note for note in receipt.notes)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.slow
def test_canaries_everywhere_and_none_afterwards(place: Place, tmp_path: Path) -> None:
    erased = range(CANARIES)
    embedder = CachedEmbedder(HashedEmbedder(), tmp_path / "vectors.db")
    answers = ScriptedLLM(lambda prompt: f"It tells {' '.join(sorted(set(CANARY.findall(prompt))))} or no name.")
    llm = CachedLLM(answers, tmp_path / "answers.db")
    settings = replace(SETTINGS, store=StoreConfig(exact_below=50), llm=LLMConfig())
    with open_engine(place, embedder=embedder, llm=llm, settings=settings) as engine:
        pages = [
            Document(f"dan{number}", f"# Note {number}\n\nIt is {canary(number)}.", meta={"author": "dan"})
            for number in erased
            if number % 2
        ]
        engine.add_documents([*pages, Document("tide", "The tide turns at noon in the harbour.")])
        engine.add_messages(make_chat(CANARIES))  # canaries in even messages, and in the contexts of odd ones
        engine.backfill()
        engine.opened.store.stage_vectors(HashedEmbedder(32))
        engine.chat("work").ask(f"what of {canary(0)}?")
        vectors = list_vectors(engine, "zqcanary")
        everything = b"\0".join(data for _, data in place.read_everything())
        assert [number for number in erased if canary(number).encode() not in everything] == []
        needles = set[bytes]().union(*map(leftovers.list_vector_forms, vectors))
        assert leftovers.find_leftovers(needles, [("all", everything)])["all"] >= len(vectors)
        receipt = engine.erase(author="dan")
        assert_complete(receipt)
        found = [hit for number in erased for hit in engine.search(canary(number), k=20)]
        assert not [hit for hit in found if "zqcanary" in f"{hit.chunk.index_text} {hit.document}"]
        asked = "which boats need paint?"
        before = answers.calls
        engine.ask(asked)
        assert "zqcanary" not in repr(answers.requests[before:])
    with open_engine(place, settings=settings) as engine:
        shown = [
            engine.context(asked, tokens=4000),
            engine.ask(asked),
            engine.window("ops", asked, tokens=8000),
            engine.explain(asked, k=50),
            engine.why_not(asked, "tide"),
            engine.profile("eve"),
            engine.style_prompt("eve", asked),
            engine.tools().search_knowledge_base(asked),
            *engine.search_many([asked, "tide"], k=50),
            *((record, engine.read(record.id), engine.links(record.id)) for record in engine.list()),
        ]
        assert "zqcanary" not in "\n".join(f"{each} {each!r}" for each in shown)
    places = list(place.read_everything())
    caches = [(name, (tmp_path / name).read_bytes()) for name in ("vectors.db", "answers.db")]
    assert leftovers.find_leftovers([b"zqcanary"], [*places, *caches]) == {}
    assert leftovers.find_leftovers(needles, places) == {}
    if place.kind == "postgres":
        with psycopg.connect(place.path, autocommit=True) as connection:
            assert leftovers.find_leftovers([b"zqcanary", *needles], leftovers.read_server_files(connection)) == {}
    sys.stdout.write(
        f"\n{len(erased)} canaries planted, 0 found by verbs, 0 in {sum(len(data) for _, data in places)} bytes of "
        f"{place.kind}; receipt: {receipt.chunks} "
        f"chunks, {receipt.contexts} contexts, {receipt.cache_entries} cache entries"
    )


def assert_complete(receipt: Receipt) -> None:
    assert receipt.undone == ()
    assert receipt.overwritten


def list_vectors(engine: Engine, text: str) -> list[np.ndarray]:
    """The vectors that are made of a text, of which a context is no part in a chat."""
    chunks = [chunk for chunk in engine.opened.store.scan() if text in chunk.embed_text]
    return list(engine.opened.store.vectors([chunk.id for chunk in chunks]).values())
