"""The window chunker, case by case."""

from itertools import pairwise

import pytest

from clew.core.errors import SettingsError
from clew.index.chunk.quality import count_characters
from clew.index.chunk.windows import find_window_spans, make_window_chunker
from clew.index.read.text.markdown import read_markdown


def spans(text: str, *, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    return find_window_spans(text, size=size, overlap=overlap, count=count_characters)


def pieces(text: str, *, size: int, overlap: int = 0) -> list[str]:
    return [text[start:end] for start, end in spans(text, size=size, overlap=overlap)]


def test_case_2_4_words() -> None:
    text = "one two three four five six seven eight nine ten"
    assert pieces(text, size=20, overlap=10) == [
        "one two three four",
        "four five six seven",
        "six seven eight",
        "eight nine ten",
    ]


def test_case_2_5_nothing_and_what_fits() -> None:
    assert spans("", size=10) == []
    assert spans(" \n", size=10) == []
    assert pieces("just this", size=9) == ["just this"]


@pytest.mark.parametrize("text", ["x" * 1000, "word " * 199 + "words"])
def test_case_2_6_a_text_of_the_size_is_one_window(text: str) -> None:
    assert len(text) == 1000
    assert spans(text, size=1000, overlap=200) == [(0, 1000)]


def test_case_2_6_the_tail_is_not_doubled() -> None:
    assert spans("x" * 1800, size=1000, overlap=200) == [(0, 1000), (800, 1800)]
    assert spans("words " * 300, size=1200, overlap=240) == [(0, 1199), (960, 1799)]


@pytest.mark.parametrize(("size", "overlap"), [(300, 250), (300, 299), (2, 1), (9, 8)])
def test_case_2_7_it_ends(size: int, overlap: int) -> None:
    text = "a" * 100 + ". " + "Many words follow here. " * 40
    found = spans(text, size=size, overlap=overlap)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))
    assert found[-1][1] == len(text.rstrip())


@pytest.mark.parametrize("overlap", [20, 21, -1])
def test_case_2_7_overlap_must_be_less_than_size(overlap: int) -> None:
    with pytest.raises(SettingsError, match="chunk_overlap"):
        make_window_chunker(size=20, overlap=overlap, count=count_characters)
    with pytest.raises(SettingsError, match="chunk_overlap"):
        spans("text", size=20, overlap=overlap)


def test_case_2_8_rebuilt_exactly() -> None:
    word = "supercalifragilisticexpialidocious"
    assert "".join(pieces(word * 20, size=100)) == word * 20
    assert " ".join(pieces(f"{word} " * 20, size=100)) == " ".join([word] * 20)
    assert pieces("First sentence. Second sentence. Third sentence.", size=100) == [
        "First sentence. Second sentence. Third sentence."
    ]


def test_case_2_8_numbered() -> None:
    document = read_markdown("word " * 100, uri="a", name="a.md")
    chunks = make_window_chunker(size=50, overlap=10, count=count_characters)(document)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert {chunk.total for chunk in chunks} == {len(chunks)}


def test_case_2_9_at_the_space() -> None:
    assert spans("A" * 50 + " " + "B" * 50, size=60) == [(0, 50), (51, 101)]


def test_a_long_word_among_short_ones() -> None:
    text = "short " + "x" * 25 + " words"
    assert pieces(text, size=10) == ["short", "x" * 10, "x" * 10, "xxxxx", "words"]
    assert pieces(text, size=12) == ["short", "x" * 12, "x" * 12, "x words"]


def test_a_window_carries_the_headings_where_it_begins() -> None:
    document = read_markdown("# A\n\none two\n\n# B\n\nthree four", uri="a", name="a.md")
    chunks = make_window_chunker(size=12, overlap=0, count=count_characters)(document)
    assert [chunk.headings for chunk in chunks] == [("A",), ("A",), ("B",)]
