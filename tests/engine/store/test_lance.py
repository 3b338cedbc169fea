"""Collections as Lance datasets, through the engine: the answers of other stores, versions, erasure, bad addresses."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from lance.fragment import write_fragments
from typer.testing import CliRunner

from clew import (
    ConcurrentChange,
    Document,
    DriverFailed,
    Engine,
    Filter,
    Message,
    NotFound,
    ReadOnlyStore,
    Settings,
    SettingsError,
    StoreMismatch,
)
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store.backend import CHUNK, COLUMNS, DOCUMENT, PIECE, Row, Transaction, select
from clew.drivers.store.lance.errors import explain_error
from clew.drivers.store.lance.snapshot import LanceSnapshot
from clew.drivers.store.store import Store
from clew.engine.collections import drop_collection, list_collections
from clew.surface.cli.app import app
from tests.leftovers import read_store
from tests.s3_server import make_address
from tests.soak import choose_runs

QUESTIONS = ("who rotates the keys of vault 7?", "the anchor weighs 21 tons")
STRATEGIES = ("semantic", "lexical", "hybrid", "document_boost")
SCANNED = Settings(store=replace(Settings().store, exact_below=0))
Open = Callable[..., Engine]


@pytest.fixture
def open_engine() -> Iterator[Open]:
    """Opens engines; all are closed in the end."""
    opened: list[Engine] = []

    def make(path: Any, **options: Any) -> Engine:
        opened.append(Engine.open(path, **{"embedder": "hashed:32", **options}))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def make_pages(many: int = 12) -> list[Document]:
    return [
        Document(
            f"p{n}",
            f"The anchor of ship {n} weighs {n * 7} tons.\n\nCaptain {n} likes soup on deck {n % 4}.\n\n"
            f"Ann rotates the keys of vault {n}.",
            title=f"Ship {n}",
            uri=f"ships/{n}.md",
            meta={"fleet": n % 3},
            access=frozenset({"crew"}) if n % 5 == 0 else None,
        )
        for n in range(many)
    ]


def fill(engine: Engine, many: int = 12) -> Engine:
    engine.add_documents(make_pages(many))
    engine.add_messages(
        [
            Message("Who has the lamp?", "eve", id="m1", channel="deck"),
            Message("I do, since Monday.", "dan", id="m2", channel="deck", reply_to="m1"),
        ]
    )
    return engine


def read_answers(engine: Engine) -> list[list[tuple[str, float, float, float]]]:
    return [
        [
            (hit.chunk.id, hit.score, hit.similarity, hit.relevance)
            for hit in engine.search(text, k=5, strategy=strategy, where=where)
        ]
        for text in QUESTIONS
        for strategy in STRATEGIES
        for where in (Filter(), Filter(meta={"fleet": 1}), Filter(access={"guests"}))
    ]


def read_prints(engine: Engine) -> dict[str, str]:
    return {each.document.id: each.fingerprint() for each in engine.opened.store.stored_documents()}


def damage(engine: Engine, kind: int, doc_id: str, **columns: Any) -> None:
    """Changes columns of the last row of a kind of a document without its checksum; without columns it goes."""

    def decide(tx: Transaction) -> None:
        (document,) = tx.find(select(DOCUMENT, id=[doc_id]), COLUMNS[DOCUMENT])
        rows = [document] if kind == DOCUMENT else tx.find(select(kind, doc=[document["row"]]), COLUMNS[kind])
        row = max(rows, key=lambda each: (each.get("n") or 0, each.get("idx") or 0))
        tx.remove([row])
        tx.add([{**row, **columns}] if columns else [])

    engine.opened.store._backend.write(decide)


def read_bytes(store: Store) -> bytes:
    return b"\0".join(data for _, data in read_store(store))


def test_answers_are_those_of_a_folder(open_engine: Open, tmp_path: Path, s3: str) -> None:
    folder = fill(open_engine(tmp_path / "team.clew"))
    expected = read_answers(folder)
    assert all(expected[: len(STRATEGIES)])
    assert read_answers(fill(open_engine(f"lance://{tmp_path}/lake"))) == expected
    assert read_answers(open_engine(f"lance://{tmp_path}/lake", settings=SCANNED)) == expected
    assert read_answers(fill(open_engine(s3))) == expected


def test_the_index_answers_almost_alike(open_engine: Open, tmp_path: Path) -> None:
    engine = open_engine(f"lance://{tmp_path}/lake", settings=SCANNED)
    pages = [Document("all", "\n\n".join(f"Page {n} of {n % 37} and {n * 7 % 101}." * 12 for n in range(1000)))]
    engine.add_documents(pages)
    store = engine.opened.store
    store.flush()
    assert store.stats().chunks > 256
    assert store.stats().index == "Lance IVF-PQ, re-ranked"
    found, exact = list[set[str]](), list[set[str]]()
    for n in range(20):
        (query,) = engine.opened.embedder.embed([f"Page {n * 17} of {n}."], role="query")
        found.append({hit.chunk.id for hit in store.search_vectors(query, 10)})
        exact.append({hit.chunk.id for hit in store.search_vectors(query, 10, mode="exact")})
    assert np.mean([len(a & b) / 10 for a, b in zip(found, exact, strict=True)]) >= 0.95
    engine.add_documents([Document("new", "A word that nobody said before: zymurgy.")])
    assert engine.search("zymurgy", strategy="lexical")[0].document.id == "new"
    (query,) = engine.opened.embedder.embed(["A word that nobody said before: zymurgy."], role="passage")
    assert store.search_vectors(query, 1)[0].document.id == "new"


def test_scans_do_not_grow_with_the_documents_of_an_add_and_a_search_has_two(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, batches, scans = LanceSnapshot._scan, lance.LanceDataset.to_batches, list[str]()

    def note_scan(snapshot: LanceSnapshot, sql: str, columns: Sequence[str], **options: Any) -> list[Row]:
        scans.append(sql)
        return scan(snapshot, sql, columns, **options)

    def note_batches(dataset: lance.LanceDataset, **options: Any) -> Any:
        scans.append(options["filter"])
        return batches(dataset, **options)

    def count(work: Callable[[], object]) -> int:
        scans.clear()
        work()
        return len(scans)

    monkeypatch.setattr(LanceSnapshot, "_scan", note_scan)
    monkeypatch.setattr(lance.LanceDataset, "to_batches", note_batches)
    counts = []
    for many in (2, 40):
        engine, pages = open_engine(f"lance://{tmp_path}/{many}", settings=SCANNED), make_pages(many)
        engine.add_documents(make_pages(1))
        others = [replace(page, id=f"x{page.id}", uri=f"x{page.id}") for page in pages]
        changed = [replace(page, text=f"{page.title} has sunk.") for page in pages]
        counts.append([count(partial(engine.add_documents, given)) for given in (others, pages, changed)])
        assert engine.status().documents == 2 * many
    assert counts[0] == counts[1]
    assert count(lambda: engine.opened.store.search_terms({"21": 1}, 5)) == 2


def test_indexes_that_others_make_meanwhile_are_tried_again(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fill(open_engine(f"lance://{tmp_path}", settings=SCANNED), 2)
    store = engine.opened.store
    make, optimize = lance.LanceDataset.create_scalar_index, lance.LanceDataset.optimize
    store._backend._table.copy().drop_index("terms")  # type: ignore[attr-defined]
    calls = list[str]()

    def make_twice(dataset: Any, *given: Any, **options: Any) -> None:
        calls.append(options["name"])
        if len(calls) == 1:  # another process makes the same index after this one has read the dataset
            make(dataset.checkout_version(dataset.version), *given, **options)
        make(dataset, *given, **options)

    monkeypatch.setattr(lance.LanceDataset, "create_scalar_index", make_twice)
    assert "terms" in store.maintain()[-1]
    assert calls == ["terms"]

    def refuse(dataset: Any) -> None:
        raise OSError("Retryable commit conflict for version 16: preempted. Please retry.")

    monkeypatch.setattr(lance.LanceDataset, "optimize", property(refuse))
    monkeypatch.setattr("clew.drivers.store.lance.table.INDEX_ATTEMPTS", 2)
    with pytest.raises(ConcurrentChange, match=r"^collection 'default' in .*: others changed it 2 times while"):
        store.maintain()
    monkeypatch.setattr(lance.LanceDataset, "optimize", optimize)
    assert store.maintain()


def test_a_collection_moves_from_a_folder_to_lance_and_on_to_a_server(
    open_engine: Open, tmp_path: Path, postgres: str
) -> None:
    folder = fill(open_engine(tmp_path / "team.clew"))
    prints = read_prints(folder)
    folder.export(tmp_path / "one.zip")
    lake = open_engine(f"lance://{tmp_path}/lake")
    lake.restore(tmp_path / "one.zip")
    assert read_prints(lake) == prints
    lake.export(tmp_path / "two.zip")
    server = open_engine(postgres)
    server.restore(tmp_path / "two.zip")
    assert read_prints(server) == prints
    assert read_answers(lake) == read_answers(server) == read_answers(folder)


def test_a_collection_is_read_as_of_a_time_until_an_erasure(open_engine: Open, tmp_path: Path) -> None:
    place = f"lance://{tmp_path}/lake"
    engine = open_engine(place)
    engine.add_documents([Document("a", "The word is zq-4711."), Document("b", "The tide turns.")])
    time.sleep(0.002)  # times of versions are kept to the microsecond
    before = datetime.now(UTC)
    engine.add_documents([Document("a", "The word is another.")])
    past = open_engine(place, settings=replace_as_of(before))
    assert past.read("a").text == "The word is zq-4711."
    assert [hit.document.id for hit in past.search("zq-4711", strategy="lexical")] == ["a"]
    with pytest.raises(ReadOnlyStore, match="the past stays as it is"):
        past.drop("a")
    (failure,) = past.add_documents([Document("c", "Not then.")]).failed
    assert "the past stays as it is" in failure.reason
    assert engine.read("a").text == "The word is another."
    assert b"zq-4711" in read_bytes(engine.opened.store)
    receipt = engine.erase(["a"])
    assert (receipt.documents, receipt.undone) == (("a",), ())
    assert b"zq-4711" not in read_bytes(engine.opened.store)
    with pytest.raises(NotFound, match="an erasure removed those before"):
        open_engine(place, settings=replace_as_of(before))
    assert [record.id for record in engine.list()] == ["b"]
    engine.add_documents([Document("d", "It goes on.")])
    assert engine.read("d").text == "It goes on."


def test_a_version_before_another_model_is_read_with_its_own(open_engine: Open, tmp_path: Path) -> None:
    place = f"lance://{tmp_path}/lake"
    engine = open_engine(place)
    engine.add_documents([Document("a", "The tide turns.")])
    time.sleep(0.002)
    before = datetime.now(UTC)
    engine.reembed("hashed:48")
    past = open_engine(place, embedder=None, settings=replace_as_of(before))
    assert (past.status().embedder, engine.status().embedder) == ("hashed:32", "hashed:48")
    assert past.search("the tide")[0].document.id == "a"


@pytest.mark.parametrize(("number", "said"), [(0, "earlier Clew .*`Engine.export`"), (99, "newer Clew .*; update")])
def test_a_collection_of_another_version_is_refused(tmp_path: Path, number: int, said: str) -> None:
    place = f"lance://{tmp_path / 'a'}"
    with Engine.open(place, embedder="hashed") as engine:
        fill(engine, 1)
        backend = engine.opened.store._backend
        backend.write(lambda tx: setattr(tx, "head", replace(tx.head, format=number)))  # type: ignore[call-arg]
    with pytest.raises(StoreMismatch, match=said):
        Engine.open(place, embedder="hashed")
    Engine.open(place, collection="other", embedder="hashed").close()
    assert [(each.name, bool(each.problem)) for each in Engine.collections(place)] == [
        ("default", True),
        ("other", False),
    ]
    Engine.drop_collection(place, "default")
    assert [each.name for each in Engine.collections(place)] == ["other"]


def read_vectors(engine: Engine, doc_id: str) -> list[bytes]:
    (stored,) = engine.opened.store.stored_documents([doc_id])
    return [row.astype("<f4").tobytes() for row in stored.vectors]


def read_files(folder: Path) -> bytes:
    return b"\0".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def test_an_erased_document_is_in_no_staged_vector(open_engine: Open, tmp_path: Path) -> None:
    place, lake = f"lance://{tmp_path}/a lake", tmp_path / "a lake"
    engine = fill(open_engine(place), 4)
    gone, kept = read_vectors(engine, "p1"), read_vectors(engine, "p2")
    engine.reembed("hashed:64")
    gone += read_vectors(engine, "p1")
    assert all(vector in read_files(lake) for vector in gone)
    assert all(vector in read_bytes(engine.opened.store) for vector in gone)
    receipt = engine.erase(["p1"])
    assert (receipt.documents, receipt.undone) == (("p1",), ())
    assert not any(vector in read_files(lake) for vector in gone)
    assert b"The anchor of ship 1 weighs" not in read_files(lake)
    assert all(vector in read_bytes(engine.opened.store) for vector in kept)
    assert engine.opened.store.stage_vectors(HashedEmbedder(32)) == 0  # those of the others were kept
    engine.reembed("hashed:32")
    assert read_vectors(engine, "p2") == kept
    assert engine.doctor(full=True).defects == ()


def test_staged_vectors_in_object_storage_go_with_the_document_and_the_collection(open_engine: Open, s3: str) -> None:
    engine = fill(open_engine(s3), 4)
    gone = read_vectors(engine, "p1")
    engine.reembed("hashed:64")
    receipt = engine.erase(["p1"])
    assert receipt.undone == ()
    assert not any(vector in read_bytes(engine.opened.store) for vector in gone)
    engine.close()
    drop_collection(s3, "default")
    again = open_engine(s3)
    assert not [name for name, _ in read_store(again.opened.store) if name.startswith("staged-")]


def replace_as_of(at: datetime) -> Settings:
    return Settings(store=replace(Settings().store, as_of=at.isoformat()))


@pytest.mark.slow
def test_a_lake_in_the_settings_file_is_beside_the_file_and_none_of_its_files_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "50 % hand book"
    (home / "sub").mkdir(parents=True)
    (home / "clew.toml").write_text('path = "lance://a%20lake"\n[embedder]\nname = "hashed"\n', "utf-8")
    (home / "kite.md").write_text("# Kites\n\nThe kite of the harbour is red.\n", "utf-8")
    run = partial(CliRunner().invoke, app)
    monkeypatch.chdir(home)
    first, second = (json.loads(run(["add", ".", "--json"]).stdout) for _ in range(2))
    assert (first["added"], second["added"], second["changed"]) == (["kite.md"], [], [])
    monkeypatch.chdir(home / "sub")
    assert "harbour" in run(["search", "red kite"]).stdout
    assert (home / "a lake" / "default").is_dir()
    assert not list((home / "sub").iterdir())


def test_other_stores_keep_no_versions(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="needs a collection in Lance"):
        Engine.open(tmp_path / "team.clew", embedder="hashed", settings=replace_as_of(datetime.now(UTC)))
    with pytest.raises(SettingsError, match=r"store.as_of is 'soon'"):
        Settings(store=replace(Settings().store, as_of="soon"))


@pytest.mark.parametrize("settings", [Settings(), SCANNED], ids=["in memory", "scanned"])
def test_doctor_finds_and_repairs_what_is_damaged(open_engine: Open, tmp_path: Path, settings: Settings) -> None:
    engine = fill(open_engine(f"lance://{tmp_path}", settings=settings), 4)
    assert engine.doctor(full=True).defects == ()
    before, thread = read_prints(engine), next(each.id for each in engine.list() if each.kind == "thread")
    faults: list[tuple[str, int, str, dict[str, Any]]] = [
        ("rechunk", CHUNK, "p1", {"text": "forged"}),
        ("rechunk", CHUNK, "p0", {"facets": []}),
        ("rechunk", CHUNK, "p2", {"idx": 9}),
        ("delete", CHUNK, "p1", {"doc": 999, "id": "stray"}),
    ]
    for remedy, kind, doc_id, columns in faults if settings != SCANNED else faults[:: choose_runs(3, 1)]:
        damage(engine, kind, doc_id, **columns)
        report = engine.doctor(repair=True)
        assert remedy in {each.remedy for each in report.defects}, (columns, report.defects)
        assert report.is_sound, report.defects
        assert engine.doctor(full=True).defects == ()
        assert read_prints(engine) == before
    damage(engine, DOCUMENT, "p1", title="Forged", uri="forged.md")
    assert [(each.remedy, each.is_repaired) for each in engine.doctor(repair=True).defects] == [("keep", True)]
    assert engine.read("p1").text == make_pages()[1].text
    damage(engine, PIECE, "p2")
    damage(engine, PIECE, thread, text="forged", chars=6)
    for _ in range(len(engine.opened.store.chunks("p2"))):
        damage(engine, CHUNK, "p2")
    assert {each.remedy for each in engine.doctor(repair=True).defects} >= {"remove", "keep"}
    assert engine.doctor(full=True).defects == ()
    assert [section.id for section in engine.read(thread).sections] == ["m1", "m2"]  # its chunk says it
    assert [each.id for each in engine.list()] == ["p1", thread, "p0", "p3"]


def test_collections_are_listed_and_dropped(open_engine: Open, tmp_path: Path, s3: str) -> None:
    for place in (f"lance://{tmp_path}/lake", s3):
        assert list_collections(place) == []
        for name in ("one", "two"):
            open_engine(place, collection=name).add_documents([Document("a", f"Of {name}.")])
        found = [(record.name, record.documents, record.embedder) for record in list_collections(place)]
        assert found == [("one", 1, "hashed:32"), ("two", 1, "hashed:32")]
        assert drop_collection(place, "one").collection.documents == 1
        assert [record.name for record in list_collections(place)] == ["two"]
        with pytest.raises(NotFound, match="no collection 'one'"):
            drop_collection(place, "one")


def test_a_bad_address_says_what_to_do(s3_server: str, s3: str, tmp_path: Path) -> None:
    def open_(address: str) -> None:
        Engine.open(address, embedder="hashed").close()

    with pytest.raises(DriverFailed, match="there is no such bucket; create it"):
        open_(make_address(s3_server, "nowhere"))
    bucket = s3.removeprefix("s3://").partition("/")[0]
    with pytest.raises(DriverFailed, match="refuses these credentials") as caught:
        open_(make_address(s3_server, bucket, key="stranger"))
    assert "secret" not in str(caught.value)
    with pytest.raises(DriverFailed, match="does not answer"):
        open_(make_address("http://127.0.0.1:9", bucket) + "&retry_timeout=1s")
    for address in ("s3://", "lance://"):
        with pytest.raises(SettingsError, match="names no"):
            open_(address)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DriverFailed):
        open_(f"lance://{tmp_path}/file")


def test_the_command_line_takes_the_address_and_the_time(open_engine: Open, tmp_path: Path) -> None:
    place, run = f"lance://{tmp_path}/lake", CliRunner().invoke
    (tmp_path / "page.md").write_text("# Page\n\nThe word is ember.\n")
    own = ["--path", place, "--embedder", "hashed"]
    assert run(app, [*own, "add", str(tmp_path / "page.md")]).exit_code == 0
    time.sleep(0.002)
    before = datetime.now(UTC).isoformat()
    (tmp_path / "page.md").write_text("# Page\n\nThe word is amber.\n")
    assert run(app, [*own, "add", str(tmp_path / "page.md")]).exit_code == 0
    for options, word in (([], "amber"), (["--as-of", before], "ember")):
        found = run(app, [*own, *options, "search", "word", "--strategy", "lexical", "--json"])
        assert found.exit_code == 0, found.output
        assert f"The word is {word}." in found.output
    early = run(app, [*own, "--as-of", "2001-01-01", "status"])
    assert early.exit_code != 0
    assert "has no version of 2001-01-01" in early.output


@pytest.mark.slow
def test_an_endpoint_without_encryption_says_what_it_needs() -> None:
    keys = "access_key_id=a&secret_access_key=b&region=us-east-1"
    with pytest.raises(DriverFailed, match=r"an endpoint of http:// needs allow_http=true after `\?`"):
        Engine.open(f"s3://bucket/team?endpoint=http://127.0.0.1:9&{keys}", embedder="hashed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Failed to get AWS credentials: CredentialsNotLoaded(no providers in chain)", "there are no credentials"),
        ('… in 4.403ms - 404 Not Found: <E xmlns="http://x/"><Code>NoSuchBucket</Code>', "there is no such bucket"),
        ("GET http://nosuchbucket.s3/ in 1.403s, after 3 retries - HTTP error: error sending request", "not answer"),
        ("PUT http://h/b in 1ms - Client error with status 403 Forbidden", "refuses these credentials"),
    ],
)
def test_the_cause_is_read_from_the_error_and_not_from_addresses_and_times(text: str, said: str) -> None:
    assert said in str(explain_error("s3://bucket", OSError(text)))


def test_a_file_that_was_not_written_to_its_end_is_refused_and_nothing_is_lost(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"lance://{tmp_path}"
    engine = open_engine(place)
    engine.add_documents([Document("a", "The anchor weighs 21 tons.")])

    def cut(rows: Any, *given: Any, **options: Any) -> Any:
        made = write_fragments(rows, *given, **options)
        (file,) = tmp_path.rglob(f"data/{made[0].files[0].path}")
        file.write_bytes(file.read_bytes()[:-100])
        return made

    with monkeypatch.context() as patched:
        patched.setattr("clew.drivers.store.lance.table.write_fragments", cut)
        report = engine.add_documents([Document("b", "The mast is high.")])
        assert "the disk is full" in report.failed[0].reason
    with Engine.open(place, embedder="hashed:32") as again:
        assert [record.id for record in again.list()] == ["a"]
        assert again.add_documents([Document("b", "The mast is high.")]).added
