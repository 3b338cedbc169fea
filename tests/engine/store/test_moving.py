"""A collection in one file: out of one store and into another through the engine, and what becomes of it on the way."""

import base64
import builtins
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew import Document, DriverFailed, DriverMissing, Engine, Message, Settings, SourceError, StoreMismatch
from clew.core.report import Progress
from clew.core.settings import IngestionConfig
from clew.drivers.store import bundle, rows

PAGES = {
    "vault.md": "# Vault\n\nSecrets live in the vault.\n\n## Keys\n\nSigning keys are rotated every ninety days.\n",
    "hafen.md": "# Der Hafen\n\nDie Schiffe liegen im Hafen, und die Schlüssel hängen am Brett.\n",
    "gang.md": "# 港口\n\n船在港口停泊。钥匙挂在墙上。\n",
}
QUESTIONS = ("who rotates the keys?", "wo liegen die Schiffe?", "钥匙在哪里?", "the harbour lamp")
Open = Callable[..., Engine]


@pytest.fixture
def open_engine() -> Iterator[Open]:
    """Opens engines; all are closed in the end."""
    opened: list[Engine] = []

    def make(path: Any = ":memory:", **options: Any) -> Engine:
        opened.append(Engine.open(path, **{"embedder": "hashed", **options}))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def filled(engine: Engine, many: int = 0) -> Engine:
    engine.add_documents(Document(name, text, uri=name, meta={"lang": name[:2]}) for name, text in PAGES.items())
    engine.add_messages([Message("Who has the lamp?", "eve", id="m1", channel="deck")])
    engine.add_messages([Message("I do, since Monday.", "dan", id="m2", channel="deck", reply_to="m1")])
    engine.add_documents(Document(f"d{n:03}", f"Note {n} on buoy {n % 7}.", uri=f"notes/{n}") for n in range(many))
    return engine


@pytest.fixture
def exported(open_engine: Open, tmp_path: Path) -> Path:
    """A file with a filled collection."""
    file = tmp_path / "all.zip"
    filled(open_engine()).export(file)
    return file


def prints(engine: Engine) -> dict[str, str]:
    return {each.document.id: each.fingerprint() for each in engine.opened.store.stored_documents()}


def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(hit.chunk.id, hit.score) for hit in engine.search(text, k=5, strategy=strategy)]
        for text in QUESTIONS
        for strategy in ("semantic", "lexical", "hybrid", "document_boost")
    ]


