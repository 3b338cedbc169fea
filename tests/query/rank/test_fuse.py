"""Fusion: each test is the arithmetic of the formula."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan

import pytest

from clew.core.protocols import Fuse
from clew.core.settings import SearchConfig
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.rank.fuse import (
    Ranking,
    fuse_two,
    make_fuse,
    normalise_minmax,
    sum_normalised_scores,
    sum_reciprocal_ranks,
    take_greatest,
    take_turns,
    weights_to_turn_counts,
)

ALL = (sum_normalised_scores, sum_reciprocal_ranks, take_greatest, take_turns)
FUSES = [make_fuse(each, score_name="fused") for each in ALL]
AddUp = Callable[[Sequence[Ranking[str]], Sequence[float]], dict[str, float]]


def hit(name: str, score: float = 0.0, **scores: float) -> Hit:
    return Hit(Chunk(name, "d", 0, 1, name, 0, len(name)), DocumentRecord("d"), score, scores)


def ranking(*names: str) -> Ranking[str]:
    return [(name, 1.0 - place / 10) for place, name in enumerate(names)]


def order(add_up: AddUp, weights: Sequence[float], *rankings: Ranking[str]) -> list[str]:
    totals = add_up(rankings, weights)
    return sorted(totals, key=lambda name: (-totals[name], name))


def test_rrf_is_the_sum_of_reciprocal_ranks() -> None:
    fused = sum_reciprocal_ranks([ranking("d1", "d2", "d3"), ranking("d2", "d1", "d4")], [1, 1])
    assert fused["d1"] == fused["d2"] == pytest.approx(1 / 61 + 1 / 62)
    assert fused["d1"] == pytest.approx(0.032522, abs=1e-6)
    assert fused["d3"] == fused["d4"] == pytest.approx(0.015873, abs=1e-6)


def test_rrf_of_disjoint_rankings_gives_equal_ranks_equal_scores() -> None:
    rankings = ranking("a", "b"), ranking("c", "d")
    assert order(sum_reciprocal_ranks, [1, 1], *rankings) == ["a", "c", "b", "d"]
    fused = sum_reciprocal_ranks(rankings, [1, 1])
    assert fused["a"] == fused["c"] > fused["b"] == fused["d"]


def test_rrf_k_and_weights_change_the_scores() -> None:
    assert sum_reciprocal_ranks([ranking("a")], [1], k=10) == {"a": pytest.approx(1 / 11)}
    both = ranking("a", "b"), ranking("b", "a")
    assert order(sum_reciprocal_ranks, [1, 2], *both)[0] == "b"
    assert order(sum_reciprocal_ranks, [2, 1], *both)[0] == "a"


@pytest.mark.parametrize("fuse", FUSES)
def test_nothing_fused_with_nothing_is_nothing(fuse: Fuse) -> None:
    assert fuse([[], []]) == []


def test_minmax() -> None:
    assert normalise_minmax([0, 50, 100]) == [0, 0.5, 1]
    assert normalise_minmax([7, 7, 7]) == [1, 1, 1]
    assert normalise_minmax([3]) == [1]
    assert normalise_minmax([]) == []
    assert normalise_minmax([-2, 0, 2]) == [0, 0.5, 1]


def test_convex_counts_a_missing_chunk_as_zero() -> None:
    dense, words = [("a", 0.9), ("b", 0.5), ("c", 0.1)], [("c", 8.0), ("d", 4.0)]
    fused = sum_normalised_scores([dense, words], [0.7, 0.3])
    assert fused == pytest.approx({"a": 0.7, "b": 0.35, "c": 0.3, "d": 0.0})


def test_every_score_that_led_there_is_kept() -> None:
    dense, words = [hit("a", 0.9, semantic=0.9)], [hit("a", 7.0, lexical=7.0)]
    (fused,) = make_fuse(sum_normalised_scores, score_name="hybrid")([dense, words])
    assert fused.scores == pytest.approx({"semantic": 0.9, "lexical": 7.0, "hybrid": 2.0})


def test_best_keeps_the_greatest_score() -> None:
    assert take_greatest([[("a", 0.70)], [("a", 0.82), ("b", 0.75)]], [1, 1]) == {"a": 0.82, "b": 0.75}


def test_round_robin_takes_turns() -> None:
    a, b = ranking("a1", "a2", "a3"), ranking("b1", "b2", "b3")
    assert order(take_turns, [1, 1], a, b) == ["a1", "b1", "a2", "b2", "a3", "b3"]


def test_round_robin_weights_and_exhausted_rankings() -> None:
    p, s = ranking("p1", "p2", "p3", "p4", "p5", "p6"), ranking("s1", "s2")
    assert order(take_turns, [3, 1], p, s) == ["p1", "p2", "p3", "s1", "p4", "p5", "p6", "s2"]
    assert order(take_turns, [1, 1], ranking("a"), ranking("b", "c", "d")) == ["a", "b", "c", "d"]


def test_round_robin_deals_each_chunk_once() -> None:
    assert order(take_turns, [1, 1], ranking("a", "b"), ranking("a", "c")) == ["a", "c", "b"]


def test_round_robin_never_loops_on_a_weight_of_nothing() -> None:
    assert order(take_turns, [0, 1], ranking("a"), ranking("b")) == ["b"]


def test_two_are_fused_as_the_settings_say() -> None:
    one, other = [("a", 0.9), ("b", 0.1)], [("b", 9.0), ("c", 4.0)]
    by = {name: fuse_two([one, other], 0.8, SearchConfig(fusion=name)) for name in ("convex", "rrf", "round_robin")}
    assert by["convex"] == pytest.approx({"a": 0.8, "b": 0.2, "c": 0.0})
    assert by["rrf"] == pytest.approx({"a": 0.8 / 61, "b": 0.8 / 62 + 0.2 / 61, "c": 0.2 / 62})
    assert by["round_robin"] == pytest.approx({"a": 1, "b": 1 / 2, "c": 1 / 3})


@pytest.mark.parametrize(
    ("shares", "dealt"),
    [((0.5, 0.5), [1, 1]), ((0.7, 0.3), [2, 1]), ((0.2, 0.8), [1, 4]), ((1.0, 0.0), [1, 0]), ((0.0, 1.0), [0, 1])],
)
def test_shares_become_turns(shares: tuple[float, float], dealt: list[int]) -> None:
    assert weights_to_turn_counts(*shares) == dealt


@pytest.mark.parametrize("fuse", FUSES)
def test_a_fused_hit_keeps_the_similarity_that_is_known_and_the_greatest_relevance(fuse: Fuse) -> None:
    by_meaning = replace(hit("a", 0.4), similarity=0.4)
    (found,) = fuse([[hit("a", 7.0)], [by_meaning], [replace(hit("a", 0.1), relevance=0.3, similarity=0.5)]])
    assert (found.similarity, found.relevance) == (0.5, 0.3)
    (known,) = fuse([[hit("a", 7.0)], [by_meaning]])
    assert known.similarity == 0.4
    assert isnan(known.relevance)


def test_a_chunk_that_a_ranking_repeats_counts_once() -> None:
    by_score, by_rank, *_ = FUSES
    assert by_score([[hit("a", 1.0), hit("a", 0.5), hit("b", 0.0)]])[0].score == 1.0
    assert by_rank([[hit("a"), hit("a"), hit("b")]])[1].score == pytest.approx(1 / 62)
