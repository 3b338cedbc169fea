"""Rows of other searches at the door: whatever calls its numbers and places what, the hits know them."""

from fractions import Fraction
from math import isnan
from typing import Any

import numpy as np
import pytest

from clew.query.context.results import has_position, result_to_hit


def made(**more: Any) -> Any:
    return result_to_hit({"text": "defghi", "source": "a.md", **more})


@pytest.mark.parametrize(
    ("given", "score"),
    [(0.5, 0.5), (np.float32(0.5), 0.5), (Fraction(1, 2), 0.5), (1, 1), (np.int64(1), 1), (None, 0), ("x", 0)],
)
def test_any_number_is_a_similarity(given: Any, score: float) -> None:
    assert (made(similarity=given).score, made(similarity=given).similarity) == (score, score)
    assert (made(similarity=float("nan")).score, made(similarity=float("nan")).similarity) == (0, 0)
    assert isnan(made(similarity=given).relevance)


@pytest.mark.parametrize("given", [7, 7.0, "7", np.int64(7), np.float32(7)])
def test_any_whole_number_is_an_index(given: Any) -> None:
    assert made(metadata={"chunk_index": given}).chunk.index == 7
    assert made(metadata={"line_number": given}).chunk.index == 7
    assert made(chunk_index=given).chunk.index == 7
    assert made(metadata={"chunk_index": given, "line_number": 3}).chunk.index == 7


@pytest.mark.parametrize("name", ["start", "char_start", "start_char", "start_index", "start_offset"])
def test_a_start_is_a_place(name: str) -> None:
    for hit in (made(metadata={name: 3}), made(**{name: 3}), made(metadata={name: 3, name.replace("start", "end"): 9})):
        assert (hit.chunk.start, hit.chunk.end, has_position(hit.chunk)) == (3, 9, True)
    for nowhere in (made(metadata={name: 3, name.replace("start", "end"): 8}), made(metadata={name: -3}), made()):
        assert not has_position(nowhere.chunk)


@pytest.mark.parametrize(
    ("path", "headings"),
    [
        ("One > Two", ("One", "Two")),
        ("a->b > List<int>", ("a->b", "List<int>")),
        (["x > y", ""], ("x > y",)),
        ("", ()),
        (None, ()),
    ],
)
def test_a_sign_inside_a_heading_does_not_part_it(path: Any, headings: tuple[str, ...]) -> None:
    assert made(heading_path=path).chunk.headings == headings
