"""`doctor`: names what is wrong with a collection in either store, and repairs it."""

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import CollectionDamaged, Document, Engine, Filter, Message, Settings, SettingsError, StoreMismatch
from clew.core.doctor import AREAS
from clew.core.settings import IngestionConfig, StoreConfig
from clew.drivers.store import inspection
from clew.drivers.store.sqlite.shard import ShardIndex
from tests.engine.chosen import OpenEngine
from tests.engine.upkeep.changes import PAGES, START, Change, change_folder, fill, make_change


def test_a_sound_collection_has_no_defects(filled: Engine) -> None:
    report = filled.doctor()
    assert report.is_sound
    assert report.defects == ()
    assert report.checked == {"documents": 5, "chunks": filled.status().chunks}


def test_what_is_changed_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(store=StoreConfig(exact_below=0))
    read_facets, count_chunks = inspection.read_facets, ShardIndex.count_chunks
    made = list[str]()

    def replace_one(meanwhile: str) -> None:
        if made.count(meanwhile) < 3:
            made.append(meanwhile)
            other.add_documents(
                [Document("d1", f"Version {len(made)} of the page on the vault.", (), meta={"v": made})]
            )

    def read_meanwhile(backend: Any, ids: Any) -> Any:
        replace_one("filters")
        return read_facets(backend, ids)

    def count_meanwhile(self: ShardIndex) -> int:
        replace_one("index")
        return count_chunks(self)

    monkeypatch.setattr(inspection, "read_facets", read_meanwhile)
    monkeypatch.setattr(ShardIndex, "count_chunks", count_meanwhile)
    with Engine.open(tmp_path, embedder="hashed:32", settings=settings) as engine:
        fill(engine)
    with (
        Engine.open(tmp_path, embedder="hashed:32", settings=settings) as engine,
        Engine.open(tmp_path, embedder="hashed:32", settings=settings) as other,
    ):
        engine.search("vault")  # it holds the index, which else is passed over
        assert [each.problem for each in engine.doctor().defects if each.severity == "damage"] == []
    assert {"filters", "index"} == set(made)


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("UPDATE chunks SET text = replace(text, 'vault', 'fault')", lambda engine: engine.search("keys")),
        ("UPDATE documents SET title = 'another'", lambda engine: list(engine.list())),
        ("UPDATE pieces SET text = replace(text, 'vault', 'fault')", lambda engine: engine.read("d1")),
        ("UPDATE pieces SET sections = '[]x'", lambda engine: engine.read("d1")),
        ("DELETE FROM pieces WHERE n = 0", lambda engine: engine.read("d1")),
    ],
)
def test_a_row_that_is_not_as_it_was_written_is_an_error_and_never_shown(
    filled: Engine, change: Change, sql: str, read: Callable[[Engine], Any]
) -> None:
    change(sql)
    with pytest.raises(CollectionDamaged, match=r"Engine\.doctor"):
        read(filled)
    assert not filled.doctor().is_sound


def test_missing_summaries_are_named_and_made(open_engine: OpenEngine) -> None:
    settings = Settings(ingestion=IngestionConfig(summaries="extractive"))
    engine = open_engine(embedder="hashed:32", settings=settings)
    fill(engine)
    (stored,) = engine.opened.store.stored_documents(["d1"])
    bare = replace(stored, document=replace(stored.document, summary="", summary_by=""), summary_vector=None)
    engine.opened.store.put_many([bare])  # as an earlier version left it that was killed between the two
    (stored,) = engine.opened.store.stored_documents(["d2"])
    engine.opened.store.put_many([replace(stored, summary_vector=None)])
    report = engine.doctor()
    assert [(each.area, each.document) for each in report.defects] == [("summaries", "d1")]  # that of d2 is pending
    assert engine.doctor(repair=True).is_sound
    assert engine.doctor().defects == ()
    assert all(record.summary for record in engine.list(Filter(kinds=frozenset({"page"}))))


