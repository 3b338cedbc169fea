"""The study of late interaction: MaxSim, the part of a set that is asked, and the projection's own fit."""

from pathlib import Path

import numpy as np

from clew.drivers.late.projection import fit_projection, load_projection, save_projection
from studies.judged import USUAL_MEASURES, JudgedSet, make_document
from studies.late import max_sim, parse_parts, take_part


def test_max_sim_is_the_mean_of_the_best_cosines() -> None:
    question = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    text = np.array([[0.6, 0.8], [0.8, 0.6], [-1.0, 0.0]], np.float32)
    assert np.isclose(max_sim(question, text), 0.8)


def test_a_part_of_a_set_keeps_what_answers_its_questions() -> None:
    documents = [make_document(str(n), [f"text {n}"]) for n in range(10)]
    names = {(each.id, 0): each.id for each in documents}
    questions, grades = {"a": "?", "b": "?", "c": "?"}, {"a": {"9": 1.0}, "b": {"8": 1.0}, "c": {"7": 2.0, "1": 0.0}}
    part = take_part(JudgedSet("s", documents, names, questions, grades, USUAL_MEASURES), 2, 4)
    assert list(part.questions) == ["a", "c"]
    assert [each.id for each in part.documents] == ["0", "4", "7", "9"]
    assert parse_parts("3", ["x", "y"]) == {"x": 3, "y": 3}
    assert parse_parts("y:5", ["x", "y"]) == {"x": 1, "y": 5}


def test_a_projection_keeps_cosines_in_few_bits_and_is_read_as_written(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    states = (random.normal(size=(600, 4)) @ random.normal(size=(4, 32)) + random.normal(size=32)).astype(np.float32)
    states += 0.02 * random.normal(size=states.shape).astype(np.float32)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    made = fit_projection(states[:500], 8)
    save_projection(made, tmp_path / "p.npz")
    kept = load_projection(tmp_path / "p.npz")
    packed = kept.pack(states[500:])
    assert packed == made.pack(states[500:])
    assert len(packed) == 100 * 8 // 2 == 4 * kept.count_tokens(packed)
    assert np.abs(kept.compare(kept.weigh(states[500:505]), packed) - states[500:] @ states[500:505].T).mean() < 0.05
