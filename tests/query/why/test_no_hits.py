"""The reason for an empty search result: the first that applies."""

from datetime import UTC, datetime

import pytest

from clew.core.filter import EVERYTHING, Filter
from clew.core.types import StoreStats
from clew.query.why.no_hits import explain_no_hits

EMPTY = StoreStats(0, 0, "hashed", 256, 0)
FILLED = StoreStats(2, 5, "hashed", 256, 1)


@pytest.mark.parametrize(
    ("stats", "where", "reason"),
    [
        (EMPTY, Filter(channels=frozenset({"opz"})), "the collection is empty; `clew add` fills it"),
        (FILLED, Filter(channels=frozenset({"opz"})), "there is no channel 'opz'; did you mean ops?"),
        (FILLED, Filter(channels=frozenset({"zzzzz"})), "there is no channel 'zzzzz'; there are dev, ops"),
        (FILLED, Filter(channels=frozenset({"ops"})), "nothing matches within the filters"),
        (FILLED, Filter(since=datetime(2025, 1, 1, tzinfo=UTC)), "nothing matches within the filters"),
        (FILLED, EVERYTHING, "nothing in the collection matches the query"),
    ],
)
def test_the_reason(stats: StoreStats, where: Filter, reason: str) -> None:
    assert explain_no_hits(stats, where, lambda: ["dev", "ops"]).startswith(reason)


def test_channels_are_listed_only_for_a_channel_filter() -> None:
    assert explain_no_hits(FILLED, EVERYTHING, lambda: pytest.fail("not needed"))


def test_a_collection_without_channels_has_none_to_suggest() -> None:
    assert explain_no_hits(FILLED, Filter(channels=frozenset({"ops"})), list) == "there is no channel 'ops'"
