"""Collections as a whole: listed, dropped, and not mistaken for new ones when their database is gone."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from clew import (
    CollectionLost,
    Document,
    DriverFailed,
    Engine,
    Message,
    NotFound,
    Settings,
    SettingsError,
    StoreConfig,
)
from clew.core.settings import IngestionConfig
from clew.drivers.embed.hashed import HashedEmbedder
from tests.engine.conftest import STORES

SMALL = Settings(store=StoreConfig(exact_below=0))  # with an index on disk, or a graph, from the first chunk


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, or the address of a database."""
    return str(tmp_path / "team.clew" if request.param == "folder" else request.getfixturevalue("postgres"))


def fill(place: str, collection: str, documents: int, settings: Settings | None = None) -> None:
    with Engine.open(place, collection=collection, embedder="hashed", settings=settings) as engine:
        engine.add_documents(Document(f"d{n}", f"# D{n}\n\nThe gauge {n} is read.") for n in range(documents))
        engine.enqueue_add("https://example.org/a")


def test_collections_are_listed_with_counts_embedder_times_and_size(place: str) -> None:
    fill(place, "sales", 2)
    fill(place, "ops", 3)
    Engine.open(place, collection="empty", embedder="hashed:64").close()
    empty, ops, sales = Engine.collections(place)
    assert [each.name for each in (empty, ops, sales)] == ["empty", "ops", "sales"]
    assert [(each.documents, each.embedder, each.problem) for each in (empty, ops, sales)] == [
        (0, "hashed:64", ""),
        (3, "hashed", ""),
        (2, "hashed", ""),
    ]
    assert ops.chunks == 3
    assert ops.bytes > 0
    assert empty.created is not None
    assert empty.updated is None
    assert ops.created is not None
    assert ops.updated is not None
    assert ops.created < ops.updated


def test_a_dropped_collection_is_gone_and_the_others_stay(place: str) -> None:
    fill(place, "sales", 2, SMALL)
    fill(place, "ops", 3, SMALL)
    dropped = Engine.drop_collection(place, "sales")
    assert (dropped.collection.name, dropped.collection.documents, dropped.left) == ("sales", 2, ())
    assert [each.name for each in Engine.collections(place)] == ["ops"]
    with pytest.raises(NotFound, match="no collection 'sales'"):
        Engine.open(place, collection="sales", create=False)
    with Engine.open(place, collection="ops") as engine:
        assert engine.search("which gauge is read?")
        assert len(engine.jobs()) == 1
    with Engine.open(place, collection="sales", embedder="hashed:64") as engine:
        assert engine.status().documents == 0
        assert engine.jobs() == []
    with pytest.raises(NotFound, match="no collection 'oops'"):
        Engine.drop_collection(place, "oops")


def test_what_is_not_a_place_or_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="in memory"):
        Engine.collections(":memory:")
    with pytest.raises(SettingsError, match="not a plain name"):
        Engine.drop_collection(tmp_path, "../other")
    with pytest.raises(NotFound, match=r"`Engine\.add` makes one"):
        Engine.collections(tmp_path / "missing")
    assert Engine.collections(tmp_path) == []


def test_dropping_on_a_server_leaves_no_row_and_no_graph(postgres: str) -> None:
    fill(postgres, "sales", 3, SMALL)
    fill(postgres, "ops", 2, SMALL)
    summarised = replace(SMALL, ingestion=IngestionConfig(summaries="extractive"))
    with Engine.open(postgres, collection="sales", settings=summarised) as engine:
        engine.backfill()
        engine.opened.store.flush()
        engine.opened.store.stage_vectors(HashedEmbedder(64))
    with psycopg.connect(postgres, autocommit=True) as server:
        tables = [
            row[0]
            for row in server.execute(
                "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
                " WHERE a.attname = 'collection' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
                " AND c.relnamespace = 'clew'::regnamespace"
            ).fetchall()
        ]
        assert {"documents", "pieces", "chunks", "signals", "summaries", "postings", "named", "staged"} <= set(tables)
        (number,) = server.execute("SELECT number FROM clew.collections WHERE name = 'sales'").fetchone() or (0,)

        def count_rows() -> dict[str, int]:
            counted = {}
            for table in tables:
                found = server.execute(f"SELECT count(*) FROM clew.{table} WHERE collection = %s", (number,)).fetchone()
                counted[table] = found[0] if found else -1
            return counted

        def list_graphs() -> list[str]:
            sql = "SELECT relname FROM pg_class WHERE relkind = 'i' AND relname LIKE %s"
            return [row[0] for row in server.execute(sql, (f"%_graph_{number}",)).fetchall()]

        filled = {table for table, rows in count_rows().items() if rows}
        assert {"documents", "pieces", "chunks", "signals", "summaries", "postings", "named", "staged"} <= filled
        assert list_graphs()
        Engine.drop_collection(postgres, "sales")
        assert not any(count_rows().values())
        assert list_graphs() == []
    with Engine.open(postgres, collection="ops", settings=SMALL) as engine:
        assert len(engine.search("which gauge is read?")) == 2


