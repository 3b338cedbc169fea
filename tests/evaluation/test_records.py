"""Tuned settings and runs are kept with the collection on every store, and go with what they name."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from clew import (
    CollectionDamaged,
    Document,
    DriverFailed,
    Engine,
    Extensions,
    Filter,
    NotFound,
    Progress,
    Settings,
    SettingsError,
    StoreConfig,
)
from clew.engine.explain import trim_feedback
from clew.evaluation import (
    evaluate,
    list_runs,
    list_tunings,
    make_questions,
    read_run,
    rollback_tuning,
    score_run,
    tune,
)
from tests.evaluation.conftest import QUESTIONS, THINGS, make_page
from tests.evaluation.test_tuning import CANDIDATES, COUNT, broken
from tests.evaluation.test_tuning import QUESTIONS as BOXES


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store."""
    return str(tmp_path / "store" if request.param == "folder" else request.getfixturevalue("postgres"))


def open_boxes(place: str) -> Engine:
    return Engine.open(place, embedder="hashed", extensions=Extensions(strategies={"hybrid": broken}))


def test_what_is_tuned_is_used_by_the_next_opening_and_taken_back(place: str) -> None:
    with open_boxes(place) as engine:
        engine.add_documents([Document(f"box-{at}", f"Spare parts are kept in box number{at}.") for at in range(COUNT)])
        change = engine.opened.store.change_number()
        made = tune(engine, BOXES, candidates=CANDIDATES)
        assert made.is_kept, made.reason
        assert engine.opened.store.change_number() == change  # no part of the content
    reader = Settings(store=StoreConfig(access=("anybody",)))
    for settings in (None, reader):  # with labels, too
        with Engine.open(place, extensions=Extensions(strategies={"hybrid": broken}), settings=settings) as again:
            assert again.settings.search.strategy == "lexical"
    with open_boxes(place) as again:
        (kept,) = list_tunings(again)
        assert kept.settings == {"search.strategy": "lexical"}
        assert rollback_tuning(again) == kept
        assert rollback_tuning(again) is None
    with open_boxes(place) as before:
        assert before.settings.search.strategy == "hybrid"
    with Engine.open(place, collection="other", embedder="hashed") as other:
        assert not list_tunings(other)


def test_settings_that_cannot_be_read_are_named_and_nothing_stays_open(place: str) -> None:
    with open_boxes(place) as engine:
        engine.add_documents([Document("a", "text")])
        assert engine.opened.records is not None
        engine.opened.records.write("tuned", "{")
    with pytest.raises(DriverFailed, match=r"tuned.* cannot be read .*delete it"):
        open_boxes(place)
    Engine.drop_collection(place, "default")  # refused while it is open anywhere


def test_a_run_is_kept_and_continued_where_it_broke_off(place: str) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 5:
            raise InterruptedError

    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents([make_page(at) for at in range(len(THINGS))])
        with pytest.raises(NotFound, match="there are none"):
            read_run(engine, "last")
        with pytest.raises(InterruptedError):
            evaluate(engine, QUESTIONS, strategies=["lexical"], on_progress=interrupt)
        (started,) = list_runs(engine)
        assert not started.is_finished
        assert engine.opened.records is not None
        engine.opened.records.append("evaluations", '{"system": "lexi', name=started.id)  # the line being written
    with Engine.open(place) as engine:
        seen: list[Progress] = []
        made = evaluate(engine, QUESTIONS, strategies=["lexical"], on_progress=seen.append)
        assert made.run.is_kept
        assert made.run.id == started.id
        assert [progress.done for progress in seen] == list(range(6, len(QUESTIONS) + 1))
        assert read_run(engine, "last") == made.run
        assert score_run(read_run(engine, made.run.id)).scores == made.scores
        part = engine.within(Filter(documents={"page-1"}))
        assert list_runs(part) == []  # they name all documents
        with pytest.raises(SettingsError):
            read_run(part, "last")


def test_a_run_of_ids_with_odd_line_ends_is_read_whole(place: str) -> None:
    odd = [replace(each, id=f"{each.id}\u2028{at}\x85\x0c") for at, each in enumerate(QUESTIONS[:3])]
    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents([make_page(at) for at in range(3)])
        made = evaluate(engine, odd, strategies=["lexical"])
        assert read_run(engine, "last") == made.run
        assert made.run.is_finished


