"""`store.vectors = "half"`: two bytes a number, in every store, with the same answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from clew import Document, Engine, NotFound, Settings, SettingsError
from clew.core.settings import StoreConfig
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.wrapped import round_to_half
from clew.surface.cli.app import app
from tests.engine.upkeep.changes import change_folder
from tests.leftovers import find_leftovers, list_vector_forms, read_store

HALF = Settings(store=StoreConfig(vectors="half"))
TOPICS = ("keys are rotated", "lunch is served", "the vault is opened", "boats leave the harbour")
DOCUMENTS = [Document(f"note-{n}", f"{TOPICS[n % 4]} on day {n}.", uri=f"{n}.md") for n in range(40)]


@pytest.fixture(params=["folder", "postgres", "lance"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new collection."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres"))
    if request.param == "lance":
        pytest.importorskip("lance")
        return f"lance://{tmp_path / 'a'}"
    return str(tmp_path / "a.clew")


def test_a_collection_keeps_half_vectors(place: str) -> None:
    with Engine.open(place, embedder="hashed", settings=HALF) as engine:
        engine.add_documents(DOCUMENTS)
    with Engine.open(place) as engine:
        hits = engine.search("keys are rotated on day 8", k=4, strategy="semantic")
        assert hits[0].document.uri == "8.md"
        stored = engine.opened.store.vectors([hit.chunk.id for hit in hits])
        for hit in hits:
            expected = engine.opened.embedder.embed([hit.chunk.embed_text], role="passage")
            np.testing.assert_array_equal(stored[hit.chunk.id], round_to_half(expected)[0])
        assert engine.doctor(full=True).is_sound


def test_equal_answers_in_every_store(tmp_path: Path, place: str) -> None:
    found: list[Any] = []
    for where in (place, str(tmp_path / "other.clew")):
        with Engine.open(where, embedder="hashed", settings=HALF) as engine:
            engine.add_documents(DOCUMENTS)
            found.append([(hit.chunk.id, hit.similarity) for hit in engine.search("boats on day 3")])
    assert found[0] == found[1]


def test_half_vectors_take_half_the_room(tmp_path: Path) -> None:
    sizes: dict[str, int] = {}
    for vectors in ("float32", "half"):
        settings = Settings(store=StoreConfig(vectors=vectors, exact_below=10))
        with Engine.open(tmp_path / vectors, embedder="hashed", settings=settings) as engine:
            engine.add_documents(DOCUMENTS)
            assert engine.search("the vault is opened on day 6.", strategy="semantic")[0].document.uri == "6.md"
            store: Any = engine.opened.store
            with store._backend._database.read_transaction() as (db, _):
                sizes[vectors] = db.execute("SELECT sum(length(vector)) FROM signals").fetchone()[0]
    assert sizes["float32"] == 2 * sizes["half"]


def test_half_vectors_take_half_the_room_on_a_server(postgres: str) -> None:
    import psycopg

    for vectors in ("float32", "half"):
        settings = Settings(store=StoreConfig(vectors=vectors, exact_below=0))
        with Engine.open(postgres, collection=vectors, embedder="hashed", settings=settings) as engine:
            engine.add_documents(DOCUMENTS)
            assert engine.status().index == "pgvector HNSW, half precision"
            found = engine.search("the vault is opened on day 6.", strategy="semantic")
            assert found[0].document.uri == "6.md"
            engine.erase([found[0].document.id])
            assert engine.doctor(full=True).defects == ()
    with psycopg.connect(postgres) as server:
        sizes = "SELECT max(pg_column_size(vector)), max(pg_column_size(half)) FROM clew.signals"
        ((whole, half),) = server.execute(sizes).fetchall()
        dim = HashedEmbedder().dim
        assert (whole // 4, half // 2) == (dim + 2, dim + 4)  # and a few bytes before them


def test_reembedding_and_restoring_round_too(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.clew", embedder="hashed") as engine:
        engine.add_documents(DOCUMENTS[:4])
        engine.export(tmp_path / "plain.clew")
    for place in ("a.clew", f"lance://{tmp_path / 'b'}"):
        address = place if place.startswith("lance") else str(tmp_path / place)
        if place.startswith("lance"):
            pytest.importorskip("lance")
        with Engine.open(address, embedder="hashed", settings=HALF) as engine:
            engine.restore(tmp_path / "plain.clew")
            assert engine.restore(tmp_path / "plain.clew").skipped == 4
            engine.reembed("hashed:64")
            chunk = engine.search("keys")[0].chunk
            (vector,) = engine.opened.store.vectors([chunk.id]).values()
            np.testing.assert_array_equal(vector, round_to_half(vector))
            assert vector.shape == (64,)


def test_an_erasure_leaves_no_form_of_a_vector(place: str) -> None:
    settings = Settings(store=StoreConfig(vectors="half", exact_below=10))
    with Engine.open(place, embedder="hashed", settings=settings) as engine:
        engine.add_documents(DOCUMENTS)
        engine.search("keys")
        store = engine.opened.store
        (stored,) = store.stored_documents(["note-7"])
        needles = set[bytes]().union(*map(list_vector_forms, stored.vectors))
        assert find_leftovers(needles, read_store(store))
        assert engine.erase(["note-7"]).complete
        assert find_leftovers(needles, read_store(store)) == {}


def test_what_is_no_vector_is_refused(tmp_path: Path) -> None:
    class Broken(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            rows = super().embed(texts, role=role)
            rows[:, 0] = np.nan
            return rows

    with Engine.open(tmp_path / "a.clew", embedder=Broken(), settings=HALF) as engine:
        report = engine.add_documents(DOCUMENTS[:1])
        assert "not a number" in report.failed[0].reason
        assert (engine.status().documents, engine.status().pending) == (1, 1)


@pytest.mark.parametrize("name", ["bge-small#128", "bge-small#int8", "bge-small+multilingual"])
def test_a_name_is_a_model_and_nothing_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound, match="there is no embedder"):
        Engine.open(tmp_path / "a.clew", embedder=name)


def test_the_setting_is_checked() -> None:
    with pytest.raises(SettingsError, match=r"store\.vectors is 'int4'; it may be float32, half"):
        StoreConfig(vectors="int4")  # type: ignore[arg-type]


def test_a_damaged_record_gets_its_width_back(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.clew", embedder="hashed:64", settings=HALF) as engine:
        engine.add_documents(DOCUMENTS[:4])
    change_folder(tmp_path / "a.clew" / "default", "UPDATE meta SET dim = dim + 1")
    done = CliRunner().invoke(app, ["-p", str(tmp_path / "a.clew"), "--embedder", "hashed:64", "doctor", "--repair"])
    assert done.exit_code == 0, done.output
    with Engine.open(tmp_path / "a.clew") as engine:
        assert engine.status().dim == 64
        assert engine.search("keys")
