"""Small chunks are joined and poor ones left out, when asked for."""

from itertools import accumulate

import pytest

from clew.core.types import Chunk, Document
from clew.index.chunk.build import build, cuts_of
from clew.index.chunk.quality import characters, drop_poor, merge_small
from clew.index.chunk.structure import structure
from clew.index.read.text.markdown import markdown


def document_of(*sizes: int) -> tuple[Document, list[Chunk]]:
    """A text of paragraphs of these sizes, and a chunk of each."""
    document = markdown("\n\n".join("x" * size for size in sizes), uri="a", name="a.md")
    starts = [0, *accumulate(size + 2 for size in sizes)]
    spans = [(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    return document, build(document, cuts_of(document, spans), headings=True)


@pytest.mark.parametrize(
    ("sizes", "min_size", "max_size", "expected"),
    [
        ((150, 30, 30), 200, None, [214]),
        ((150, 30, 30), 200, 200, [182, 30]),
        ((300, 300), 200, None, [300, 300]),
        ((300, 30), 200, None, [332]),
        ((300, 30), 200, 320, [300, 30]),
    ],
)
def test_case_2_13_merge_small(
    sizes: tuple[int, ...], min_size: int, max_size: int | None, expected: list[int]
) -> None:
    document, chunks = document_of(*sizes)
    assert [len(chunk.text) for chunk in chunks] == list(sizes)
    merged = merge_small(document, chunks, min_size=min_size, max_size=max_size)
    assert [len(chunk.text) for chunk in merged] == expected
    assert [(chunk.index, chunk.total) for chunk in merged] == [(i, len(expected)) for i in range(len(expected))]
    assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in merged)


def test_what_stands_under_other_headings_is_not_merged() -> None:
    document = markdown("# A\n\nfew\n\n# B\n\nwords", uri="a", name="a.md")
    chunks = structure(size=100, overlap=0, count=characters)(document)
    assert merge_small(document, chunks) == chunks
    assert merge_small(document, []) == []


GOOD = "These are enough words to say something of use to a reader."


def test_case_2_13_indexes_are_contiguous_after_filtering() -> None:
    document = markdown(f"# A\n\n{GOOD}\n\n# B\n\nfew\n\n# C\n\n{GOOD}", uri="a", name="a.md")
    chunks = structure(size=100, overlap=0, count=characters)(document)
    kept = drop_poor(chunks)
    assert [chunk.headings for chunk in kept] == [("A",), ("C",)]
    assert [(chunk.index, chunk.total) for chunk in kept] == [(0, 2), (1, 2)]
    assert [chunk.id for chunk in kept] == [chunks[0].id, chunks[2].id]


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        (GOOD, True),
        (GOOD[:49], False),  # fewer than 50 characters
        ("word" * 20, False),  # fewer than five words
        ("a - - - - - - - - - - - - - - - - - - - - - - - - - - - - - b", False),  # hardly a letter
        ("# A heading that is long enough to be taken for a text of its own", False),
        ("```\nx\n```", True),
        ("| a |\n|---|\n| 1 |", True),
        ("# H\n\nshort\n\n```\nx = 1\n```", True),
        ("`x`", False),
    ],
)
def test_case_2_14_defaults(text: str, is_kept: bool) -> None:
    document = markdown(text, uri="a", name="a.md")
    chunks = structure(size=1000, overlap=0, count=characters)(document)
    assert len(chunks) == 1
    assert (drop_poor(chunks) == chunks) is is_kept


def test_case_2_14_the_limits_can_be_set() -> None:
    document = markdown("few words", uri="a", name="a.md")
    chunks = structure(size=1000, overlap=0, count=characters)(document)
    assert drop_poor(chunks, min_chars=5, min_words=2) == chunks
    assert drop_poor(chunks, min_chars=5, min_words=3) == []
    assert drop_poor(chunks, min_chars=5, min_words=2, min_alphanumeric=0.95) == []
