"""What a calibration measures, by hand, and which sentence stands for a chunk."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import pytest

from clew.core.calibration import VERSION, Calibration, assume_calibration
from clew.core.errors import SettingsError
from clew.core.protocols import Role
from clew.core.types import Chunk, Matrix, Vector
from clew.index.add.embed import MAX_SENTENCE, MIN_REACH, SAMPLE, measure_calibration, pick_sentence


class MadeUp:
    """A store and its embedder: the vectors of chunks and of sentences are given by their texts."""

    name, dim, max_tokens, min_similarity = "made up", 3, 512, 0.0

    def __init__(self, documents: Sequence[Sequence[str]], vectors: Mapping[str, Sequence[float]]) -> None:
        self._chunks = [
            Chunk(f"{number}-{index}", f"{number}", index, len(texts), text, 0, len(text))
            for number, texts in enumerate(documents)
            for index, text in enumerate(texts)
        ]
        self._vectors = vectors
        self.asked: list[str] = []

    def scan(self) -> Iterator[Chunk]:
        return iter(self._chunks)

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        texts = {chunk.id: chunk.text for chunk in self._chunks}
        return {id_: np.array(self._vectors[texts[id_]], np.float32) for id_ in chunk_ids}

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        assert role == "query"
        self.asked += texts
        return np.array(
            [self._vectors.get(f"? {text}", self._vectors.get(text, (1, 0, 0))) for text in texts], np.float32
        )


def measure(made_up: Any) -> Calibration:
    return measure_calibration(made_up, made_up)


def test_the_measure_by_hand() -> None:
    """Orthogonal chunks, each sentence at .6 to its own: background .3, its own .3 above that, the other .3 below."""
    vectors = {"a": (1, 0, 0), "b": (0, 1, 0), "? a": (0.6, 0, 0.8), "? b": (0, 0.6, 0.8)}
    found = measure(MadeUp([["a"], ["b"]], vectors))
    assert found.centre is not None
    assert found.centre.tolist() == pytest.approx([0.5, 0.5, 0])
    assert (found.reach, found.spread) == pytest.approx((0.3, 0.0), abs=1e-6)
    assert (found.embedder, found.chunks, found.version) == ("made up", 2, VERSION)
    assert found.background(np.array([0.6, 0.8, 0], np.float32)) == pytest.approx(0.7)
    assert found.scale(np.array(0.6), 0.3) == pytest.approx(1.0)
    assert found.scale(np.array(0.3), 0.3) == 0


def test_chunks_of_one_document_are_not_unrelated() -> None:
    """The two chunks of the first document are alike; only what other documents say is the background."""
    near = (0.8, 0.6, 0.0)
    vectors = {"a": (1, 0, 0), "b": near, "c": (0, 0, 1)}
    of_two = measure(MadeUp([["a", "b"], ["c"]], vectors))
    of_three = measure(MadeUp([["a"], ["b"], ["c"]], vectors))
    assert of_two.reach == pytest.approx(of_three.reach)
    assert of_two.spread < of_three.spread


def test_one_document_alone_is_measured_by_its_other_chunks() -> None:
    assert measure(MadeUp([["a", "b"]], {"a": (1, 0, 0), "b": (0, 1, 0)})).reach == pytest.approx(0.5)


def test_a_model_that_tells_nothing_apart_has_a_small_reach_and_never_none() -> None:
    same = dict.fromkeys(("a", "b", "c"), (1.0, 0.0, 0.0))
    assert measure(MadeUp([["a"], ["b"], ["c"]], same)).reach == MIN_REACH


def test_a_sample_is_measured_of_a_large_collection() -> None:
    made_up = MadeUp([[f"text {place}"] for place in range(500)], {f"text {n}": (0, 1, 0) for n in range(500)})
    assert measure(made_up).chunks == len(made_up.asked) == SAMPLE
    again = MadeUp([[f"text {place}"] for place in range(500)], {f"text {n}": (0, 1, 0) for n in range(500)})
    measure(again)
    assert again.asked == made_up.asked


def test_a_collection_of_one_chunk_cannot_be_measured() -> None:
    with pytest.raises(SettingsError, match="fewer than two chunks"):
        measure(MadeUp([["a"]], {"a": (1, 0, 0)}))


def test_a_sentence_of_the_middle_stands_for_a_chunk() -> None:
    def pick(text: str) -> str:
        return pick_sentence(Chunk("c", "d", 0, 1, text, 0, len(text)))

    assert pick("One is first. Two is second. Three is third.") == "Two is second."
    assert pick("Only one.") == "Only one."
    long = "word " * MAX_SENTENCE
    assert pick(long) == long[:MAX_SENTENCE]
    assert pick(f"Short one. Then {long}.") == "Short one."


# -- the value itself


def test_a_calibration_is_read_as_it_was_written() -> None:
    centre = np.array([0.25, sqrt(0.5), -1e-3], np.float32)
    kept = Calibration("bge", reach=0.2, spread=0.05, centre=centre, chunks=128)
    read = Calibration.from_json(kept.to_json(), "bge")
    assert read == kept
    assert read is not None
    assert read.centre is not None
    assert read.centre.tolist() == centre.tolist()
    bare = assume_calibration("bge", 0.4)
    assert Calibration.from_json(bare.to_json(), "bge") == bare


@pytest.mark.parametrize("text", ["", '{"version": 0, "embedder": "bge"}', '{"version": 1, "embedder": "other"}', "{}"])
def test_what_is_of_another_model_or_version_does_not_count(text: str) -> None:
    assert Calibration.from_json(text, "bge") is None


def test_without_a_measure_the_embedder_s_word_is_taken() -> None:
    assumed = assume_calibration("bge", 0.4)
    assert assumed.background(np.array([1, 0], np.float32)) == 0.4
    assert assumed.scale(np.array(0.4), 0.4) == 0
    assert assumed.scale(np.array(0.7), 0.4) == pytest.approx(1.0)
    assert assumed.chunks == 0