def swapped(file: Path, part: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of an exported file in which one part is another."""
    other = file.with_name("other.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == part else old.read(name))
    return other


# -- there and back


def test_to_the_server_and_back_without_embedding(open_engine: Open, postgres: str, tmp_path: Path) -> None:
    first, file = filled(open_engine(tmp_path / "first", collection="a")), tmp_path / "all.zip"
    made = first.export(file)
    assert (made.embedder, made.dim, made.documents) == ("hashed", 256, first.status().documents)
    server = open_engine(postgres, collection="a")
    server.opened = replace(server.opened, embedder=SimpleNamespace(name="hashed"))
    report = server.restore(file)
    assert (len(report.added), report.embedded, report.failed) == (made.documents, 0, ())
    assert report.chunks == made.chunks == first.status().chunks
    assert prints(server) == prints(first)
    assert answers(server) == answers(first)
    server.export(file)
    back = open_engine(tmp_path / "back")
    back.restore(file)
    assert prints(back) == prints(first)
    assert answers(back) == answers(first)
    back.add_messages([Message("Where is it?", "eve", id="m3", channel="deck", reply_to="m2")])
    assert len(back.opened.store.chunks(back.opened.store.chunks_by_id(["m3_chunk_0"])["m3_chunk_0"].doc_id)) == 3


def test_other_tools_can_read_it(open_engine: Open, tmp_path: Path) -> None:
    engine, file = filled(open_engine()), tmp_path / "all.zip"
    engine.export(file)
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["documents-00001.parquet", "chunks-00001.parquet", "manifest.json"]
        with archive.open("chunks-00001.parquet") as part:
            table = pq.read_table(part)
    assert table.num_rows == engine.status().chunks
    assert len(table["vector"][0]) == 256
    assert table["text"].to_pylist()[0] == "# Vault\n\nSecrets live in the vault."


def test_an_empty_collection_moves_too(open_engine: Open, tmp_path: Path) -> None:
    open_engine().export(tmp_path / "none.zip")
    assert open_engine().restore(tmp_path / "none.zip").added == ()


def test_many_documents_are_held_a_few_at_a_time(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_CHUNKS", 8)
    monkeypatch.setattr(bundle, "MAX_CHUNKS", 8)
    engine, file, told = filled(open_engine(), 40), tmp_path / "all.zip", list[Progress]()
    made = engine.export(file, on_progress=told.append)
    assert len(made.parts) > 8
    assert {part.rows <= 8 for part in made.parts} == {True}
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert (told[-1].stage, told[-1].done, told[-1].total) == ("exporting", made.documents, made.documents)
    other, told = open_engine(), []
    other.restore(file, on_progress=told.append)
    assert {each.stage for each in told} == {"checking", "restoring"}
    assert prints(other) == prints(engine)


def test_what_is_there_is_skipped_what_differs_is_replaced_the_rest_stays(open_engine: Open, tmp_path: Path) -> None:
    engine, file = filled(open_engine()), tmp_path / "all.zip"
    engine.export(file)
    other = open_engine()
    other.add_documents([Document("own", "Stays."), Document("vault.md", "# Vault\n\nOther.", uri="vault.md")])
    report = other.restore(file)
    assert (report.changed, report.skipped) == (("vault.md",), 0)
    assert other.read("own").text == "Stays."
    assert other.read("vault.md").text == PAGES["vault.md"]
    again = other.restore(file)
    assert (again.added, again.changed, again.skipped) == ((), (), engine.status().documents)


def test_an_edited_message_is_no_equal_document(open_engine: Open, tmp_path: Path) -> None:
    engine, file = filled(open_engine()), tmp_path / "all.zip"
    engine.export(file)
    engine.add_messages([Message("I do, since Sunday.", "dan", id="m2", channel="deck", reply_to="m1")])
    assert len(engine.restore(file).changed) == 1
    assert engine.search("lamp Monday", strategy="lexical")[0].chunk.text.endswith("Monday.")


def test_another_language_is_noted(open_engine: Open, exported: Path) -> None:
    other = open_engine(settings=Settings(ingestion=IngestionConfig(language="de")))
    (note,) = other.restore(exported).noted
    assert "'auto'" in note.reason
    assert "'de'" in note.reason


# -- faults


@pytest.mark.parametrize("part", ["documents-00001.parquet", "chunks-00001.parquet"])
def test_a_damaged_part_is_named_and_nothing_is_written(open_engine: Open, exported: Path, part: str) -> None:
    damaged = swapped(exported, part, lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:])
    other = open_engine()
    with pytest.raises(SourceError, match=f"the part {part} is damaged.*nothing was restored"):
        other.restore(damaged)
    assert other.status().documents == 0


def test_a_bit_that_fell_over_on_the_disk_is_found(open_engine: Open, exported: Path) -> None:
    data = bytearray(exported.read_bytes())
    data[len(data) // 2] ^= 4
    exported.write_bytes(data)
    with pytest.raises(SourceError, match=r"the part \S+ is damaged"):
        open_engine().restore(exported)


def test_half_a_file_and_other_files_are_refused(open_engine: Open, exported: Path, tmp_path: Path) -> None:
    engine = open_engine()
    (tmp_path / "half.zip").write_bytes(exported.read_bytes()[: exported.stat().st_size // 2])
    with pytest.raises(SourceError, match="not a whole export"):
        engine.restore(tmp_path / "half.zip")
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(SourceError, match="not an export of Clew"):
        engine.restore(tmp_path / "foreign.zip")
    with pytest.raises(SourceError, match="cannot be opened"):
        engine.restore(tmp_path / "nowhere.zip")
    newer = swapped(exported, "manifest.json", lambda data: data.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(StoreMismatch, match="newer Clew"):
        engine.restore(newer)
    missing = swapped(exported, "manifest.json", lambda data: data.replace(b"chunks-00001", b"chunks-00009"))
    with pytest.raises(SourceError, match=r"the part chunks-00009\.parquet is missing"):
        engine.restore(missing)


def test_another_embedder_is_refused(open_engine: Open, exported: Path) -> None:
    other = open_engine(embedder="hashed:64")
    with pytest.raises(StoreMismatch, match=r"hashed \(256 dimensions\).*hashed:64 \(64\)"):
        other.restore(exported)
    assert other.status().documents == 0


def test_a_restore_that_was_broken_off_goes_on(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_CHUNKS", 8)
    engine, file, other = filled(open_engine(), 40), tmp_path / "all.zip", open_engine(tmp_path / "other")
    engine.export(file)
    keep, kept = other.opened.store.put_many, list[str]()

    def stop_after_twenty(documents: Any) -> None:
        if len(kept) == 20:
            raise KeyboardInterrupt
        keep(documents)
        kept.append(documents[0].document.id)

    monkeypatch.setattr(other.opened.store, "put_many", stop_after_twenty)
    with pytest.raises(KeyboardInterrupt):
        other.restore(file)
    assert other.status().documents == 20
    again = open_engine(tmp_path / "other")
    report = again.restore(file)
    assert (report.skipped, len(report.added), report.changed) == (20, engine.status().documents - 20, ())
    assert prints(again) == prints(engine)


def test_a_document_that_the_store_refuses_does_not_stop_the_rest(
    open_engine: Open, postgres: str, tmp_path: Path
) -> None:
    engine = open_engine()
    engine.add_documents([Document("nul", "A\0B is odd."), *(Document(f"d{n}", f"Note {n}.") for n in range(3))])
    engine.export(tmp_path / "all.zip")
    report = open_engine(postgres).restore(tmp_path / "all.zip")
    assert [failure.source for failure in report.failed] == ["nul"]
    assert "NUL" in report.failed[0].reason
    assert len(report.added) == 3


def test_a_store_that_refuses_everything_ends_the_work(
    open_engine: Open, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, tried = open_engine(), list[Any]()

    def refuse(whole: Any) -> None:
        tried.append(whole)
        raise DriverFailed("the disk is full")

    monkeypatch.setattr(other.opened.store, "put_many", refuse)
    with pytest.raises(DriverFailed, match="the disk is full"):
        other.restore(exported)
    assert len(tried) == 3


def test_an_export_that_fails_leaves_the_last_one(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, file = filled(open_engine()), tmp_path / "all.zip"
    engine.export(file)
    before = file.read_bytes()
    read = engine.opened.store.stored_documents

    def break_off(doc_ids: Any = None) -> Iterator[Any]:
        yield next(read(doc_ids))
        raise KeyboardInterrupt

    monkeypatch.setattr(engine.opened.store, "stored_documents", break_off)
    with pytest.raises(KeyboardInterrupt):
        engine.export(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["all.zip"]
    with pytest.raises(DriverFailed, match="cannot be written"):
        engine.export(tmp_path / "nowhere" / "all.zip")


def test_without_pyarrow_it_says_what_to_install(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    real = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError("no pyarrow here")
        return real(name, *args, **options)

    for name in [name for name in sys.modules if name.startswith("clew.drivers.store.bundle")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("clew.drivers.store.bundle")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DriverMissing, match=r'pip install "clew\[bundle\]"'):
        open_engine().export(tmp_path / "all.zip")


def test_equal_collections_make_equal_files(open_engine: Open, tmp_path: Path) -> None:
    engine = filled(open_engine(tmp_path / "a"))
    engine.export(tmp_path / "one.zip")
    engine.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    open_engine(tmp_path / "b").export(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def forged(file: Path, change: Callable[[str, list[dict[str, Any]]], list[dict[str, Any]] | None]) -> Path:
    """A copy of an export with other rows and the right hashes: what somebody who makes exports can write."""
    other = file.with_name("forged.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        for part in manifest["parts"]:
            table = pq.read_table(io.BytesIO(old.read(part["name"])))
            rows = change(part["name"].partition("-")[0], table.to_pylist())
            sink = io.BytesIO()
            pq.write_table(table if rows is None else pa.Table.from_pylist(rows, schema=table.schema), sink)
            part["sha256"] = hashlib.sha256(sink.getvalue()).hexdigest()
            new.writestr(part["name"], sink.getvalue())
        new.writestr("manifest.json", json.dumps(manifest))
    return other


def change_rows(kind: str, **values: Any) -> Callable[[str, list[dict[str, Any]]], list[dict[str, Any]] | None]:
    """A change of the first row of the documents or the chunks."""

    def change(part: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        return [{**rows[0], **values}, *rows[1:]] if part == kind else None

    return change


SECTION = {"start": 0, "end": 1, "parent": None, "label": "", "id": "", "author": "", "at": None, "page": None}
FORGERIES = {
    "another text": change_rows("chunks", text="Pay into account 12."),
    "a span beyond the text": change_rows("chunks", start=5, end=900_000),
    "a negative span": change_rows("chunks", start=-4),
    "a chunk of another document": change_rows("chunks", document="hafen.md"),
    "a place of another chunk": change_rows("chunks", index=7),
    "no id": change_rows("chunks", id=""),
    "no text": change_rows("chunks", text=None),
    "meta that is not JSON": change_rows("chunks", meta="{"),
    "a time that is none": change_rows("chunks", at="yesterday"),
    "a vector that is not of length one": change_rows("chunks", vector=[9.0] * 256),
    "words without counts": change_rows("chunks", counts=[]),
    "words in another order": lambda part, rows: (
        [{**rows[0], "terms": rows[0]["terms"][::-1], "counts": rows[0]["counts"][::-1]}, *rows[1:]]
        if part == "chunks"
        else None
    ),
    "a length that is not the sum of the counts": change_rows("chunks", length=10**9),
    "an empty id of a document": change_rows("documents", id=""),
    "more chunks than there are": change_rows("documents", chunks=900),
    "fewer chunks than there are": change_rows("documents", chunks=0),
    "a negative count": change_rows("documents", chunks=-1),
    "a document without an id": change_rows("documents", id=None),
    "sections beyond the text": change_rows("documents", sections=[{**SECTION, "end": 900_000}]),
    "sections that leave a gap": change_rows("documents", sections=[{**SECTION, "start": 1, "end": 2}]),
    "a section under one that is not there": change_rows("documents", sections=[{**SECTION, "parent": 9}]),
    "a section under itself": change_rows("documents", sections=[{**SECTION, "parent": 0}]),
    "a short summary vector": change_rows("documents", summary_vector=[1.0]),
    "a message that is a list": change_rows("chunks", meta='{"message": ["x"]}'),
    "meta that is a list": change_rows("chunks", meta="[]"),
    "deep meta": change_rows("chunks", meta="[" * 100_000),
    "labels of the chunk that open its document": lambda part, rows: [
        {**each, **({"access": ["board"]} if part == "documents" else {"meta": '{"access": null}'})} for each in rows
    ],
    "labels that its document has not": lambda part, rows: [
        {**each, **({"access": ["board"]} if part == "documents" else {"meta": '{"access": ["staff"]}'})}
        for each in rows
    ],
    "a row twice": lambda part, rows: [*rows, rows[0]] if part == "chunks" else None,
    "no rows": lambda _, __: [],
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_right_hashes_do_not_make_a_file_true(open_engine: Open, exported: Path, tmp_path: Path, change: Any) -> None:
    target = open_engine(tmp_path / "new")
    assert len(target.restore(forged(exported, lambda _, __: None)).added) == 4
    target.drop(*(record.id for record in target.list()))
    with pytest.raises(SourceError, match=r"not as Clew writes it|where its manifest has"):
        target.restore(forged(exported, change))
    assert list(target.list()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"dim": "256"},
        {"dim": 0},
        {"parts": [{"name": "x", "rows": 1, "sha256": ""}]},
        {"parts": {}},
        {"calibration": "{"},
        {"documents": None},
        {"embedder": 3},
    ],
    ids=str,
)
def test_a_manifest_with_other_types_is_refused(open_engine: Open, exported: Path, change: dict[str, Any]) -> None:
    other = swapped(exported, "manifest.json", lambda data: json.dumps({**json.loads(data), **change}).encode())
    with pytest.raises(SourceError, match=r"no manifest.json that can be read|where its manifest has"):
        open_engine().restore(other)


KEPT = {"version": 1, "embedder": "hashed", "reach": 0.5, "spread": 0.1, "mean": 0.0, "chunks": 9, "centre": ""}
CALIBRATIONS = {
    "null": "null",
    "a list": "[]",
    "deep": "[" * 100_000,
    "a missing key": {name: value for name, value in KEPT.items() if name != "spread"},
    "another key": {**KEPT, "more": 1},
    "another width": {**KEPT, "centre": base64.b64encode(b"\0" * 12).decode()},
    "a centre that is not a number": {**KEPT, "centre": base64.b64encode(b"\xff" * 1024).decode()},
    "no number": {**KEPT, "mean": float("nan")},
    "a number that no cosine has": {**KEPT, "reach": 1e300},
    "a text": {**KEPT, "spread": "0.1"},
}


@pytest.mark.parametrize("kept", CALIBRATIONS.values(), ids=CALIBRATIONS)
def test_a_calibration_that_cannot_be_used_is_refused(open_engine: Open, exported: Path, kept: Any) -> None:
    target = open_engine()

    def put(value: Any) -> Path:
        text = value if isinstance(value, str) else json.dumps(value)
        return swapped(
            exported, "manifest.json", lambda data: json.dumps({**json.loads(data), "calibration": text}).encode()
        )

    with pytest.raises(SourceError, match=r"no manifest\.json that can be read"):
        target.restore(put(kept))
    assert list(target.list()) == []
    assert len(target.restore(put(KEPT)).added) == 4
    assert target.search(QUESTIONS[0])


def repacked(file: Path, part: str) -> bytearray:
    """An export whose parts are packed once more, with the data of one part damaged."""
    other = file.with_name("packed.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    data = bytearray(other.read_bytes())
    with zipfile.ZipFile(other) as archive:
        entry = archive.getinfo(part)
    start = entry.header_offset + 30 + len(part)
    data[start : start + 8] = b"\xff" * 8
    return data


@pytest.mark.parametrize("part", ["manifest.json", "chunks-00001.parquet"])
def test_damaged_and_encrypted_entries_are_refused(
    open_engine: Open, exported: Path, tmp_path: Path, part: str
) -> None:
    target = open_engine()
    (tmp_path / "bad.zip").write_bytes(repacked(exported, part))
    assert len(open_engine().restore(tmp_path / "packed.zip").added) == 4
    with pytest.raises(SourceError, match=r"damaged|no manifest\.json"):
        target.restore(tmp_path / "bad.zip")
    data = bytearray(exported.read_bytes())
    with zipfile.ZipFile(exported) as archive:
        at = archive.getinfo(part).header_offset
    data[at + 6] |= 1  # the flag of an encrypted entry, here and in the list of entries
    data[data.rindex(part.encode()) - 46 + 8] |= 1
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(SourceError, match=r"damaged.*encrypted|no manifest\.json.*encrypted"):
        target.restore(tmp_path / "bad.zip")


def test_a_part_that_unpacks_to_too_much_is_refused(open_engine: Open, exported: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, bytes(8 << 20) if name.startswith("chunks") else old.read(name))
    with pytest.raises(SourceError, match="unpacks to 8388608 bytes"):
        open_engine().restore(bomb)
