"""The formulas of a message's score: each test is the arithmetic of its case."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.settings import ScoringConfig
from clew.query.messages.score import (
    ScoringInputs,
    channel_score,
    compute_chain_completeness,
    compute_flow,
    product_score,
    sort_by_score_then_time,
    thread_score,
    time_score,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CONFIG = ScoringConfig()


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


# -- time


@pytest.mark.parametrize(
    ("minutes", "expected"), [(0, 1.0), (5, 0.983471), (10, 0.967216), (60, 0.818731), (24 * 60, 0.008230)]
)
def test_time_decays_by_the_hour(minutes: float, expected: float) -> None:
    assert time_score(ago(minutes), NOW, decay=0.2) == pytest.approx(expected, abs=1e-6)


def test_a_missing_or_unparsable_time_counts_as_new() -> None:
    assert time_score(None, NOW, decay=0.2) == 1
    assert time_score("yesterday-ish", NOW, decay=0.2) == 1
    assert time_score("2026-05-01T11:00:00+00:00", NOW, decay=0.2) == pytest.approx(0.818731, abs=1e-6)


def test_a_time_in_the_future_gains_nothing() -> None:
    assert time_score(ago(-60), NOW, decay=0.2) == pytest.approx(0.818731, abs=1e-6)


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_score(ago(60).replace(tzinfo=None), NOW, decay=0.2) == pytest.approx(0.818731, abs=1e-6)


def test_the_floor_holds_old_messages() -> None:
    assert time_score(ago(24 * 60), NOW, decay=0.2, floor=0.5) == 0.5
    assert time_score(ago(60), NOW, decay=0.2, floor=0.5) == pytest.approx(0.818731, abs=1e-6)


# -- channel, thread, flow, completeness


def test_channel_and_thread_boosts() -> None:
    assert channel_score("ops", None, boost=1.2) == 1
    assert channel_score("ops", "ops", boost=1.2) == pytest.approx(1.2)
    assert channel_score("ops", "dev", boost=1.2) == 1
    assert thread_score(True, boost=1.5) == 1.5
    assert thread_score(False, boost=1.5) == 1


def test_a_conversation_is_as_active_as_its_nearest_other_hit() -> None:
    assert compute_flow(NOW, [], decay=0.2) == 0
    assert compute_flow(NOW, [ago(24 * 60), ago(60)], decay=0.2) == pytest.approx(0.818731, abs=1e-6)
    assert compute_flow(None, [NOW], decay=0.2) == 1


def test_completeness_is_the_share_of_the_chain() -> None:
    assert compute_chain_completeness(["4", "3", "2", "1"], {"4", "2"}) == 0.5
    assert compute_chain_completeness(["1"], {"1"}) == 1
    assert compute_chain_completeness([], set()) == 1


# -- the whole


def test_a_score_without_a_time_stays() -> None:
    assert product_score(ScoringInputs(0.9), now=NOW, channel=None, config=CONFIG).total == 0.9


def test_flow_and_completeness_multiply_where_they_have_a_boost() -> None:
    config = replace(CONFIG, flow_boost=1.4, completeness_boost=2.0)
    scores = product_score(ScoringInputs(0.5, flow=0.5, completeness=0.25), now=NOW, channel=None, config=config)
    assert (scores.flow, scores.completeness) == pytest.approx((1.2, 1.25))
    assert scores.total == pytest.approx(0.5 * 1.2 * 1.25)


# -- the order


Item = tuple[str, float, datetime | None]


def sort(items: list[Item], equality: float = 0.01) -> list[str]:
    done = sort_by_score_then_time(
        items, equality=equality, score=lambda it: it[1], at=lambda it: it[2], name=lambda it: it[0]
    )
    return [each[0] for each in done]


def test_nearly_equal_scores_are_newest_first_in_every_permutation() -> None:
    items: list[Item] = [("old", 0.900, ago(30)), ("mid", 0.893, ago(20)), ("new", 0.886, ago(10))]
    assert {tuple(sort(list(order))) for order in permutations(items)} == {("mid", "old", "new")}


def test_scores_apart_keep_their_order() -> None:
    assert sort([("new", 0.89, NOW), ("old", 0.9, ago(600))]) == ["old", "new"]
    assert sort([("new", 0.89, NOW), ("old", 0.9, ago(600))], equality=0.02) == ["new", "old"]
    assert sort([("new", 0.9, NOW), ("old", 0.9, ago(600))], equality=0.0) == ["new", "old"]  # by name, here


def test_what_has_no_time_is_the_oldest() -> None:
    assert sort([("a", 0.9, None), ("b", 0.9, ago(999_999))]) == ["b", "a"]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.one_of(st.none(), st.integers(0, 100))), max_size=7),
    st.randoms(use_true_random=False),
)
def test_the_order_is_total(values: list[tuple[float, int | None]], random: Random) -> None:
    items: list[Item] = [
        (str(at), score, None if minutes is None else ago(minutes)) for at, (score, minutes) in enumerate(values)
    ]
    shuffled = list(items)
    random.shuffle(shuffled)
    assert sort(shuffled) == sort(items)
