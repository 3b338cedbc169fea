"""Windows, ends and chances: the arithmetic that rerankers share."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.drivers.windows import keep_both_ends, logistic, max_score_per_text, split_windows


@given(length=st.integers(0, 400), room=st.integers(1, 60), overlap=st.integers(0, 80))
def test_windows_cover_everything(length: int, room: int, overlap: int) -> None:
    found = [range(length)[window] for window in split_windows(length, room, overlap)]
    assert sorted({each for window in found for each in window}) == list(range(length))
    assert all(len(window) == min(room, length) for window in found)
    shared = min(overlap, room // 2)
    assert all(len(set(one) & set(other)) >= shared for one, other in pairwise(found))
    assert len(found) == max(1, math.ceil((length - shared) / (room - shared)))


def test_windows_are_spread_evenly() -> None:
    assert split_windows(1000, 400, 50) == [slice(0, 400), slice(300, 700), slice(600, 1000)]
    assert split_windows(400, 400, 50) == [slice(0, 400)]
    assert split_windows(401, 400, 50) == [slice(0, 400), slice(1, 401)]
    assert split_windows(0, 400, 50) == [slice(0, 0)]


def test_both_ends() -> None:
    assert ["abcdefgh"[part] for part in keep_both_ends(8, 5)] == ["abc", "gh"]
    assert ["abcdefgh"[part] for part in keep_both_ends(8, 8)] == ["abcdefgh"]
    assert ["abcdefgh"[part] for part in keep_both_ends(8, 1)] == ["a", ""]


def test_the_best_window_counts() -> None:
    assert max_score_per_text([-3.0, -1.0, 2.0, 0.5], [1, 0, 1, 0], 2) == [0.5, 2.0]
    assert max_score_per_text([], [], 0) == []


def test_the_logistic() -> None:
    assert logistic(0) == 0.5
    assert logistic(math.log(3)) == pytest.approx(0.75)
    assert logistic(-1e6) == 0
    assert logistic(1e6) == 1
