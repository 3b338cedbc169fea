"""The measures are those of trec_eval, the tests have their level, and τ its sign."""

import math
import random

import numpy as np
import pytest

from clew.evaluation.measures import (
    average_precision,
    bootstrap,
    correct_holm,
    measure_cover,
    ndcg_at,
    permutation_test,
    precision_at,
    recall_at,
    reciprocal_rank,
    topic_coverage,
)


def test_the_measures_equal_ir_measures_on_random_runs() -> None:
    ir = pytest.importorskip("ir_measures", reason="it has no wheel for this machine")
    rng = random.Random(7)
    names = [f"d{number}" for number in range(40)]
    qrels = {f"q{at}": {name: rng.randint(0, 3) for name in rng.sample(names, rng.randint(1, 12))} for at in range(200)}
    for grades in qrels.values():
        grades[rng.choice(list(grades))] = rng.randint(1, 3)
    rankings = {question: rng.sample(names, rng.randint(1, 30)) for question in qrels}
    run = {
        question: {name: float(-rank) for rank, name in enumerate(ranking)} for question, ranking in rankings.items()
    }
    wanted = [ir.nDCG @ 10, ir.R @ 5, ir.P @ 5, ir.RR, ir.AP]
    compared = 0
    for metric in ir.iter_calc(wanted, qrels, run):
        ranking, grades = rankings[metric.query_id], qrels[metric.query_id]
        relevant = {name for name, grade in grades.items() if grade > 0}
        ours = {
            "nDCG@10": ndcg_at(10, ranking, {name: float(grade) for name, grade in grades.items()}),
            "R@5": recall_at(5, ranking, relevant),
            "P@5": precision_at(5, ranking, relevant),
            "RR": reciprocal_rank(ranking, relevant),
            "AP": average_precision(ranking, relevant),
        }
        assert ours[str(metric.measure)] == pytest.approx(metric.value, abs=1e-9), metric
        compared += 1
    assert compared == len(wanted) * len(qrels)


def test_precision_counts_places_that_are_empty() -> None:
    assert precision_at(5, ["a", "b"], {"a", "b", "c"}) == 2 / 5


def test_average_precision_is_of_all_relevant_results() -> None:
    assert average_precision(["a", "x", "b"], {"a", "b", "c"}) == pytest.approx((1 + 2 / 3) / 3)


def test_topic_coverage_is_the_share_of_topics_that_are_met() -> None:
    topics = {"keys": ["a", "b"], "moorings": ["c"], "pay": ["d"]}
    assert topic_coverage(2, ["b", "c", "d"], topics) == pytest.approx(2 / 3)


def test_the_cover_of_evidence_counts_an_overlap_once() -> None:
    assert measure_cover([(0, 6), (4, 8)], (2, 12)) == pytest.approx(0.6)
    assert measure_cover([(20, 30)], (2, 12)) == 0.0


def test_few_differences_are_tested_exactly() -> None:
    assert permutation_test([0.5] * 4, [0.0] * 4) == 2 / 2**4
    assert permutation_test([0.5] * 4, [0.0] * 4, one_sided=True) == 1 / 2**4
    assert permutation_test([0.0] * 4, [0.5] * 4, one_sided=True) == 1.0
    assert permutation_test([1.0, 2.0], [1.0, 2.0]) == 1.0


def test_a_permutation_test_has_its_level_and_agrees_with_the_t_test() -> None:
    rng = np.random.default_rng(3)
    values = [permutation_test(rng.normal(size=60).tolist(), [0.0] * 60, resamples=400, seed=at) for at in range(400)]
    share = sum(p <= 0.05 for p in values) / len(values)
    assert share == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 400))
    shifted = rng.normal(loc=0.3, size=60)
    t = shifted.mean() / (shifted.std(ddof=1) / 60**0.5)
    normal = math.erfc(abs(t) / 2**0.5)
    assert permutation_test(shifted.tolist(), [0.0] * 60) == pytest.approx(normal, abs=0.02)


def test_an_interval_holds_the_true_difference_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for at in range(200):
        found = bootstrap(rng.normal(loc=0.1, size=80).tolist(), [0.0] * 80, resamples=500, seed=at)
        held += found.low <= 0.1 <= found.high
    assert held / 200 == pytest.approx(0.95, abs=0.05)


def test_holm_multiplies_by_what_is_left_and_stays_in_order() -> None:
    assert correct_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert correct_holm([0.9, 0.8]) == [1.0, 1.0]
    assert correct_holm([]) == []
