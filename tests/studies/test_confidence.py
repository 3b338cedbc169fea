"""The fit of the confidence: its arithmetic, and that held-out sets are never fitted."""

from pathlib import Path

import numpy as np
import pytest

from clew.drivers.rerank.overlap import OverlapReranker
from clew.query.answer.confidence import WEIGHTS, ConfidenceSignals, compute_confidence
from studies.confidence import (
    HELD_OUT,
    SOURCES,
    Example,
    SetConfig,
    fit_weights,
    load_handbook,
    make_examples,
    make_rows,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def draw_examples(
    seed: int, count: int, *, standing: float = 3.0, reranker: float = 0.5, offset: float = -1.0
) -> list[Example]:
    """Random examples that follow these weights."""
    random = np.random.default_rng(seed)
    found = []
    for one, other, draw in zip(
        random.normal(size=count), random.normal(size=count), random.random(count), strict=True
    ):
        chance = 1 / (1 + np.exp(-(standing * one + reranker * other + offset)))
        found.append(Example(ConfidenceSignals(float(one), float(other)), bool(draw < chance)))
    return found


def test_the_weights_that_made_the_examples_are_found() -> None:
    found = fit_weights([draw_examples(0, 20_000)])
    assert (found.margin, found.reranker, found.offset) == pytest.approx((3.0, 0.5, -1.0), abs=0.15)
    assert found.words == WEIGHTS.words


def test_every_set_weighs_the_same() -> None:
    """A large set whose answers are always there does not drown a small one where they never are."""
    large = [Example(ConfidenceSignals(0.0, 0.0), is_answerable=True)] * 300
    small = [Example(ConfidenceSignals(0.0, 0.0), is_answerable=False)] * 3
    assert compute_confidence(ConfidenceSignals(0.0, 0.0), fit_weights([large, small])) == pytest.approx(0.5)


def test_what_is_held_out_is_in_no_fit() -> None:
    right, wrong = draw_examples(1, 400), draw_examples(2, 400, standing=-30.0, reranker=-5.0)
    first, second, last = SetConfig("one", "one"), SetConfig("two", "two"), SetConfig(HELD_OUT, HELD_OUT)
    with_it = [*make_rows({first: right, second: right, last: wrong})]
    without = [*make_rows({first: right, second: right, last: right})]
    assert with_it[:-1] == without[:-1]
    assert float(with_it[-1].split("|")[3]) < 0.5 < float(without[-1].split("|")[3])  # its AUC
    assert HELD_OUT in {source.name for source in SOURCES}


def test_a_family_is_left_out_together() -> None:
    """A set in another language is of the same family."""
    right, wrong = draw_examples(1, 400), draw_examples(2, 400, standing=-30.0, reranker=-5.0)
    one, same, other = SetConfig("xquad-en", "xquad"), SetConfig("xquad-de", "xquad"), SetConfig("b", "b")
    table = [*make_rows({one: wrong, same: wrong, other: right})]
    assert float(table[-3].split("|")[3]) < 0.1


def test_the_handbook_is_asked_with_and_without_the_document_that_answers() -> None:
    given = load_handbook(EXAMPLES)
    found = make_examples(
        SetConfig("handbook", "h", embedder="hashed", one_chunk_each=False),
        given,
        OverlapReranker(),
        cache="",
        max_questions=8,
    )
    assert [each.is_answerable for each in found] == [True, False] * 8
    there, absent = (sum(each.signals.margin for each in found if each.is_answerable is held) for held in (True, False))
    assert there > absent
