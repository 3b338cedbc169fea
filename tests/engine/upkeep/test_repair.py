"""`doctor` with `repair`: what stops midway loses nothing, and only what is proved to be damaged is removed."""

import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Document, Engine, Filter
from clew.core.errors import CollectionDamaged, DriverFailed
from clew.core.protocols import Role
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store import inspection
from tests.engine.chosen import OpenEngine
from tests.engine.upkeep.changes import Change, change_folder, cure, fill, make_change
from tests.soak import choose_runs

THREAD = "(SELECT row FROM documents WHERE kind = 'thread')"


class FailingEmbedder(HashedEmbedder):
    """A model that raises an error while there is one."""

    error: BaseException | None = None

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        if self.error:
            raise self.error
        return super().embed(texts, role=role)


def find_thread(engine: Engine) -> str:
    (thread,) = [record.id for record in engine.list() if record.kind == "thread"]
    return thread


def test_a_repair_that_stops_midway_loses_no_chunks(open_engine: OpenEngine, request: pytest.FixtureRequest) -> None:
    embedder = FailingEmbedder(32)
    engine = open_engine(embedder=embedder)
    fill(engine)
    before = engine.status().chunks
    shown = [(hit.chunk.id, hit.score) for hit in engine.search("rota part", k=5)]
    make_change(request, engine)(
        f"UPDATE chunks SET context = 'forged' WHERE row = (SELECT min(row) FROM chunks WHERE doc = {THREAD})"
    )
    embedder.error = DriverFailed("the embedder is away")
    assert not engine.doctor(repair=True).is_sound
    assert engine.status().chunks == before
    embedder.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        engine.doctor(repair=True)
    assert engine.status().chunks == before
    embedder.error = None
    assert engine.doctor(repair=True).is_sound  # what is left to do is vectors
    engine.backfill()
    assert engine.status().pending == 0
    assert engine.doctor(full=True).defects == ()
    assert [(hit.chunk.id, hit.score) for hit in engine.search("rota part", k=5)] == shown


@pytest.mark.parametrize("kind", ["page", "thread"])
def test_a_document_or_thread_without_chunks_is_damaged_and_gets_them(filled: Engine, kind: str) -> None:
    doc_id = find_thread(filled) if kind == "thread" else "d1"
    (stored,) = filled.opened.store.stored_documents([doc_id])
    bare = replace(stored, chunks=(), terms=(), vectors=np.zeros((0, 32), np.float32), summary_vector=None)
    filled.opened.store.put_many([bare])
    report = filled.doctor()
    assert not report.is_sound
    assert ("sizes", doc_id, "rechunk") in {(each.area, each.document, each.remedy) for each in report.defects}
    cure(filled)
    assert doc_id in {hit.document.id for hit in filled.search("rota vault", k=50)}


