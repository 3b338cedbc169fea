"""int8 vectors: the codes, their place in the name, and collections that store them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from clew import Document, Engine, Settings
from clew.core.errors import SettingsError, StoreMismatch
from clew.core.fingerprint import Fingerprints, Matcher, fingerprint_vectors
from clew.core.protocols import Embedder, Role
from clew.core.quantize import dequantize, quantize, round_to_int8
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.types import Matrix
from clew.drivers import make_embedder, pin_embedder_name
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.quantized import quantize_embedder
from clew.drivers.embed.truncated import truncate_embedder
from clew.engine.languages import advise_embedder, find_foreign_languages
from clew.surface.cli.app import app

INT8 = EmbedderConfig(name="hashed", int8=True)
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


def test_codes_are_whole_numbers_that_give_back_their_vector() -> None:
    rows = np.random.default_rng(7).normal(size=(50, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codes = quantize(rows)
    assert codes.dtype == np.int8
    assert np.abs(codes).max(axis=1).tolist() == [127] * 50
    np.testing.assert_array_equal(codes[0], np.rint(rows[0] / np.abs(rows[0]).max() * 127))
    made = dequantize(codes)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    assert (made * rows).sum(axis=1).min() > 0.999
    np.testing.assert_array_equal(quantize(made), codes)
    halves = made.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(round_to_int8(halves), made)
    assert quantize(np.zeros((1, 4), np.float32)).tolist() == [[0, 0, 0, 0]]


def test_passages_are_rounded_and_queries_are_not() -> None:
    whole, small = make_embedder(EmbedderConfig(name="hashed")), make_embedder(INT8)
    assert (small.name, small.dim, small.max_tokens) == ("hashed#int8", whole.dim, whole.max_tokens)
    one = whole.embed(["keys"], role="passage")
    np.testing.assert_array_equal(small.embed(["keys"], role="passage"), round_to_int8(one))
    np.testing.assert_array_equal(small.embed(["keys"], role="query"), whole.embed(["keys"], role="query"))
    assert make_embedder(EmbedderConfig(name="hashed#64#int8", int8=True)).name == "hashed#64#int8"
    assert make_embedder(EmbedderConfig(name="hashed", dim=64, int8=True)).name == "hashed#64#int8"
    assert pin_embedder_name("hf:a/b", "hf:a/b@123#int8") == "hf:a/b@123#int8"


def test_a_collection_keeps_int8_vectors(place: str) -> None:
    with Engine.open(place, settings=Settings(embedder=INT8)) as engine:
        engine.add_documents(DOCUMENTS)
    with Engine.open(place) as engine:  # without the setting: the collection's own
        assert engine.opened.embedder.name == "hashed#int8"
        hits = engine.search("keys are rotated on day 8", k=4, strategy="semantic")
        assert hits[0].document.uri == "8.md"
        stored = engine.opened.store.vectors([hit.chunk.id for hit in hits])
        for hit in hits:
            expected = engine.opened.embedder.embed([hit.chunk.embed_text], role="passage")[0]
            np.testing.assert_array_equal(stored[hit.chunk.id], expected)
    for other in (EmbedderConfig(name="hashed"), EmbedderConfig(name="hashed#64#int8")):
        with pytest.raises(StoreMismatch, match=r"hashed#int8.*clew reembed --to hashed"):
            Engine.open(place, settings=Settings(embedder=other))


def test_reembedding_changes_to_int8_and_back(place: str) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        engine.add_documents(DOCUMENTS)
        question = "when is lunch served on day 9?"
        before = [hit.chunk.id for hit in engine.search(question)]
        for name in ("hashed#int8", "hashed"):
            engine.reembed(name)
            assert engine.opened.embedder.name == name
            assert [hit.chunk.id for hit in engine.search(question)] == before


class Counting(HashedEmbedder):
    """An embedder that counts the passages it embeds."""

    passages = 0

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        self.passages += len(texts) * (role == "passage")
        return super().embed(texts, role=role)


def test_smaller_vectors_are_made_from_those_in_use(place: str) -> None:
    model = Counting()
    with Engine.open(place, embedder=model) as engine:
        engine.add_documents(DOCUMENTS)
        ids = [chunk.id for chunk in engine.opened.store.scan()]
        summaries = sum(bool(record.summary) for record in engine.list())
        last: Embedder = model
        for smaller in (truncate_embedder(model, 64), truncate_embedder(model, 32)):
            for target in (smaller, quantize_embedder(smaller)):
                model.passages = 0
                report = engine.reembed(target)
                is_whole = "#int8" not in last.name
                assert (model.passages == 0) is (report.embedded == 0) is is_whole, (last.name, target.name)
                assert 0 < report.embedded + report.reused <= len(ids) + summaries
                stored, texts = engine.opened.store.vectors(ids), engine.opened.store.chunks_by_id(ids)
                made = target.embed([texts[each].embed_text for each in ids], role="passage")
                np.testing.assert_allclose(np.stack([stored[each] for each in ids]), made, atol=1e-6)
                engine.reembed(discard=True)
                last = target
        assert [defect.problem for defect in engine.doctor().defects if defect.severity != "advice"] == []


def test_discarding_gives_the_room_back(tmp_path: Path) -> None:
    pages = [Document(f"{n}", f"# Day {n}\n\nThe vault is opened on day {n}. " * 3) for n in range(300)]
    with Engine.open(tmp_path / "a.clew", embedder="hashed:1024") as engine:
        engine.add_documents(pages)
        engine.opened.store.flush()
        before = engine.status().bytes
        report = engine.reembed("hashed:1024#int8")
        assert (report.embedded, report.reused >= 300) == (0, True)
        engine.reembed(discard=True)
        assert engine.status().bytes < 0.6 * before
        assert engine.search("day 9")


def test_int8_vectors_take_less_room(tmp_path: Path) -> None:
    sizes = {}
    for name in ("hashed", "hashed#int8"):
        config = Settings(
            embedder=EmbedderConfig(name=name), store=StoreConfig(exact_below=10)
        )  # with an index on disk
        with Engine.open(tmp_path / name, settings=config) as engine:
            engine.add_documents(DOCUMENTS)
            assert engine.search("the vault is opened on day 6.", strategy="semantic")[0].document.uri == "6.md"
            sizes[name] = _sum_vectors(engine)
    assert sizes["hashed"] == 4 * sizes["hashed#int8"]


def test_int8_vectors_take_half_the_room_on_a_server(postgres: str) -> None:
    import psycopg

    graph = StoreConfig(exact_below=0)
    for name in ("hashed", "hashed#int8"):
        config = Settings(embedder=EmbedderConfig(name=name), store=graph)
        with Engine.open(postgres, collection=name.replace("#", "-"), settings=config) as engine:
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


def test_int8_vectors_of_an_earlier_version_are_kept_in_half(
    postgres_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from clew.drivers.store.postgres.connect import setup

    url, steps = postgres_database("template0"), setup.list_migrations()
    with monkeypatch.context() as patch:
        later = f"{steps[12][1]}; ALTER TABLE signals ADD COLUMN half halfvec"
        patch.setattr(setup, "list_migrations", lambda: [*steps[:12], (steps[12][0], later)])
        patch.setattr(setup.OpenCollection, "is_half", False)
        with Engine.open(url, settings=Settings(embedder=INT8, store=StoreConfig(exact_below=0))) as engine:
            engine.add_documents(DOCUMENTS[:8])
            before = engine.search("keys are rotated on day 4", strategy="semantic")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("ALTER TABLE clew.signals DROP COLUMN half")
    with Engine.open(url) as engine:
        assert engine.search("keys are rotated on day 4", strategy="semantic") == before
        assert engine.doctor(full=True).defects == ()
    with psycopg.connect(url) as server:
        counted = server.execute("SELECT count(vector), count(half) FROM clew.signals").fetchone()
    assert counted == (0, 8)


def test_equal_answers_in_every_store(tmp_path: Path, place: str) -> None:
    found: list[Any] = []
    for where in (place, str(tmp_path / "other.clew")):
        with Engine.open(where, settings=Settings(embedder=INT8)) as engine:
            engine.add_documents(DOCUMENTS)
            found.append([(hit.chunk.id, hit.similarity) for hit in engine.search("boats on day 3")])
    assert found[0] == found[1]


def test_an_erasure_looks_for_every_form_of_a_vector() -> None:
    rows = round_to_int8(np.random.default_rng(3).normal(size=(4, 64)).astype(np.float32))
    prints = Fingerprints(11, vectors=fingerprint_vectors(rows, 11))
    for data in (rows.tobytes(), rows.astype(np.float16).tobytes(), quantize(rows).tobytes()):
        assert Matcher(prints).count(b"before" + data + b"after", ["vectors"])
    assert not Matcher(prints).count(bytes(range(256)), ["vectors"])


def _sum_vectors(engine: Engine) -> int:
    database: Any = engine.opened.store
    with database._database.read_transaction() as db:
        size: int = db.execute("SELECT sum(length(vector)) FROM signals").fetchone()[0]
    return size


def test_what_is_no_vector_is_refused_and_not_rounded_to_one(tmp_path: Path) -> None:
    class Broken(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            rows = super().embed(texts, role=role)
            rows[:, 0] = np.nan
            return rows

    with Engine.open(tmp_path / "a.clew", embedder=quantize_embedder(Broken())) as engine:
        report = engine.add_documents(DOCUMENTS[:1])
        assert "not a number" in report.failed[0].reason
        assert engine.status().documents == 0


def test_two_embedders_have_one_form() -> None:
    assert make_embedder(EmbedderConfig(name="hashed+hashed:64#int8")).name == "hashed+hashed:64#int8"
    with pytest.raises(SettingsError, match="both are stored as int8 or neither"):
        make_embedder(EmbedderConfig(name="hashed#int8+hashed:64"))


def test_a_collection_is_switched_and_restored_with_the_setting_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(tmp_path / "a.clew", embedder="hashed") as engine:
        engine.add_documents(DOCUMENTS[:4])
        engine.export(tmp_path / "plain.clew")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clew.toml").write_text("[embedder]\nint8 = true\n")
    run = CliRunner().invoke
    assert run(app, ["-p", "a.clew", "reembed", "--to", "hashed#int8"]).exit_code == 0
    with Engine.open(tmp_path / "a.clew") as engine:
        assert engine.status().embedder == "hashed#int8"
    assert run(app, ["-p", "a.clew", "reembed", "--to", "hashed"]).exit_code == 0
    assert run(app, ["-p", "b.clew", "restore", "plain.clew"]).exit_code == 0
    with Engine.open(tmp_path / "b.clew") as engine:
        assert (engine.status().embedder, engine.status().documents) == ("hashed", 4)


def test_the_languages_are_those_of_the_model() -> None:
    embedder = quantize_embedder(NamedEmbedder())
    assert find_foreign_languages(embedder, {"de": 15, "en": 15}) == {"de": 15}
    assert "bge-small+multilingual`" in advise_embedder({"de": 15}, embedder, 30)


class NamedEmbedder(HashedEmbedder):
    """One that has the name of a model with cut vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "bge-small#128"