LONG = [
    Message(f"part {n} of the tale", "ann", START + timedelta(minutes=n), f"t{n}", "ops", "t0" if n else None)
    for n in range(300)
]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM blocks WHERE block = 0",
        "UPDATE blocks SET chars = chars + 1 WHERE block = 1",
        "UPDATE blocks SET chunks = chunks + 1 - 2 * block WHERE block < 2",
        "UPDATE blocks SET block = -1 WHERE block = 1",
        "UPDATE pieces SET chars = chars + 1 WHERE n = 257",
        "DELETE FROM pieces WHERE n = 257",
    ],
)
def test_a_place_in_a_long_thread_is_right_or_an_error_and_repaired(
    open_engine: OpenEngine, request: pytest.FixtureRequest, sql: str
) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_messages(LONG)
    change = make_change(request, engine)
    (record,) = engine.list()

    def list_places(asked: str) -> list[tuple[str, int, int]]:
        hits = engine.search(f"290 291 292 {asked}", strategy="lexical", k=3)
        return sorted((hit.chunk.text, hit.chunk.start, hit.chunk.end) for hit in hits)

    before, text = list_places("before"), engine.read(record.id).text
    engine.add_documents([Document("other", "something else")])  # what was shown before is remembered until a change
    assert [shown for shown, _, _ in before] == [f"part {n} of the tale" for n in (290, 291, 292)]
    assert all(text[start:end] == shown for shown, start, end in before)
    change(sql)
    if "pieces" in sql or "block <" in sql or "= -1" in sql:  # the blocks before theirs have the same sizes together
        assert list_places("damaged") == before
    else:
        with pytest.raises(CollectionDamaged, match=r"place of the chunk.*Engine.doctor"):
            list_places("damaged")
    assert record.id in {defect.document for defect in engine.doctor().defects}
    if "pieces" in sql:  # the text cannot be trusted
        return
    assert engine.doctor(repair=True).is_sound
    assert engine.doctor().defects == ()
    assert list_places("repaired") == before


def test_documents_of_a_few_words_are_sound(open_engine: OpenEngine) -> None:
    """Two hashes may be further apart than a signed number of 64 bits can say."""
    rng = random.Random(5)
    words = [f"word{n}" for n in range(500)]
    engine = open_engine(embedder="hashed:16")
    engine.add_documents([Document(f"d{n}", " ".join(rng.sample(words, rng.randint(1, 3))), ()) for n in range(300)])
    assert engine.doctor().defects == ()


def test_terms_in_another_order_are_named_and_repaired(tmp_path: Path) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        (stored,) = engine.opened.store.stored_documents(["d1"])
        turned = tuple(replace(each, hashes=each.hashes[::-1], counts=each.counts[::-1]) for each in stored.terms)
        engine.opened.store.put_many([replace(stored, terms=turned)])  # PostgreSQL has no order of its own
        assert [(each.area, each.document) for each in engine.doctor().defects] == [("postings", "d1")]
        assert engine.doctor(repair=True).is_sound
        assert engine.doctor().defects == ()


def test_an_engine_that_sees_a_part_cannot_be_examined(filled: Engine) -> None:
    with pytest.raises(SettingsError, match="whole collection"):
        filled.within(Filter(kinds=frozenset({"page"}))).doctor()


def test_a_log_that_lost_changes_is_noticed_and_accepted(tmp_path: Path) -> None:
    path = tmp_path / "team"
    engine = Engine.open(path, embedder="hashed:32")
    fill(engine)
    old = (path / "default" / "clew.db").read_bytes()
    engine.drop("d0")
    engine.close()
    whole = (path / "default" / "clew.db").read_bytes()
    (path / "default" / "clew.db").write_bytes(old or whole)
    (path / "default" / "clew.db-wal").write_bytes(b"")
    with pytest.raises(CollectionDamaged, match=r"changes are missing.*doctor\(repair=True\)"):
        Engine.open(path, embedder="hashed:32")
    report = Engine.accept_missing_changes(path)
    assert [(each.area, each.remedy, each.is_repaired) for each in report.defects] == [("truth", "accept", True)]
    assert Engine.accept_missing_changes(path).defects == ()
    with Engine.open(path, embedder="hashed:32") as engine:
        assert engine.doctor().is_sound