def test_an_error_that_says_nothing_of_the_rows_removes_nothing(
    filled: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(*_: Any) -> None:
        raise DriverFailed("disk I/O error; try again")

    with monkeypatch.context() as patched:
        patched.setattr(inspection, "read_stored_documents", fail)
        with pytest.raises(DriverFailed, match="disk I/O error"):
            filled.doctor(repair=True)
    assert len(list(filled.list())) == 5
    assert filled.doctor(full=True).defects == ()


def test_a_document_that_was_added_anew_since_it_was_found_damaged_is_kept(
    filled: Engine, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("pieces", "chunks"):  # else its chunks say what it was
        change(f"UPDATE {table} SET text = 'forged' WHERE doc IN (SELECT row FROM documents WHERE id IN ('d0', 'd1'))")
    repair = type(filled.opened.store).repair

    def add_first(store: Any, defects: Any) -> None:
        filled.add_documents([Document("d0", "It is whole again.")])
        repair(store, defects)

    monkeypatch.setattr(type(filled.opened.store), "repair", add_first)
    report = filled.doctor(repair=True)
    assert [each.document for each in report.defects if each.remedy == "remove"] == ["d1"]
    assert filled.read("d0").text == "It is whole again."
    assert "d1" not in {record.id for record in filled.list()}
    monkeypatch.undo()
    assert filled.doctor().is_sound


@pytest.mark.parametrize(
    ("sql", "lost"),
    [
        ("UPDATE pieces SET text = 'forged' WHERE doc = (SELECT row FROM documents WHERE id = 'd1')", ""),
        ("DELETE FROM pieces WHERE doc = (SELECT row FROM documents WHERE id = 'd1')", ""),
        (f"UPDATE pieces SET text = 'forged', chars = 6 WHERE doc = {THREAD} AND n = 2", ""),
        (f"DELETE FROM pieces WHERE doc = {THREAD} AND n = 4", ""),
        (f"UPDATE pieces SET parent = 'forged' WHERE doc = {THREAD} AND n = 1", ""),
        ("UPDATE documents SET title = 'Forged', access = '[\"all\"]', chars = 7 WHERE id = 'pay'", ""),
        (f"UPDATE documents SET title = 'Forged' WHERE row = {THREAD}", ""),
        ("UPDATE pieces SET sections = '[]x' WHERE doc = (SELECT row FROM documents WHERE id = 'd1')", ""),
        (
            f"UPDATE pieces SET text = 'forged' WHERE doc = {THREAD} AND n = 2;"
            f" UPDATE chunks SET text = 'forged' WHERE doc = {THREAD} AND piece = 2",
            "m2",
        ),
    ],
)
def test_a_text_that_is_sound_or_said_by_its_chunks_is_kept_whatever_else_is_damaged(
    filled: Engine, change: Change, sql: str, lost: str
) -> None:
    pay = Document("pay", "# Wages\n\nThey are paid on the last Friday.", title="Pay", access=frozenset({"hr"}))
    filled.add_documents([pay])
    before = {record.id: filled.read(record.id) for record in filled.list()}
    thread = find_thread(filled)
    for statement in sql.split(";"):
        change(statement)
    assert "keep" in {each.remedy for each in cure(filled).defects}
    after = {record.id: filled.read(record.id) for record in filled.list()}
    assert find_thread(filled) == thread
    sections = [each for each in before[thread].sections if each.id != lost]
    assert [(each.id, each.author, each.at) for each in after[thread].sections] == [
        (each.id, each.author, each.at) for each in sections
    ]
    texts = {key: each.text.strip() for key, each in before.items()}
    texts[thread] = "".join(before[thread].text[each.start : each.end] for each in sections).strip()
    assert {key: each.text.strip() for key, each in after.items()} == texts
    assert {hit.document.id for hit in filled.search("rota vault wages", k=50)} == set(before)
    if "access" in sql:  # nobody who is let in by a label sees what another label may have been put on
        assert after["pay"].access == frozenset()
        assert after["pay"].title == "Wages"  # its first heading
        for label in ("hr", "all"):
            seen = filled.within(Filter(access=frozenset({label})))
            assert "pay" not in {hit.document.id for hit in seen.search("wages are paid", k=50)}
    filled.add_documents([pay])
    assert filled.read("pay").access == {"hr"}


def test_a_document_of_which_a_part_is_kept_is_read_anew_by_the_next_add(tmp_path: Path) -> None:
    file, store = tmp_path / "page.md", tmp_path / "store"
    file.write_text("# Keys\n\nThey rotate every ninety days.\n", "utf-8")
    with Engine.open(store, embedder="hashed:32") as engine:
        engine.add(file)
        change_folder(store / "default", 'UPDATE documents SET meta = \'{"owner": "eve"}\'')
        assert [each.remedy for each in engine.doctor(repair=True).defects] == ["keep"]
        assert [hit.chunk.text for hit in engine.search("keys rotate", strategy="lexical", k=1)]
        assert len(engine.add(file).changed) == 1
        (record,) = engine.list()
        assert (record.access, Path(record.uri).name) == (None, "page.md")


def test_what_is_removed_or_damaged_is_named_though_a_record_is_damaged(
    open_engine: OpenEngine, request: pytest.FixtureRequest
) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_documents([Document(f"d{n}", f"Part {n} of the tale.", uri=f"tale/{n}.md") for n in range(3)])
    change = make_change(request, engine)
    change("UPDATE pieces SET text = 'forged' WHERE doc = (SELECT row FROM documents WHERE id = 'd0')")
    change("UPDATE documents SET title = 'forged' WHERE id = 'd1'")
    problems = {each.document: each.problem for each in engine.doctor().defects}
    assert "'tale/0.md'" in problems["d0"]
    assert "'tale/1.md'" in problems["d1"]


def test_a_page_without_chunks_is_told_and_added_again_only_if_it_has_a_text(tmp_path: Path) -> None:
    (tmp_path / "bare.md").write_text("---\ntitle: A title alone\n---\n", "utf-8")
    (tmp_path / "page.md").write_text("# Keys\n\nThey rotate every ninety days.\n", "utf-8")
    with Engine.open(tmp_path / "store", embedder="hashed:32") as engine:
        engine.add(tmp_path / "bare.md", tmp_path / "page.md")
        (told,) = engine.doctor().defects
        assert (told.area, told.severity) == ("sizes", "advice")
        assert "no search finds 1 document" in told.problem
        assert "bare.md" in told.problem
        page = next(record.id for record in engine.list() if record.chunks)
        (stored,) = engine.opened.store.stored_documents([page])
        none = np.zeros((0, 32), np.float32)
        engine.opened.store.put_many([replace(stored, chunks=(), terms=(), vectors=none, summary_vector=None)])
        report = engine.add(tmp_path / "bare.md", tmp_path / "page.md")
        assert [Path(each).name for each in report.changed] == ["page.md"]
        assert report.skipped == 1
        assert engine.search("keys rotate")[0].document.id == page


def spoil_row_number(file: Path, table: str) -> None:
    """Changes one byte: the number of the first row in the b-tree of a table."""
    with closing(sqlite3.connect(file)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(file.read_bytes())
    page = (root - 1) * size
    while data[page] == 5:  # an inner page: on to its first child
        cell = page + int.from_bytes(data[page + 12 : page + 14])
        page = (int.from_bytes(data[cell : cell + 4]) - 1) * size
    at = page + int.from_bytes(data[page + 8 : page + 10])
    while data[at] & 0x80:  # the length of the row
        at += 1
    data[at + 1] += 60
    file.write_bytes(bytes(data))


def show(engine: Engine) -> tuple[dict[str, str], list[list[str]]]:
    texts = {record.id: engine.read(record.id).text.strip() for record in engine.list()}
    return texts, [
        [hit.chunk.id for hit in engine.search("rota vault", strategy=strategy)] for strategy in ("lexical", "semantic")
    ]


@pytest.mark.parametrize("table", ["documents", "chunks", "signals"])
def test_a_wrong_byte_in_the_tree_of_a_table_is_found_and_cured_by_one_repair(tmp_path: Path, table: str) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        before = show(engine)
    spoil_row_number(tmp_path / "default" / "clew.db", table)
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        assert not engine.doctor().is_sound
        assert engine.doctor(repair=True).is_sound
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        assert engine.doctor(full=True).defects == ()
        assert show(engine) == before


def test_pages_that_cannot_be_read_take_no_others_with_them(tmp_path: Path) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        engine.add_documents([Document(f"d{n}", f"Part {n} of the tale of the vault. " * 40) for n in range(60)])
        before = show(engine)
    file = tmp_path / "default" / "clew.db"
    data = file.read_bytes()
    at = data.index(b"Part 30 of the tale") // 8192 * 8192
    file.write_bytes(data[:at] + bytes(8192) + data[at + 8192 :])
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        cure(engine)
        assert show(engine) == before  # each text is stored twice, in its pieces and its chunks


@pytest.mark.parametrize(("statement", "is_cured"), [(b"CREATE INDEX chunks_doc", True), (b"CREATE TABLE docu", False)])
def test_bytes_that_are_no_text_among_the_names_of_tables_are_damage(
    tmp_path: Path, statement: bytes, is_cured: bool
) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        before = show(engine)
    file = tmp_path / "default" / "clew.db"
    file.write_bytes(file.read_bytes().replace(statement, statement[:-3] + b"\xff" + statement[-2:]))
    with pytest.raises(CollectionDamaged, match=r"`Engine\.doctor`"):
        Engine.open(tmp_path, embedder="hashed:32")
    if not is_cured:
        with pytest.raises(CollectionDamaged, match="restore a backup"):
            Engine.accept_missing_changes(tmp_path)
        return
    assert Engine.accept_missing_changes(tmp_path).is_sound
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        assert engine.doctor(full=True).defects == ()
        assert show(engine) == before


@pytest.mark.parametrize("doc", [1, 4, 99])
def test_a_chunk_that_is_moved_to_another_document_is_cured_by_one_repair(tmp_path: Path, doc: int) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        before = show(engine)
        change_folder(tmp_path / "default", "UPDATE chunks SET doc = ? WHERE row = 3", doc)
        cure(engine)
        assert show(engine) == before


@pytest.mark.parametrize("kind", ["page", "thread"])
def test_a_text_whose_record_is_gone_is_kept_and_named(filled: Engine, change: Change, kind: str) -> None:
    lost = find_thread(filled) if kind == "thread" else "d1"
    texts = show(filled)[0]
    change(f"DELETE FROM documents WHERE id = '{lost}'")
    (told,) = [each for each in cure(filled).defects if each.remedy == "keep"]
    assert texts[lost][:16] in told.problem
    assert told.document.startswith("recovered-")
    assert f"kept as {told.document}" in told.advice
    texts[told.document] = texts.pop(lost)
    assert show(filled)[0] == texts
    assert told.document in {hit.document.id for hit in filled.search("rota vault", k=50)}


@pytest.mark.parametrize("number", [999_999, -7, 3])
def test_a_document_whose_number_is_damaged_keeps_its_record(tmp_path: Path, number: int) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        engine.add_documents([Document("pay", "The vault pays on Friday.", title="Pay", uri="pay.md", access={"red"})])
        before = [engine.read(record.id) for record in engine.list()]
        change_folder(tmp_path / "default", "UPDATE documents SET row = ? WHERE id = 'pay'", number)
        found = engine.doctor().defects
        assert "the number of the document 'pay.md' is damaged" in {each.problem for each in found}
        assert not any(each.remedy == "remove" for each in found)
        cure(engine)
        assert [engine.read(record.id) for record in engine.list()] == before
        assert "pay" in {hit.document.id for hit in engine.search("pays on Friday", where=Filter(access={"red"}))}


DERIVED = ("blocks", "signals", "gone", "staged", "named", "chunks")


@pytest.mark.parametrize("table", [*DERIVED, "documents", "pieces"])
def test_a_missing_table_is_named_and_what_is_left_is_kept(tmp_path: Path, table: str) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        before = show(engine)
    change_folder(tmp_path / "default", f"DROP TABLE {table}")
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        assert f"no such table: {table}" in engine.doctor().defects[0].problem
        assert f"no such table: {table}" in "".join(each.problem for each in cure(engine).defects)
        if table in DERIVED:
            assert show(engine) == before
        assert sorted(show(engine)[0].values()) == sorted(before[0].values())


@pytest.mark.parametrize("change", ["awaits = 'x'", "doc = 77", "sections = '[]x'", "sum = 5", "text = 'forged'"])
def test_a_page_whose_piece_is_damaged_keeps_its_lines(tmp_path: Path, change: str) -> None:
    text = "# Budget\n\nVault keys are here.\n\n## Poseidon\n\nRota of the week.\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        engine.add_documents([Document("p", text)])
        change_folder(tmp_path / "default", f"UPDATE pieces SET {change}")
        assert engine.doctor(repair=True).is_sound
        assert engine.read("p").text == text


def test_a_damaged_staged_vector_takes_no_others_with_it(tmp_path: Path) -> None:
    with Engine.open(tmp_path, embedder="hashed:32") as engine:
        fill(engine)
        engine.reembed("hashed:64")
        change_folder(
            tmp_path / "default", "UPDATE staged SET vector = zeroblob(128) WHERE row = (SELECT max(row) FROM staged)"
        )
        cure(engine)
        assert engine.reembed("hashed:32").embedded == 1


COLUMNS = {
    "documents": ("title", "meta", "facets", "chars", "chunks", "vector", "access", "created", "revision", "sum"),
    "pieces": ("text", "sections", "chars", "message", "parent", "sum", "block"),
    "chunks": ("idx", "start", "stop", "headings", "at", "meta", "print", "text", "piece", "sum"),
    "signals": ("seconds", "length", "facets", "terms", "counts", "vector", "id", "sum"),
    "blocks": ("chars", "chunks", "sizes", "sum"),
}
VALUES = ("'x'", "7", "x'00ff'", "CAST(x'68FF' AS TEXT)", "1.5", "-1", "''", "'[1]'", "'{}'")


def test_whatever_is_written_into_rows_is_repaired_and_no_document_is_lost(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "whole", embedder="hashed:32") as engine:
        fill(engine)
        texts = {record.id: engine.read(record.id).text.strip() for record in engine.list()}
    rng = random.Random(4)
    for number in range(choose_runs(15, 150)):
        copy = shutil.copytree(tmp_path / "whole", tmp_path / str(number))
        table = rng.choice(list(COLUMNS))
        key, of = ("doc", "documents") if table in ("pieces", "blocks") else ("row", table)
        row = f"{key} = (SELECT row FROM {of} ORDER BY row LIMIT 1 OFFSET {rng.randint(0, 4)})"
        sql = f"UPDATE {table} SET {rng.choice(COLUMNS[table])} = {rng.choice(VALUES)} WHERE {row}"
        with closing(sqlite3.connect(copy / "default" / "clew.db")) as db, db, suppress(sqlite3.Error):
            db.execute(sql)
        with Engine.open(copy, embedder="hashed:32") as engine:
            assert engine.doctor(repair=True).is_sound, sql
            assert {record.id: engine.read(record.id).text.strip() for record in engine.list()} == texts, sql
            assert engine.search("rota vault"), sql
