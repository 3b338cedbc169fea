"""The fit of the confidence: the test is the arithmetic, and that what is judged was never fitted."""

from pathlib import Path

import numpy as np
import pytest

from clew.drivers.rerank.overlap import Overlap
from clew.query.answer.confidence import WEIGHTS, Signals, confidence
from studies.confidence import HELD_OUT, SOURCES, Example, Source, examples_of, fitted, handbook, rows

EXAMPLES = Path(__file__).parents[2] / "examples"


def made(seed: int, many: int, *, standing: float = 3.0, reranker: float = 0.5, offset: float = -1.0) -> list[Example]:
    """Examples that the weights make."""
    random = np.random.default_rng(seed)
    found = []
    for one, other, draw in zip(random.normal(size=many), random.normal(size=many), random.random(many), strict=True):
        chance = 1 / (1 + np.exp(-(standing * one + reranker * other + offset)))
        found.append(Example(Signals(float(one), float(other)), bool(draw < chance)))
    return found


def test_the_weights_that_made_the_examples_are_found() -> None:
    found = fitted([made(0, 20_000)])
    assert (found.standing, found.reranker, found.offset) == pytest.approx((3.0, 0.5, -1.0), abs=0.15)
    assert found.words == WEIGHTS.words


def test_every_set_weighs_the_same() -> None:
    """A large set whose answers are always there does not drown a small one where they never are."""
    large = [Example(Signals(0.0, 0.0), held=True)] * 300
    small = [Example(Signals(0.0, 0.0), held=False)] * 3
    assert confidence(Signals(0.0, 0.0), fitted([large, small])) == pytest.approx(0.5)


def test_what_is_held_out_is_in_no_fit() -> None:
    right, wrong = made(1, 400), made(2, 400, standing=-30.0, reranker=-5.0)
    first, second, last = Source("one", "one"), Source("two", "two"), Source(HELD_OUT, HELD_OUT)
    with_it = [*rows({first: right, second: right, last: wrong})]
    without = [*rows({first: right, second: right, last: right})]
    assert with_it[:-1] == without[:-1]
    assert float(with_it[-1].split("|")[3]) < 0.5 < float(without[-1].split("|")[3])  # its AUC
    assert HELD_OUT in {source.name for source in SOURCES}


def test_a_family_is_left_out_together() -> None:
    """A set in another language is no other set."""
    right, wrong = made(1, 400), made(2, 400, standing=-30.0, reranker=-5.0)
    one, same, other = Source("xquad-en", "xquad"), Source("xquad-de", "xquad"), Source("b", "b")
    table = [*rows({one: wrong, same: wrong, other: right})]
    assert float(table[-3].split("|")[3]) < 0.1


def test_the_handbook_is_asked_with_and_without_the_document_that_answers() -> None:
    given = handbook(EXAMPLES)
    found = examples_of(Source("handbook", "h", embedder="hashed", whole=False), given, Overlap(), cache="", many=8)
    assert [each.held for each in found] == [True, False] * 8
    there, absent = (sum(each.signals.standing for each in found if each.held is held) for held in (True, False))
    assert there > absent
