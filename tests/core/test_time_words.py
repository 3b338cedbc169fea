"""Times as people type them."""

from datetime import UTC, datetime

import pytest

from clew.core.time import parse_time

NOW = datetime(2026, 3, 1, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday", datetime(2026, 2, 28, tzinfo=UTC)),
        ("Today", datetime(2026, 3, 1, tzinfo=UTC)),
        ("7d", datetime(2026, 2, 22, 14, 30, tzinfo=UTC)),
        ("12 h ago", datetime(2026, 3, 1, 2, 30, tzinfo=UTC)),
        ("2w", datetime(2026, 2, 15, 14, 30, tzinfo=UTC)),
        ("30m", datetime(2026, 3, 1, 14, 0, tzinfo=UTC)),
        ("2025-05-31", datetime(2025, 5, 31)),
    ],
)
def test_a_time_is_parsed(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["soon", "7", "d7", "", "-3d"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text, NOW)