def test_an_engine_over_a_collection_that_was_dropped_on_a_server_says_so(postgres: str) -> None:
    with Engine.open(postgres, collection="ops", embedder="hashed") as engine:
        Engine.drop_collection(postgres, "ops")
        report = engine.add_documents([Document("a", "A buoy.")])
        assert "was removed meanwhile; open it again" in report.failed[0].reason


def test_the_owner_of_the_tables_lists_them_and_another_role_drops_only_what_it_can_name(postgres: str) -> None:
    fill(postgres, "ops", 2)
    fill(postgres, "sales", 2)
    with pytest.raises(DriverFailed, match="as the owner of the tables"):
        Engine.collections(as_address(postgres, "clew_app"))
    dropped = Engine.drop_collection(as_address(postgres, "clew_app"), "ops")
    assert dropped.collection.documents == 2
    assert [each.name for each in Engine.collections(postgres)] == ["sales"]
    with psycopg.connect(postgres) as server:
        assert server.execute("SELECT count(*) FROM clew.postings p WHERE collection = 1").fetchone() == (0,)


def as_address(url: str, user: str) -> str:
    return urlsplit(url)._replace(netloc=f"{user}@{urlsplit(url).netloc.rpartition('@')[2]}").geturl()


def test_dropping_a_folder_leaves_what_is_not_clews(tmp_path: Path) -> None:
    place = tmp_path / "team.clew"
    fill(str(place), "ops", 3, SMALL)
    folder = place / "ops"
    (folder / "sessions").mkdir()
    for own in ("notes.txt", "index/mine.txt", "sessions/mine.txt"):
        (folder / own).write_text("mine")
    dropped = Engine.drop_collection(place, "ops")
    assert dropped.left == ("index", "notes.txt", "sessions")
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    assert left == ["index/mine.txt", "notes.txt", "sessions/mine.txt"]
    assert Engine.collections(place) == []


def test_a_folder_that_is_no_collection_is_not_dropped(tmp_path: Path) -> None:
    site = tmp_path / "site" / "index"
    site.mkdir(parents=True)
    (site / "home.html").write_text("mine")
    with pytest.raises(NotFound, match="no collection 'site'"):
        Engine.drop_collection(tmp_path, "site")
    assert (site / "home.html").exists()


def test_an_open_collection_in_a_folder_is_not_dropped(tmp_path: Path) -> None:
    fill(str(tmp_path), "ops", 2)
    with Engine.open(tmp_path, collection="ops") as engine:
        engine.search("gauge")
        with pytest.raises(DriverFailed, match="open elsewhere"):
            Engine.drop_collection(tmp_path, "ops")
        assert engine.status().documents == 2
    code = "import sys; from clew import Engine; Engine.drop_collection(sys.argv[1], 'ops')"
    with Engine.open(tmp_path, collection="ops"):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert "open elsewhere" in done.stderr
    assert Engine.drop_collection(tmp_path, "ops").collection.documents == 2


# How a database is lost: each leaves the folder of a collection without one.
LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda file: file.unlink(),
    "emptied": lambda file: file.write_bytes(b""),
}


def keep_marker_alone(folder: Path) -> None:
    """What a small collection leaves when it is closed."""


def keep_index_alone(folder: Path) -> None:
    """What a large collection of an earlier Clew leaves, which made no marker."""
    (folder / "clew.collection").unlink()


def keep_logs_alone(folder: Path) -> None:
    """What a process leaves that was killed, of an earlier Clew."""
    (folder / "clew.collection").unlink()
    (folder / "index.lock").unlink(missing_ok=True)
    shutil.rmtree(folder / "index", ignore_errors=True)
    for log in ("clew.db-wal", "clew.db-shm"):
        (folder / log).write_bytes(b"left over")


