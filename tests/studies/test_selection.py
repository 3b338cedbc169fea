"""The study of which candidate is shown first."""

from pathlib import Path

import numpy as np
import pytest

from clew import Document, Section
from clew.core.filter import EVERYTHING
from clew.drivers.rerank.overlap import OverlapReranker
from studies import selection
from studies.selection import SelectionExample, SelectionQuestion, SelectionSet, fit_weights, make_examples, make_rows


def make_example(*rows: tuple[float, float, float, float, float, bool]) -> SelectionExample:
    return SelectionExample(np.array([(*row[:5], 0.0) for row in rows]), np.array([float(row[5]) for row in rows]))


def test_weights_follow_what_tells_the_evidence() -> None:
    examples = [
        make_example((1.0, 0.0, 1.0, 0.0, 0.0, True), (2.0, 0.0, -1.0, 0.0, 0.0, False)),
        make_example((0.0, 0.0, 1.0, 0.0, 0.0, True), (0.5, 0.0, -1.0, 0.0, 1.0, False)),
        make_example((0.0, 0.0, 1.0, 0.0, 0.0, False)),  # no evidence: it says nothing
    ]
    weights = fit_weights(examples)
    part, chunk, kind, facts, distance, topic = weights
    assert kind > 0 > distance
    assert (chunk, facts, topic) == pytest.approx((0.0, 0.0, 0.0))
    assert part < kind
    assert [each.is_right(weights) for each in examples] == [True, True, False]
    assert not SelectionExample(np.zeros((0, 6)), np.zeros(0)).is_right(weights)


def test_candidates_are_those_of_an_answer() -> None:
    text = "The harbour office opens at nine. The cook makes soup."
    question = SelectionQuestion("When does the harbour office open?", EVERYTHING, lambda each: "nine" in each.shown)
    given = SelectionSet("made up", [Document("h", text, (Section(0, len(text)),))], [question])
    (example,) = make_examples(given, "hashed", "", OverlapReranker(), max_questions=5)
    assert example.evidence.tolist() == [1.0, 0.0]
    rows = list(make_rows({"made up": [example], "again": [example]}))
    assert rows[2].startswith("| made up | 1 | 100.0 | 100.0 | 100.0 | part 1.00,")


def test_a_missing_set_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        selection.main(["--data", str(tmp_path), "--reranker", "overlap"])
    assert "give the folder of the set with --data" in capsys.readouterr().err
