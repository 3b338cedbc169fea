"""Fusion: each test is the arithmetic of the formula."""

from collections.abc import Callable
from dataclasses import replace
from math import isnan

import pytest

from clew.core.errors import SettingsError
from clew.core.protocols import Fuse
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.rank.fuse import (
    comb_max,
    convex,
    keep_scores,
    normalise_minmax,
    round_robin,
    rrf,
    weights_to_turn_counts,
)


def hit(name: str, score: float = 0.0, **scores: float) -> Hit:
    return Hit(Chunk(name, "d", 0, 1, name, 0, len(name)), DocumentRecord("d"), score, scores)


def ranking(*names: str) -> list[Hit]:
    return [hit(name, 1.0 - place / 10) for place, name in enumerate(names)]


def ids(hits: list[Hit]) -> list[str]:
    return [each.chunk.id for each in hits]


def test_rrf_is_the_sum_of_reciprocal_ranks() -> None:
    fused = {each.chunk.id: each.score for each in rrf()([ranking("d1", "d2", "d3"), ranking("d2", "d1", "d4")])}
    assert fused["d1"] == fused["d2"] == pytest.approx(1 / 61 + 1 / 62)
    assert fused["d1"] == pytest.approx(0.032522, abs=1e-6)
    assert fused["d3"] == fused["d4"] == pytest.approx(0.015873, abs=1e-6)


def test_rrf_of_disjoint_rankings_gives_equal_ranks_equal_scores() -> None:
    fused = rrf()([ranking("a", "b"), ranking("c", "d")])
    assert ids(fused) == ["a", "c", "b", "d"]
    assert fused[0].score == fused[1].score > fused[2].score == fused[3].score


def test_rrf_k_and_weights_change_the_scores() -> None:
    assert rrf(k=10)([ranking("a")])[0].score == pytest.approx(1 / 11)
    assert ids(rrf(1, 2)([ranking("a", "b"), ranking("b", "a")]))[0] == "b"
    assert ids(rrf(2, 1)([ranking("a", "b"), ranking("b", "a")]))[0] == "a"


@pytest.mark.parametrize("fuse", [rrf(), convex(), comb_max(), round_robin()])
def test_nothing_fused_with_nothing_is_nothing(fuse) -> None:  # type: ignore[no-untyped-def]
    assert fuse([[], []]) == []


def test_minmax() -> None:
    assert normalise_minmax([0, 50, 100]) == [0, 0.5, 1]
    assert normalise_minmax([7, 7, 7]) == [1, 1, 1]
    assert normalise_minmax([3]) == [1]
    assert normalise_minmax([]) == []
    assert normalise_minmax([-2, 0, 2]) == [0, 0.5, 1]


def test_convex_without_normalisation_is_the_weighted_sum() -> None:
    fused = convex(0.5, 0.5, normalise=keep_scores)([[hit("a", 0.8)], [hit("a", 0.9)]])
    assert fused[0].score == pytest.approx(0.85)


def test_convex_counts_a_missing_chunk_as_zero() -> None:
    dense, words = [hit("a", 0.9), hit("b", 0.5), hit("c", 0.1)], [hit("c", 8), hit("d", 4)]
    fused = {each.chunk.id: each.score for each in convex(0.7, 0.3)([dense, words])}
    assert fused == pytest.approx({"a": 0.7, "b": 0.35, "c": 0.3, "d": 0.0})


def test_a_chunk_found_by_words_alone_is_kept() -> None:
    assert "d" in ids(convex(0.7, 0.3)([[hit("a", 0.9)], [hit("d", 4)]]))


def test_every_score_that_led_there_is_kept() -> None:
    dense, words = [hit("a", 0.9, semantic=0.9)], [hit("a", 7.0, lexical=7.0)]
    assert convex(0.7, 0.3, score_name="hybrid")([dense, words])[0].scores == pytest.approx(
        {"semantic": 0.9, "lexical": 7.0, "hybrid": 1.0}
    )


def test_best_keeps_the_greatest_score() -> None:
    fused = comb_max()([[hit("a", 0.70)], [hit("a", 0.82), hit("b", 0.75)]])
    assert [(each.chunk.id, each.score) for each in fused] == [("a", 0.82), ("b", 0.75)]


def test_round_robin_takes_turns() -> None:
    a, b = ranking("a1", "a2", "a3"), ranking("b1", "b2", "b3")
    assert ids(round_robin()([a, b])) == ["a1", "b1", "a2", "b2", "a3", "b3"]


def test_round_robin_weights_and_exhausted_rankings() -> None:
    p, s = ranking("p1", "p2", "p3", "p4", "p5", "p6"), ranking("s1", "s2")
    assert ids(round_robin(3, 1)([p, s])) == ["p1", "p2", "p3", "s1", "p4", "p5", "p6", "s2"]
    assert ids(round_robin()([ranking("a"), ranking("b", "c", "d")])) == ["a", "b", "c", "d"]


def test_round_robin_deals_each_chunk_once() -> None:
    assert ids(round_robin()([ranking("a", "b"), ranking("a", "c")])) == ["a", "c", "b"]


def test_round_robin_never_loops_on_a_weight_of_nothing() -> None:
    assert ids(round_robin(0, 1)([ranking("a"), ranking("b")])) == ["b"]


@pytest.mark.parametrize(
    ("shares", "dealt"),
    [((0.5, 0.5), [1, 1]), ((0.7, 0.3), [2, 1]), ((0.2, 0.8), [1, 4]), ((1.0, 0.0), [1, 0]), ((0.0, 1.0), [0, 1])],
)
def test_shares_become_turns(shares: tuple[float, float], dealt: list[int]) -> None:
    assert weights_to_turn_counts(*shares) == dealt


@pytest.mark.parametrize("fuse", [rrf(), convex(), comb_max(), round_robin()])
def test_a_fused_hit_keeps_the_similarity_that_is_known_and_the_greatest_relevance(fuse: Fuse) -> None:
    by_meaning = replace(hit("a", 0.4), similarity=0.4)
    (found,) = fuse([[hit("a", 7.0)], [by_meaning], [replace(hit("a", 0.1), relevance=0.3, similarity=0.5)]])
    assert (found.similarity, found.relevance) == (0.5, 0.3)
    (known,) = fuse([[hit("a", 7.0)], [by_meaning]])
    assert known.similarity == 0.4
    assert isnan(known.relevance)


def test_weights_must_match_the_rankings() -> None:
    with pytest.raises(SettingsError, match="2 weights were given for 3 rankings"):
        convex(0.5, 0.5)([[], [], []])


def test_a_chunk_that_a_ranking_repeats_counts_once() -> None:
    assert convex()([[hit("a", 1.0), hit("a", 0.5), hit("b", 0.0)]])[0].score == 1.0
    assert rrf()([[hit("a"), hit("a"), hit("b")]])[1].score == pytest.approx(1 / 62)


@pytest.mark.parametrize(
    "fuse",
    [
        lambda: convex(-1)([[]]),
        lambda: round_robin(0.5, 1.5),  # type: ignore[arg-type]
        lambda: rrf(k=-1),
    ],
)
def test_what_cannot_be_fused_by_is_refused(fuse: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        fuse()
