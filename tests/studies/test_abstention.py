"""The measures of the study of abstention: the test is the arithmetic."""

import pytest

from clew import Document, Engine, Section
from clew.drivers.rerank.overlap import Overlap
from studies.abstention import Asked, auc, calibration_error, claims, coverage_and_risk
from studies.judged import USUAL, JudgedSet


def test_auc() -> None:
    asked = [Asked(0.9, True, True), Asked(0.4, True, True), Asked(0.4, False, False), Asked(0.1, False, False)]
    assert auc(asked) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert auc(asked[:2]) == 0.5


def test_calibration_error() -> None:
    asked = [Asked(0.95, True, True), Asked(0.95, True, False), Asked(0.15, False, False), Asked(0.15, False, False)]
    assert calibration_error(asked) == pytest.approx((0.05 * 2 + 0.15 * 2) / 4)
    assert calibration_error(asked, true=lambda each: each.right) == pytest.approx((0.45 * 2 + 0.15 * 2) / 4)
    assert calibration_error([Asked(1.0, True, True)]) == 0


def test_coverage_and_risk() -> None:
    asked = [Asked(0.9, True, True), Asked(0.6, True, False), Asked(0.3, False, False)]
    assert coverage_and_risk(asked, 0.5) == pytest.approx((2 / 3, 1 / 2))
    assert coverage_and_risk(asked, 0.95) == (0.0, 0.0)


def test_each_claim_is_asked_with_and_without_its_abstract() -> None:
    texts = {"a": "Keys are rotated by Dan every Monday.", "b": "Soup is served at noon in the galley."}
    documents = [Document(name, text, (Section(0, len(text)),)) for name, text in texts.items()]
    questions = {"q": "keys rotated by Dan"}
    given = JudgedSet("made up", documents, {("a", 0): "a", ("b", 0): "b"}, questions, {"q": {"a": 1.0}}, USUAL)
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(documents)
        there, absent = claims(engine, given, Overlap(), many=5)
    assert (there.held, there.right, absent.held, absent.right) == (True, True, False, False)
    assert there.confidence > 0.9 > absent.confidence
