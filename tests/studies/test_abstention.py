"""The measures of the abstention study: their arithmetic."""

import json
from pathlib import Path

import pytest

from clew import Document, Engine, Section
from clew.drivers.rerank.overlap import OverlapReranker
from studies.abstention import (
    AnswerOutcome,
    Reading,
    answer_claims,
    auc,
    calibration_error,
    compute_auc_interval,
    compute_coverage_and_risk,
    main,
)
from studies.judged import USUAL_MEASURES, JudgedSet
from studies.pairs import compute_interval


def test_auc() -> None:
    asked = [
        AnswerOutcome(0.9, True, True),
        AnswerOutcome(0.4, True, True),
        AnswerOutcome(0.4, False, False),
        AnswerOutcome(0.1, False, False),
    ]
    assert auc(asked) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert auc(asked[:2]) == 0.5


def test_calibration_error() -> None:
    asked = [
        AnswerOutcome(0.95, True, True),
        AnswerOutcome(0.95, True, False),
        AnswerOutcome(0.15, False, False),
        AnswerOutcome(0.15, False, False),
    ]
    assert calibration_error(asked) == pytest.approx((0.05 * 2 + 0.15 * 2) / 4)
    assert calibration_error(asked, is_true=lambda each: each.is_right) == pytest.approx((0.45 * 2 + 0.15 * 2) / 4)
    assert calibration_error([AnswerOutcome(1.0, True, True)]) == 0


def test_coverage_and_risk() -> None:
    asked = [AnswerOutcome(0.9, True, True), AnswerOutcome(0.6, True, False), AnswerOutcome(0.3, False, False)]
    assert compute_coverage_and_risk(asked, 0.5) == pytest.approx((2 / 3, 1 / 2))
    assert compute_coverage_and_risk(asked, 0.95) == (0.0, 0.0)


def test_each_claim_is_asked_with_and_without_its_abstract() -> None:
    texts = {"a": "Keys are rotated by Dan every Monday.", "b": "Soup is served at noon in the galley."}
    documents = [Document(name, text, (Section(0, len(text)),)) for name, text in texts.items()]
    questions = {"q": "keys rotated by Dan"}
    given = JudgedSet(
        "made up", documents, {("a", 0): "a", ("b", 0): "b"}, questions, {"q": {"a": 1.0}}, USUAL_MEASURES
    )
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(documents)
        there, absent = answer_claims(engine, given, Reading(OverlapReranker()), max_questions=5)
    assert (there.is_answerable, there.is_right, absent.is_answerable, absent.is_right) == (True, True, False, False)
    assert there.confidence > 0.9 > absent.confidence


def test_the_interval_of_the_auc_holds_it() -> None:
    asked = [AnswerOutcome(place / 20, place % 3 > 0, False) for place in range(20)]
    low, high = compute_auc_interval(asked)
    assert 0 <= low < auc(asked) < high <= 1
    sure = [AnswerOutcome(0.9, True, True), AnswerOutcome(0.1, False, False)]
    assert compute_auc_interval(sure) == (1.0, 1.0)


def test_the_interval_of_a_share() -> None:
    assert compute_interval(3, 30) == pytest.approx((0.0346, 0.2562), abs=1e-4)
    assert compute_interval(0, 10)[0] == 0.0


def test_pairs_of_a_file_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pumps.md").write_text("# Pumps\n\nThe Aqua 5 pump has a noise level of 38 dB at night.\n")
    pairs = tmp_path / "pairs.jsonl"
    asked = {"answerable": "What is the noise level of the Aqua 5 pump?", "near_miss": "How loud is the Aqua 7 pump?"}
    pairs.write_text(json.dumps(asked) + "\n")
    names = ["--embedder", "hashed", "--reranker", "overlap"]
    main(["--pairs", str(pairs), "--documents", str(tmp_path / "pumps.md"), *names])
    near, there = capsys.readouterr().out.splitlines()
    assert near.startswith("near misses answered: 0.0 % of 1 (95 % interval 0.0 to")
    assert there.startswith("answerable answered: 100.0 % of 1")


def test_a_file_without_pairs_is_an_error(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"answerable": "What is it?"}\n')
    with pytest.raises(SystemExit, match="line 1: a pair has the questions `answerable` and `near_miss`"):
        main(["--pairs", str(pairs)])
