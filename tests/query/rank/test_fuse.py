"""Fusion: each test is the arithmetic of the formula."""

from collections.abc import Callable

import pytest

from clew.core.errors import SettingsError
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.rank.fuse import (
    bm25_confidence,
    comb_max,
    confidence_weighted,
    convex,
    cosine_confidence,
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


@pytest.mark.parametrize(
    "fuse",
    [rrf(), convex(), confidence_weighted(confidences=(bm25_confidence, bm25_confidence)), comb_max(), round_robin()],
)
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


def test_contrast_is_how_far_the_first_stands_out() -> None:
    assert bm25_confidence([hit("a", 8.0), hit("b", 4.0), hit("c", 2.0)]) == pytest.approx(1 - 3 / 8)
    assert bm25_confidence([hit("a", 8.0)]) == 1
    assert bm25_confidence([]) == 0
    assert bm25_confidence([hit("a", 2.0), hit("b", 2.0)]) == 0.01
    assert bm25_confidence([hit("a", 0.0), hit("b", 0.0)]) == 0


def test_contrast_looks_at_as_many_however_deep_the_search() -> None:
    deep = [hit(f"{place:03}", 10 / (1 + place)) for place in range(200)]
    assert bm25_confidence(deep) == bm25_confidence(deep[:50]) != bm25_confidence(deep[:20])


def test_nearness_is_between_unrelated_and_the_same() -> None:
    near = cosine_confidence(0.5)
    assert near([hit("a", 0.75), hit("b", 0.6)]) == pytest.approx(0.5)
    assert near([hit("a", 1.0)]) == 1
    assert near([hit("a", 0.4)]) == 0.01
    assert near([]) == 0


SURE = (cosine_confidence(0.0), bm25_confidence)


def test_the_surer_ranking_counts_more() -> None:
    """The first is far from the question; the second has one hit far above the rest."""
    far = [hit("a", 0.30), hit("b", 0.29), hit("c", 0.28), hit("d", 0.20)]
    near = [hit("a", 0.90), hit("b", 0.89), hit("c", 0.88), hit("d", 0.80)]
    stands_out = [hit("d", 9.0), hit("c", 1.2), hit("b", 1.1), hit("a", 1.0)]
    alike = [hit("d", 9.0), hit("c", 8.2), hit("b", 8.1), hit("a", 8.0)]
    assert ids(confidence_weighted(confidences=SURE)([far, stands_out]))[0] == "d"
    assert ids(confidence_weighted(confidences=SURE)([near, alike]))[0] == "a"
    assert ids(convex(0.51, 0.49)([far, stands_out]))[0] == ids(convex(0.51, 0.49)([near, alike]))[0] == "a"


def test_confident_by_hand() -> None:
    """Sure to 0.5 and to 0.75: shares of 4/13 and 9/13, squared."""
    fused = confidence_weighted(confidences=SURE)(
        [[hit("a", 0.5), hit("b", 0.3), hit("c", 0.1)], [hit("b", 8), hit("c", 2)]]
    )
    assert {each.chunk.id: each.score for each in fused} == pytest.approx({"b": 2 / 13 + 9 / 13, "a": 4 / 13, "c": 0})
    assert all(each.scores["confident"] == each.score for each in fused)


def test_confident_of_no_sharpness_is_convex_and_weights_still_count() -> None:
    one, other = [hit("a", 0.5), hit("b", 0.3), hit("c", 0.1)], [hit("b", 8), hit("c", 2)]
    flat, plain = (
        fuse([one, other]) for fuse in (confidence_weighted(0.7, 0.3, confidences=SURE, sharpness=0), convex(0.7, 0.3))
    )
    assert [(each.chunk.id, each.score) for each in flat] == [(each.chunk.id, each.score) for each in plain]
    assert ids(confidence_weighted(1.0, 0.0, confidences=SURE)([one, other]))[0] == "a"


def test_a_ranking_that_is_empty_leaves_the_other_as_it_is() -> None:
    alone = confidence_weighted(confidences=SURE)([[hit("a", 0.5), hit("b", 0.3)], []])
    assert [(each.chunk.id, each.score) for each in alone] == [("a", 1), ("b", 0)]
    assert ids(confidence_weighted(0, 1, confidences=SURE)([[hit("a", 0.5)], []])) == ["a"]


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
        lambda: confidence_weighted(confidences=SURE, sharpness=-1),
    ],
)
def test_what_cannot_be_fused_by_is_refused(fuse: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        fuse()