def leave_open(path: Path, word: str) -> None:
    """Fills a collection as a process does that ends without closing it."""
    code = (
        "import os, sys; from clew import Document, Engine; e = Engine.open(sys.argv[1], embedder='hashed:32');"
        " e.add_documents([Document(f'{sys.argv[2]}{n}', f'The {sys.argv[2]} of part {n}.') for n in range(3)]);"
        " os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path), word], check=True)


@pytest.mark.slow
def test_the_log_of_another_collection_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    for name in ("falcon", "kestrel"):
        leave_open(tmp_path / name, name)
    shutil.copytree(tmp_path / "falcon", tmp_path / "copy")
    falcon, kestrel = (tmp_path / name / "default" for name in ("falcon", "kestrel"))
    own = (falcon / "clew.db-wal").read_bytes()
    shutil.copy(kestrel / "clew.db-wal", falcon / "clew.db-wal")
    (falcon / "clew.db-shm").unlink()
    for _ in range(2):
        with pytest.raises(CollectionDamaged, match=r"is of another collection; put its own log back.*repair=True"):
            Engine.open(tmp_path / "falcon", embedder="hashed:32")
    shutil.copytree(tmp_path / "falcon", tmp_path / "taken")
    (falcon / "clew.db-wal").write_bytes(own)
    (falcon / "clew.db-shm").unlink(missing_ok=True)
    for path in (tmp_path / "falcon", tmp_path / "copy"):
        with Engine.open(path, embedder="hashed:32") as engine:
            assert [record.id for record in engine.list()] == ["falcon0", "falcon1", "falcon2"]
    report = Engine.accept_missing_changes(tmp_path / "taken")
    assert [(each.remedy, "another collection" in each.problem) for each in report.defects] == [("accept", True)]
    assert Engine.accept_missing_changes(tmp_path / "taken").defects == ()
    for name in ("clew.db", "clew.db-wal"):  # together they are whole
        shutil.copy(kestrel / name, falcon / name)
    with Engine.open(tmp_path / "falcon", embedder="hashed:32") as engine:
        assert [record.id for record in engine.list()] == ["kestrel0", "kestrel1", "kestrel2"]


def test_a_whole_file_of_another_collection_may_be_put_in(tmp_path: Path) -> None:
    for name in ("falcon", "kestrel"):
        with Engine.open(tmp_path / name, embedder="hashed:32") as engine:
            engine.add_documents([Document(name, f"The {name} sleeps.", ())])
    shutil.copy(tmp_path / "kestrel" / "default" / "clew.db", tmp_path / "falcon" / "default" / "clew.db")
    with Engine.open(tmp_path / "falcon", embedder="hashed:32") as engine:
        assert [record.id for record in engine.list()] == ["kestrel"]


def test_another_format_is_refused_with_advice(tmp_path: Path) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
    with closing(sqlite3.connect(tmp_path / "default" / "clew.db")) as db:
        db.execute("PRAGMA user_version = 2")
        db.execute("ALTER TABLE meta DROP COLUMN pending")
    with pytest.raises(StoreMismatch, match=r"earlier Clew.*Engine.export"):
        Engine.open(tmp_path, embedder="hashed:32")
    (listed,) = Engine.collections(tmp_path)
    assert "earlier Clew" in listed.problem
    with closing(sqlite3.connect(tmp_path / "default" / "clew.db")) as db:
        db.execute("PRAGMA user_version = 70")
    with pytest.raises(StoreMismatch, match="pip install --upgrade clew"):
        Engine.open(tmp_path, embedder="hashed:32")


def test_every_area_is_one_that_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert all(f"`{area}`" in page for area in AREAS)


@pytest.mark.parametrize("facets", ["[]", "{", "7", '["kind\x1fnote"]'])
def test_damaged_facets_of_a_document_hide_it_from_no_filter_and_show_it_through_none(
    tmp_path: Path, facets: str
) -> None:
    with Engine.open(tmp_path / "team", embedder="hashed:32") as engine:
        engine.add_documents([PAGES[0], replace(PAGES[1], kind="note", access={"hr"})])
        change_folder(tmp_path / "team" / "default", "UPDATE documents SET facets = ?", facets)
        for where, ids in (
            (Filter(), ["d0", "d1"]),
            (Filter(kinds={"page"}), ["d0"]),
            (Filter(kinds={"note"}), ["d1"]),
            (Filter(access={"staff"}), ["d0"]),
            (Filter(access={"hr"}), ["d0", "d1"]),
        ):
            assert [record.id for record in engine.list(where)] == ids
            assert [engine.within(where).read(each).id for each in ids] == ids
        report = engine.doctor(repair=True)
        assert {each.document for each in report.defects} == {"d0", "d1"}
        assert report.is_sound