@pytest.mark.parametrize(
    "text",
    [
        "[]\n",
        "{}\n",
        "7\n",
        "\n",
        "{\n",
        "[" * 100_000 + "\n",
        '{"format": 1}\n',
        "HEADER[]\n",
        'HEADER{"system": 7}\n',
        'HEADER{"system": "a", "question": "b", "ranking": [7], "relevances": [], "values": {}, "ms": 1}\n',
        'HEADER{"system": "a", "question": "b", "ranking": [], "relevances": [], "values": {"MRR": NaN}, "ms": 1}\n',
        'HEADER{"system": "a", "question": "b", "ranking": [], "relevances": [], "values": {}, "ms": 1, "new": 2}\n',
        'HEADER{"system": "a", "question": ["b"], "ranking": [], "relevances": [], "values": {}, "ms": 1}\n',
    ],
)
def test_a_file_that_is_no_run_is_named_and_hides_no_other(
    engine: Engine, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = evaluate(engine, QUESTIONS[:2], strategies=["lexical"])
    records, bad = engine.opened.records, "20200101-000000-000-abcd"
    assert records is not None
    header = records.read("evaluations", made.run.id).split("\n")[0]
    records.write("evaluations", text.replace("HEADER", f"{header}\n"), name=bad)
    assert [run.id for run in list_runs(engine)] == [made.run.id]
    assert bad in caplog.text
    assert read_run(engine, "last") == made.run
    with pytest.raises(DriverFailed, match=f"{bad}.* is not a run"):
        read_run(engine, bad)
    assert evaluate(engine, QUESTIONS[:2], strategies=["lexical"]).scores[0].means == made.scores[0].means


def test_an_erasure_takes_the_runs_that_name_what_is_erased(place: str) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents([make_page(at) for at in range(len(THINGS))])
        first = evaluate(engine, QUESTIONS[:1], strategies=["lexical"], k=1)
        evaluate(engine, QUESTIONS[1:2], strategies=["lexical"], k=1)
        receipt = engine.erase(["page-1"])
        assert receipt.complete
        assert any("1 evaluation" in note for note in receipt.notes)
        assert [run.id for run in list_runs(engine)] == [first.run.id]


def test_feedback_is_kept_with_the_collection_bounded_and_erased(place: str) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents([make_page(at) for at in range(3)])
        engine.feedback("where is the anchor?", good=True, documents=["page-0"], comment="ü\u2028")
        kept = engine.feedback("where is the buoy?", opened="page-1", rank=2)
        assert (kept["kind"], kept["good"], kept["rank"], kept["documents"]) == ("opened", None, 2, ["page-1"])
        for wrong in ({}, {"good": True, "opened": "page-1"}, {"opened": "page-1", "rank": 0}):
            with pytest.raises(SettingsError):
                engine.feedback("where?", **wrong)  # type: ignore[arg-type]
        part = engine.within(Filter(documents={"page-0"}))
        for call in (part.list_feedback, lambda: part.feedback("where?", good=True)):
            with pytest.raises(SettingsError, match="part of the collection"):
                call()
    with Engine.open(place) as engine:
        first, second = engine.list_feedback()
        assert (first["comment"], second) == ("ü\u2028", kept)
        asked = make_questions(engine, sources=["feedback"], feedback=engine.list_feedback())
        assert [dict(each.relevant) for each in asked] == [{"pages/anchor.md": 1.0}, {"pages/buoy.md": 0.5}]
        receipt = engine.erase(["page-1"])
        assert any("1 judgement" in note for note in receipt.notes)
        assert engine.list_feedback() == [first]
        last = [engine.feedback(f"question {at}?", good=True)["id"] for at in range(20)]
        assert engine.opened.records is not None
        trim_feedback(engine.opened.records, max_chars=2000)
        left = [each["id"] for each in engine.list_feedback()]
        assert 3 < len(left) < 20
        assert left == last[-len(left) :]
    with Engine.open(":memory:", embedder="hashed") as engine:
        kept = engine.feedback("where?", good=True)
        assert engine.list_feedback() == [kept]


def test_a_line_of_feedback_that_was_cut_off_loses_no_other(engine: Engine) -> None:
    records = engine.opened.records
    assert records is not None
    first = engine.feedback("where is the anchor?", good=True, documents=["page-0"])
    for odd in ('{"id": "torn\n', "[]\n", "{}\n", "[" * 100_000 + "\n", "1" * 5000 + "\n", "\n"):
        records.append("feedback", odd)
    second = engine.feedback("where is the buoy?", good=True, documents=["page-1"])
    assert engine.list_feedback() == [first, second]
    assert len(make_questions(engine, sources=["feedback"], feedback=engine.list_feedback())) == 2
    records.write("feedback", "x" * 5000)
    trim_feedback(records, max_chars=1000)
    assert engine.list_feedback() == []


def test_two_writers_of_one_record_never_mix(engine: Engine) -> None:
    texts, records = ["a" * 200_000, "b" * 200_000], engine.opened.store.records

    def write(text: str) -> None:
        for _ in range(20):
            records.write("tuned", text)
            assert records.read("tuned") in texts

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, texts))


def test_damaged_records_are_named_and_do_not_keep_the_collection_closed(engine: Engine, tmp_path: Path) -> None:
    engine.opened.store.records.write("tuned", "{}")
    engine.feedback("where is the anchor?", good=True)
    engine.close()
    (file,) = tmp_path.rglob("clew.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("UPDATE named SET value = '7'")
    with Engine.open(file.parent.parent) as again:
        with pytest.raises(CollectionDamaged, match="of feedback is damaged"):
            again.list_feedback()
        assert [each.area for each in again.doctor().defects] == ["truth"]
        assert all(each.is_repaired for each in again.doctor(repair=True).defects)
        assert again.list_feedback() == []
