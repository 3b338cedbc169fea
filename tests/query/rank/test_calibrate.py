"""Relevance: laws of the model, whatever its weights, and its arithmetic with weights of our own."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, isnan, nan
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.rank.calibrate import (
    ANSWER,
    PART,
    AnswerWeights,
    Evidence,
    Field,
    HitWeights,
    Signal,
    compare_evidence,
    estimate_answer_chances,
    estimate_relevance,
    get_relevance,
    pair_evidence,
    refine_relevance,
    sort_by_relevance,
    squash,
)

signals = st.floats(0, 1)
meanings = st.floats(-1, 3)  # a cosine below the background is negative, one of a copy above 1


class Row(NamedTuple):
    """The evidence of one hit."""

    meaning: float
    words: float
    share: float


@st.composite
def evidences(draw: st.DrawFn) -> Row:
    """Evidence of a hit."""
    share = draw(signals)
    return Row(draw(meanings), draw(st.floats(0, share)), share)


lists = st.lists(evidences(), min_size=1, max_size=8)
different = st.lists(evidences(), min_size=1, max_size=8, unique_by=lambda row: (round(row[0], 4), round(row[1], 4)))


def pack(rows: Sequence[Row]) -> Evidence:
    meaning, words, share = (np.array([row[column] for row in rows]) for column in range(3))
    return Evidence(meaning, words, share)


def estimate(rows: Sequence[Row], **options: Any) -> Signal:
    """The relevance of hits that are all there is."""
    evidence = pack(rows)
    return estimate_relevance(evidence, evidence.measure_field(), **options)


def hit(name: str = "a", *, score: float = 0.0, similarity: float = nan, relevance: float = nan) -> Hit:
    chunk = Chunk(name, name, 0, 1, name, 0, len(name))
    return Hit(chunk, DocumentRecord(name), score, similarity=similarity, relevance=relevance)


def raised(evidence: Sequence[Row], **change: float) -> list[Row]:
    """The same evidence, signals of the first hit being greater by so much."""
    first = evidence[0]
    more = {name: getattr(first, name) + by for name, by in change.items()}
    return [first._replace(**more), *evidence[1:]]


# -- laws


@given(lists, signals)
def test_a_relevance_is_a_chance(evidence: list[Row], intent: float) -> None:
    found = estimate(evidence, intent=intent)
    assert len(found) == len(evidence)
    assert all(0 <= each <= 1 for each in found)


@given(different, st.floats(0, 2))
def test_it_grows_with_meaning(evidence: list[Row], by: float) -> None:
    assert estimate(raised(evidence, meaning=by))[0] >= estimate(evidence)[0] - 1e-12


@given(different, st.floats(0, 1))
def test_it_grows_with_words(evidence: list[Row], by: float) -> None:
    assert estimate(raised(evidence, words=by))[0] >= estimate(evidence)[0] - 1e-12


@given(different, st.floats(0, 1))
def test_it_grows_with_the_share_of_terms(evidence: list[Row], by: float) -> None:
    more = estimate(raised(evidence, share=by, words=by / 2))
    assert more[0] >= estimate(evidence)[0] - 1e-12


def test_it_grows_truly_where_it_is_not_at_an_end() -> None:
    evidence = [Row(0.4, 0.2, 0.3), Row(0.5, 0.1, 0.2)]
    before = estimate(evidence)[0]
    for change in ({"meaning": 0.05}, {"words": 0.05}, {"share": 0.05}):
        assert estimate(raised(evidence, **change))[0] > before


@given(lists, st.integers(1, 5))
def test_unrelated_others_change_nothing(evidence: list[Row], count: int) -> None:
    others = [Row(0.01 * n, 0.0, 0.0) for n in range(count)]
    assert estimate([*evidence, *others])[: len(evidence)].tolist() == estimate(evidence).tolist()
    below = [Row(-0.3 - 0.01 * n, 0.0, 0.0) for n in range(count)]
    assert estimate([*below, *evidence])[count:].tolist() == estimate(evidence).tolist()


@given(lists, st.integers(0, 7))
def test_copies_of_one_text_do_not_compete(evidence: list[Row], place: int) -> None:
    copy = evidence[place % len(evidence)]
    found = estimate([*evidence, copy, copy])
    assert found[: len(evidence)].tolist() == estimate(evidence).tolist()
    assert found[-1] == found[-2] == found[place % len(evidence)]


@given(lists, st.randoms(use_true_random=False))
def test_the_order_of_the_hits_changes_nothing(evidence: list[Row], random: Random) -> None:
    order = list(range(len(evidence)))
    random.shuffle(order)
    found, shuffled = estimate(evidence), estimate([evidence[at] for at in order])
    assert found[order].tolist() == shuffled.tolist()


def test_a_strong_field_takes_from_a_hit_and_one_or_two_rivals_hardly_do() -> None:
    field = [Row(0.35 - n / 1000, 0.2, 0.2) for n in range(8)]
    right = Row(0.6, 0.4, 0.5)
    before = estimate([right, *field])[0]
    restated = [Row(1.0 - n / 1000, 1.0, 1.0) for n in range(2)]
    assert before > 0.5
    assert estimate([right, *field, *restated])[0] > 0.8 * before
    rivals = [right._replace(meaning=0.6 - n / 1000) for n in range(1, 21)]
    assert estimate([right, *field, *rivals[:2]])[0] > 0.8 * before
    assert estimate([right, *field, *rivals])[0] < 0.5 * before


def test_nothing_competes_with_nothing() -> None:
    assert estimate([]).tolist() == []
    assert compare_evidence(pack([]), Field(0.2, 0.1)).shape == (0, 6)
    assert pack([]).measure_field() == pytest.approx(Field(0.3, 0.15))  # the least that a field has
    assert pair_evidence(pack([])).shape == (0, 3)


@given(lists, signals)
def test_that_an_answer_is_wanted_is_a_factor(evidence: list[Row], intent: float) -> None:
    wanted = estimate(evidence)
    assert estimate(evidence, intent=intent) == pytest.approx(intent * wanted)


# -- arithmetic


def test_meaning_and_the_share_of_terms_count_together_and_never_below_0() -> None:
    rows = [Row(0.5, 0.1, 0.2), Row(-0.5, 0.0, 1.0)]
    assert pair_evidence(pack(rows)).tolist() == [pytest.approx([0.5, 0.2, 0.1]), [0.0, 1.0, 0.0]]


def test_the_field_is_the_third_to_twentieth_best_of_different_texts() -> None:
    """The copy counts once, and none as less than .3 of meaning or .15 of words: (.6 + .3 + 16 · .3) / 18."""
    meanings, words = (0.9, 0.9, 0.6, 0.6, 0.3, -0.5), (0.1, 0.1, 0.4, 0.35, 0.2, 0.0)
    evidence = pack([Row(meaning, word, 0.0) for meaning, word in zip(meanings, words, strict=True)])
    assert evidence.measure_field() == pytest.approx(Field(5.7 / 18, 2.75 / 18))
    assert evidence.measure_field([0, 2, 3, 4]) == pytest.approx(Field(5.7 / 18, 2.75 / 18))
    assert evidence.measure_field([0, 4, 5]) == pytest.approx(Field(0.3, 0.15))  # two are better than any of the field
    many = pack([Row(1 - n / 100, n / 100, 0.0) for n in range(40)])
    assert many.measure_field() == pytest.approx(Field(1 - 10.5 / 100, (39 - 10.5) / 100))


def test_hits_are_compared_with_the_field() -> None:
    found = compare_evidence(pack([Row(0.9, 0.1, 0.0), Row(0.6, 0.4, 0.0), Row(-0.5, 0.0, 0.0)]), Field(0.4, 0.2))
    assert found[0].tolist() == pytest.approx([0.9, 0.1, 0.5, 0, 0, -0.1])
    assert found[1].tolist() == pytest.approx([0.6, 0.4, 0.2, 0, 0.2, 0])
    assert found[2].tolist() == pytest.approx([-0.5, 0.0, 0, -0.9, 0, -0.2])


def test_relevance_by_hand() -> None:
    """Log odds of the first: -1 + 2·.5 + .8 + 3·.4 = 2 of answering at all, and -1 + .5 + 2·.4 + 4·.2 + 6·.2 = 2.3."""
    rows = [Row(0.5, 0.4, 0.8), Row(0.2, 0.1, 0.3)]
    answer = AnswerWeights(constant=-1.0, meaning=2.0, share=1.0, both=3.0)
    weights = HitWeights(-1.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0)
    first, second = estimate_relevance(pack(rows), Field(0.3, 0.2), answer=answer, hit=weights)
    assert first == pytest.approx(1 / (1 + exp(-2.0)) / (1 + exp(-2.3)))
    at_all = 1 / (1 + exp(1 - 2 * 0.2 - 0.3 - 3 * 0.06))
    assert second == pytest.approx(at_all / (1 + exp(1 - 0.2 - 0.2 + 5 * 0.1 + 7 * 0.1)))


def test_squash() -> None:
    middle, above, below, least, most = squash(np.array([0.0, 2.0, -2.0, -5000.0, 5000.0]))
    assert middle == 0.5
    assert above + below == pytest.approx(1)
    assert (least, most) == (pytest.approx(0, abs=1e-300), 1)


# -- hits


def test_the_chance_of_an_answer_is_that_of_the_best_hit_of_a_query() -> None:
    def answering(chance: float, relevance: float) -> Hit:
        return replace(hit(relevance=relevance), scores={ANSWER: chance})

    assert estimate_answer_chances([]) == {}
    assert estimate_answer_chances([answering(0.7, 0.1), answering(0.9, 0.05)]) == {0: 0.9}
    assert estimate_answer_chances([hit(relevance=0.5), hit(relevance=0.2)]) == {0: 0.5}
    assert estimate_answer_chances([*(hit(relevance=0.5) for _ in range(10)), answering(0.9, 0.1)]) == {0: 0.5}
    other = replace(hit(relevance=0.3), scores={PART: 2})
    assert estimate_answer_chances([hit(relevance=0.5), other]) == {0: 0.5, 2: 0.3}


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_reranker_refines_towards_its_own_chance(relevance: float, reranked: float, other: float) -> None:
    refined = refine_relevance(relevance, reranked)
    assert min(relevance, reranked) - 1e-8 <= refined <= max(relevance, reranked) + 1e-8
    low, high = sorted((reranked, other))
    assert refine_relevance(relevance, low) <= refine_relevance(relevance, high) + 1e-12


def test_refined_by_hand() -> None:
    assert refine_relevance(0.3, 0.3) == pytest.approx(0.3)
    assert refine_relevance(0.2, 0.8) == pytest.approx(0.5)
    assert refine_relevance(0.9, 0.1 / 1.1) == pytest.approx(1 / (1 + exp((2.3025851 - 2.1972246) / 2)))
    assert isnan(refine_relevance(nan, 0.5))


def test_hits_are_sorted_by_relevance_then_similarity_then_id() -> None:
    hits = [
        hit("d", score=9.0, similarity=0.2, relevance=0.3),
        hit("c", score=0.1, similarity=0.5, relevance=0.3),
        hit("b", score=0.2, similarity=0.5, relevance=0.3),
        hit("a", score=0.0, relevance=0.9),
    ]
    assert [each.chunk.id for each in sort_by_relevance(hits)] == ["a", "b", "c", "d"]
    assert get_relevance(hits[0]) == 0.3
    assert get_relevance(replace(hits[0], relevance=nan)) == 9.0
