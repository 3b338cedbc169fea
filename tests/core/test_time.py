"""Times without a zone are UTC; ISO 8601 goes out and comes back unchanged."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from clew.core.time import EARLIEST, EPOCH, assume_utc, from_iso, parse_iso_or_none, to_iso, to_timestamp

NAIVE = datetime(2026, 1, 2, 3, 4, 5)
ELSEWHERE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))


def test_a_time_without_a_zone_is_utc() -> None:
    assert assume_utc(NAIVE) == NAIVE.replace(tzinfo=UTC)
    assert assume_utc(ELSEWHERE) is ELSEWHERE
    assert to_timestamp(NAIVE) == NAIVE.replace(tzinfo=UTC).timestamp()
    assert to_timestamp(ELSEWHERE) == to_timestamp(NAIVE) - 7200
    assert to_timestamp(None) is None
    assert to_timestamp(EPOCH) == 0
    assert min(EARLIEST, assume_utc(datetime.min)) == EARLIEST


@pytest.mark.parametrize("at", [NAIVE, ELSEWHERE, None])
def test_iso_comes_back_as_it_went(at: datetime | None) -> None:
    assert from_iso(to_iso(at)) == at


def test_iso_is_parsed_leniently() -> None:
    assert parse_iso_or_none(" 2026-01-02 ") == datetime(2026, 1, 2, tzinfo=UTC)
    assert parse_iso_or_none("2026-01-02T03:04:05+02:00") == ELSEWHERE
    assert parse_iso_or_none("yesterday") is None
