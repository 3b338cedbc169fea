"""The reason for an empty search result: the first that applies."""

from datetime import UTC, datetime

import pytest

from clew.core.filter import EVERYTHING, Filter
from clew.core.types import StoreStats
from clew.query.why import explain_no_hits

EMPTY = StoreStats(0, 0, "hashed", 256, 0)
FILLED = StoreStats(2, 5, "hashed", 256, 1)


@pytest.mark.parametrize(
    ("stats", "where", "unknown", "reason"),
    [
        (
            EMPTY,
            Filter(channels={"opz"}),
            ["there is no channel 'opz'"],
            "the collection is empty; `clew add` fills it",
        ),
        (FILLED, Filter(channels={"opz"}), ["there is no channel 'opz'", "b"], "there is no channel 'opz'; b"),
        (FILLED, Filter(channels={"ops"}), [], "nothing matches within the filters"),
        (FILLED, Filter(since=datetime(2025, 1, 1, tzinfo=UTC)), [], "nothing matches within the filters"),
        (FILLED, EVERYTHING, [], "nothing in the collection matches the query"),
    ],
)
def test_the_reason(stats: StoreStats, where: Filter, unknown: list[str], reason: str) -> None:
    assert explain_no_hits(stats, where, unknown).startswith(reason)
