"""The study of late interaction: MaxSim, the mixed order, and what is left out of a text."""

import numpy as np

from clew import Chunk, DocumentRecord, Hit
from studies.late import TokenEncoder, max_sim, rerank

RECORD = DocumentRecord("d", "", "", "page", "", "", 1, 1)


def test_max_sim_is_the_mean_of_the_best_cosines() -> None:
    question = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    text = np.array([[0.6, 0.8], [0.8, 0.6], [-1.0, 0.0]], np.float32)
    assert np.isclose(max_sim(question, text), 0.8)


def test_half_the_score_and_half_max_sim() -> None:
    hits = [make_hit(name, score) for name, score in (("a", 0.9), ("b", 0.5), ("c", 0.1))]
    order = "".join(hit.chunk.id for hit in rerank(hits, [0.2, 0.9, 0.1]))  # 1 + .125, .5 + 1, 0 + 0
    assert order == "bac"
    assert [hit.chunk.id for hit in rerank(hits, [0.5, 0.5, 0.5])] == ["a", "b", "c"]
    assert rerank([], []) == []


def test_what_answers_is_nearer_and_punctuation_is_left_out() -> None:
    encoder = TokenEncoder()
    question = encoder.encode_question("How often are keys rotated?")
    keys, lunch, dots = encoder.encode_texts(["Keys rotate every 90 days", "Lunch is at noon", "Lunch, is. at; noon!"])
    assert max_sim(question, keys) > max_sim(question, lunch)
    assert dots.shape == lunch.shape


def make_hit(name: str, score: float) -> Hit:
    return Hit(Chunk(name, "d", 0, 1, name, 0, 1), RECORD, score)
