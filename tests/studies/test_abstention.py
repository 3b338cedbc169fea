"""The measures of the abstention study: their arithmetic."""

import pytest

from clew import Document, Engine, Section
from clew.drivers.rerank.overlap import OverlapReranker
from studies.abstention import AnswerOutcome, answer_claims, auc, calibration_error, compute_coverage_and_risk
from studies.judged import USUAL_MEASURES, JudgedSet


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
        there, absent = answer_claims(engine, given, OverlapReranker(), max_questions=5)
    assert (there.is_answerable, there.is_right, absent.is_answerable, absent.is_right) == (True, True, False, False)
    assert there.confidence > 0.9 > absent.confidence