@pytest.mark.parametrize("keep", [keep_marker_alone, keep_index_alone, keep_logs_alone])
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_lost_database_is_an_error_and_nothing_is_touched(
    loss: str, keep: Callable[[Path], None], tmp_path: Path
) -> None:
    large = keep is not keep_marker_alone
    fill(str(tmp_path), "ops", 3, SMALL if large else None)
    folder = tmp_path / "ops"
    keep(folder)
    LOSSES[loss](folder / "clew.db")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for options in ({}, {"create": False}, {"embedder": "hashed"}, {"embedder": "hashed:64"}):
        with pytest.raises(CollectionLost) as raised:
            Engine.open(tmp_path, collection="ops", **options)
        what = "is gone" if loss == "deleted" else "is empty"
        assert f"clew.db {what}, but this was a collection" in str(raised.value)
        assert "Engine.drop_collection`" in str(raised.value)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    (record,) = Engine.collections(tmp_path)
    assert record.problem == raised.value.message
    Engine.drop_collection(tmp_path, "ops")
    fill(str(tmp_path), "ops", 1)
    assert Engine.collections(tmp_path)[0].documents == 1


def test_a_database_without_tables_in_a_marked_folder_is_lost_too(tmp_path: Path) -> None:
    import sqlite3

    fill(str(tmp_path), "ops", 1)
    (tmp_path / "ops" / "clew.db").unlink()
    with sqlite3.connect(tmp_path / "ops" / "clew.db") as empty:
        empty.execute("PRAGMA journal_mode = WAL")
        empty.execute("VACUUM")
    with pytest.raises(CollectionLost, match="has no tables"):
        Engine.open(tmp_path, collection="ops", embedder="hashed")
    assert "has no tables" in Engine.collections(tmp_path)[0].problem


def test_a_folder_in_place_of_the_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "ops" / "clew.db").mkdir(parents=True)
    assert Engine.accept_missing_changes(tmp_path, "ops").defects == ()
    with pytest.raises(DriverFailed, match=r"clew\.db is a folder.*move it away"):
        Engine.open(tmp_path, collection="ops", embedder="hashed")
    assert "clew.db is a folder" in Engine.collections(tmp_path)[0].problem


def test_an_empty_file_in_a_fresh_folder_is_a_new_collection(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "clew.db").touch()  # what a process leaves that was killed before it wrote anything
    fill(str(tmp_path), "ops", 1)
    assert Engine.collections(tmp_path)[0].documents == 1


def test_a_restored_database_opens_again(tmp_path: Path) -> None:
    fill(str(tmp_path), "ops", 2)
    file = tmp_path / "ops" / "clew.db"
    file.rename(tmp_path / "backup")
    with pytest.raises(CollectionLost):
        Engine.open(tmp_path, collection="ops")
    (tmp_path / "backup").rename(file)
    with Engine.open(tmp_path, collection="ops") as engine:
        assert engine.status().documents == 2


def read_times(engine: Engine, doc_id: str) -> tuple[datetime, datetime]:
    (record,) = (each for each in engine.list() if each.id == doc_id)
    document = engine.read(doc_id)
    assert (record.created, record.updated) == (document.created, document.updated)
    assert record.created is not None
    assert record.updated is not None
    return record.created, record.updated


def test_created_stays_and_updated_moves_when_a_document_is_replaced(engine: Engine) -> None:
    engine.add_documents([Document("a", "The buoy is red.")])
    created, updated = read_times(engine, "a")
    assert created == updated
    assert created.tzinfo is not None
    engine.add_documents([Document("a", "The buoy is red.")])
    assert read_times(engine, "a") == (created, updated)
    engine.add_documents([Document("a", "The buoy is green.")])
    again, moved = read_times(engine, "a")
    assert again == created
    assert moved > updated


def test_created_stays_and_updated_moves_when_a_thread_grows(engine: Engine) -> None:
    engine.add_messages([Message("Is the buoy red?", channel="ops", id="m1", author="eve")])
    (record,) = engine.list()
    created, updated = read_times(engine, record.id)
    engine.add_messages([Message("It is.", channel="ops", id="m2", author="dan", reply_to="m1")])
    again, moved = read_times(engine, record.id)
    assert len(engine.read(record.id).sections) == 2
    assert again == created
    assert moved > updated
