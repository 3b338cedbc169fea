"""The arithmetic of the measures."""

from math import log2

import pytest

from studies.measures import (
    Interval,
    bootstrap,
    count_characters,
    intersect_spans,
    merge_spans,
    ndcg_at,
    precision_omega,
    recall_at,
    reciprocal_rank,
    score_spans,
)


def test_recall_is_the_share_of_the_relevant_among_the_first_k() -> None:
    assert recall_at(2, ["a", "b", "c"], {"b", "c", "x", "y"}) == 1 / 4
    assert recall_at(3, ["a", "b", "c"], {"b", "c"}) == 1.0
    assert recall_at(5, [], {"b"}) == 0.0
    assert recall_at(5, ["a"], set()) == 1.0


def test_the_reciprocal_rank_is_of_the_first_relevant_one() -> None:
    assert reciprocal_rank(["a", "b", "c"], {"b", "c"}) == 1 / 2
    assert reciprocal_rank(["a"], {"b"}) == 0.0


def test_ndcg_is_trec_evals() -> None:
    grades = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.0, "e": -1.0}
    gained = 1 / log2(2) + 0 / log2(3) + 3 / log2(4)
    best = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert ndcg_at(3, ["b", "d", "a", "c"], grades) == pytest.approx(gained / best)
    assert ndcg_at(3, ["a", "c", "b"], grades) == 1.0
    assert ndcg_at(1, ["b"], grades) == pytest.approx(1 / 3)
    assert ndcg_at(3, ["e"], grades) == 0.0
    assert ndcg_at(3, ["a"], {"a": 0.0}) == 0.0


def test_ndcg_agrees_with_ir_measures_where_that_is_installed() -> None:
    ir = pytest.importorskip("ir_measures", reason="it has no wheel for this machine")
    grades = {"a": 3, "b": 1, "c": 2}
    ranking = ["b", "x", "a", "c"]
    run = {"q": {each: float(-rank) for rank, each in enumerate(ranking)}}
    found = ir.calc_aggregate([ir.nDCG @ 3, ir.R @ 3, ir.RR], {"q": grades}, run)
    assert ndcg_at(3, ranking, {key: float(value) for key, value in grades.items()}) == pytest.approx(
        found[ir.nDCG @ 3]
    )
    assert recall_at(3, ranking, grades) == pytest.approx(found[ir.R @ 3])
    assert reciprocal_rank(ranking, grades) == pytest.approx(found[ir.RR])


def test_spans_are_joined_and_shared() -> None:
    assert merge_spans([(5, 9), (0, 3), (2, 4), (4, 5)]) == [(0, 9)]
    assert merge_spans([(5, 9), (0, 3)]) == [(0, 3), (5, 9)]
    assert intersect_spans([(0, 10)], [(5, 20), (10, 12)]) == [(5, 10)]
    assert count_characters([(0, 10), (5, 10)]) == 15


def test_characters_are_counted_as_the_report_does() -> None:
    gold = [(10, 20), (30, 40)]
    found = score_spans([(0, 15), (12, 22)], 25, gold)  # 50 retrieved, 10 to 20 covered, 10 missed
    assert found.recall == 10 / 20
    assert found.precision == 10 / 50
    assert found.iou == 10 / (50 + 10)


def test_what_is_not_retrieved_covers_nothing() -> None:
    assert score_spans([], 0, [(0, 4)]) == score_spans([(4, 9)], 0, [(0, 4)]).__class__(0.0, 0.0, 0.0)
    assert score_spans([(0, 4)], 0, [(0, 4)]).iou == 1.0


def test_precision_omega_is_of_all_chunks_that_touch_the_gold() -> None:
    chunks = [(0, 10), (10, 30), (30, 60)]
    assert precision_omega(chunks, [(5, 15)]) == 10 / 30
    assert precision_omega(chunks, [(30, 60)]) == 1.0
    assert precision_omega([(0, 10)], [(5, 15)]) == 5 / (10 + 5)  # what no chunk holds counts as missed
    assert precision_omega([(0, 10)], [(20, 30)]) == 0.0


def test_a_bootstrap_is_paired_and_repeatable() -> None:
    old = [0.1 * (number % 7) for number in range(200)]
    shifted = bootstrap([value + 0.25 for value in old], old)
    assert [shifted.mean, shifted.low, shifted.high] == pytest.approx([0.25] * 3)
    new = [value + (0.2 if number % 2 else 0.0) for number, value in enumerate(old)]
    one = bootstrap(new, old)
    assert one == bootstrap(new, old)
    deviation = 0.1 / 200**0.5  # of the mean of a difference that is 0 or 0.2
    assert one.mean == pytest.approx(0.1)
    assert one.low == pytest.approx(0.1 - 1.96 * deviation, abs=0.002)
    assert one.high == pytest.approx(0.1 + 1.96 * deviation, abs=0.002)
    assert str(Interval(0.031, -0.012, 0.07)) == "+3.1 [-1.2, +7.0]"


def test_resamples_need_not_be_round() -> None:
    assert bootstrap([1.0], [0.0], resamples=1_500) == Interval(1.0, 1.0, 1.0)
    assert bootstrap([], []) == Interval(0.0, 0.0, 0.0)
