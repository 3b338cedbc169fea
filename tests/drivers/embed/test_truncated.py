"""Cut vectors: their length, their place in the name, and collections that have others."""

from pathlib import Path

import numpy as np
import pytest

from clew import Document, Engine, Settings
from clew.core.errors import DriverMissing, SettingsError, StoreMismatch
from clew.core.settings import EmbedderConfig
from clew.drivers import make_embedder, pin_embedder_name
from clew.drivers.embed.onnx import make_bge_small
from clew.drivers.onnx import CPU, choose_providers

NOTE = Document("note", "Keys are rotated every ninety days.", uri="note.md")
CUT = Settings(embedder=EmbedderConfig(name="hashed", dim=64))


def test_the_first_numbers_at_unit_length() -> None:
    whole = make_embedder(EmbedderConfig(name="hashed"))
    cut = make_embedder(EmbedderConfig(name="hashed", dim=64))
    assert (cut.name, cut.dim, cut.max_tokens) == ("hashed#64", 64, whole.max_tokens)
    rows, first = (each.embed([NOTE.text], role="passage") for each in (cut, whole))
    np.testing.assert_allclose(rows[0], first[0][:64] / np.linalg.norm(first[0][:64]), atol=1e-6)
    assert cut.embed([], role="query").shape == (0, 64)
    assert make_embedder(EmbedderConfig(name="hashed#64")).name == "hashed#64"
    assert make_embedder(EmbedderConfig(name="hashed", dim=whole.dim)).name == "hashed"
    for dim in (1, whole.dim + 1):
        with pytest.raises(SettingsError, match=rf"embedder\.dim is {dim}"):
            make_embedder(EmbedderConfig(name="hashed", dim=dim))


@pytest.mark.parametrize("kind", ["folder", "postgres"])
def test_a_collection_keeps_its_length(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = str(tmp_path / "a.clew") if kind == "folder" else request.getfixturevalue("postgres")
    with Engine.open(path, settings=CUT) as engine:
        engine.add_documents([NOTE])
    with Engine.open(path) as engine:  # without the setting: the collection's own
        assert engine.opened.embedder.name == "hashed#64"
        assert engine.search("how often are keys rotated?")[0].document.uri == "note.md"
    for other in (EmbedderConfig(name="hashed"), EmbedderConfig(dim=32)):
        with pytest.raises(StoreMismatch, match="hashed#64"):
            Engine.open(path, settings=Settings(embedder=other))


def test_a_revision_of_the_hub_is_the_collections_own() -> None:
    assert pin_embedder_name("hf:a/b", "hf:a/b@123#64") == "hf:a/b@123#64"
    assert pin_embedder_name("hf:a/b", "hf:a/bc@123") == "hf:a/b"
    assert pin_embedder_name("hf:a/b@456", "hf:a/b@123") == "hf:a/b@456"
    assert pin_embedder_name("", "hashed") == "hashed"
    assert pin_embedder_name("", None) == ""


def test_a_gpu_that_is_asked_for_must_be_there() -> None:
    cuda = "CUDAExecutionProvider"
    assert choose_providers("auto", [cuda, CPU], name="x") == [cuda, CPU]
    assert choose_providers("cpu", [cuda, CPU], name="x") == [CPU]
    assert choose_providers("auto", ["CoreMLExecutionProvider", CPU], name="x") == [CPU]
    assert choose_providers("gpu", ["CoreMLExecutionProvider", CPU], name="x")[0] == "CoreMLExecutionProvider"
    with pytest.raises(DriverMissing, match=r"embedder\.device is gpu, and this onnxruntime has only"):
        choose_providers("gpu", ["AzureExecutionProvider", CPU], name="x")
    with pytest.raises(SettingsError, match=r"embedder\.device is 'tpu'"):
        EmbedderConfig(device="tpu")  # type: ignore[arg-type]


def test_a_batch_has_the_vectors_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    bge = make_bge_small(EmbedderConfig())
    texts = ["Keys.", "The vault holds the keys. " * 8, "Lunch is served at noon."]
    alone = bge.embed(texts, role="passage")
    monkeypatch.setattr(bge._model, "is_on_gpu", True)
    assert (bge.embed(texts, role="passage") * alone).sum(axis=1).min() > 0.98  # int8: a batch changes a little
