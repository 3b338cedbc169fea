"""The paragraph chunker, case by case."""

import math
from collections.abc import Sequence

import pytest

from clew.core.errors import SettingsError
from clew.index.chunk.pages import chunk_markdown, estimate_token_counts, find_paragraph_spans


def quarter(texts: Sequence[str]) -> list[int]:
    return [math.ceil(len(text) / 4) for text in texts]


def test_the_default_count_is_a_quarter_of_the_characters() -> None:
    assert estimate_token_counts(["", "a", "abcd", "abcde"]) == quarter(["", "a", "abcd", "abcde"])


def test_case_2_1_the_last_paragraph_is_repeated() -> None:
    a, b, c = "a" * 400, "b" * 400, "c" * 400
    found = chunk_markdown(f"{a}\n\n{b}\n\n{c}", max_tokens=201, overlap_tokens=100, count=quarter)
    assert found == [f"{a}\n\n{b}", f"{b}\n\n{c}"]


@pytest.mark.parametrize(("overlap", "second"), [(99, "cd"), (100, "cd"), (0, "cd")])
def test_case_2_1_with_less_overlap(overlap: int, second: str) -> None:
    a, b, c, d = ("a" * 400, "b" * 404, "c" * 400, "d" * 400)
    found = chunk_markdown("\n\n".join((a, b, c, d)), max_tokens=202, overlap_tokens=overlap, count=quarter)
    assert found == [f"{a}\n\n{b}", f"{c}\n\n{d}"]


def test_case_2_2_overlap_gives_way() -> None:
    a, b = "a" * 600, "b" * 7200
    assert chunk_markdown(f"{a}\n\n{b}", max_tokens=1800, overlap_tokens=150, count=quarter) == [a, b]


@pytest.mark.parametrize("text", ["x" * 20_000, "word " * 4000, "A sentence of words. " * 952, "鍵を回す。" * 4000])
def test_case_2_3_one_long_paragraph(text: str) -> None:
    found = chunk_markdown(text, max_tokens=1800, count=quarter)
    assert len(found) > 1
    assert max(quarter(found)) <= 1800
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_limit_alone_is_enough() -> None:
    assert max(quarter(chunk_markdown("Some words. " * 200, max_tokens=20, count=quarter))) <= 20


def test_nothing_gives_nothing() -> None:
    assert chunk_markdown("") == []
    assert chunk_markdown(" \n\n \n") == []
    assert find_paragraph_spans("  a  ") == [(2, 3)]


def test_overlap_must_be_less_than_the_limit() -> None:
    with pytest.raises(SettingsError, match="overlap_tokens is 20"):
        chunk_markdown("text", max_tokens=20, overlap_tokens=20)


def test_blank_lines_may_hold_spaces() -> None:
    assert chunk_markdown("a" * 40 + "\n  \n" + "b" * 40, max_tokens=10, overlap_tokens=0) == ["a" * 40, "b" * 40]
