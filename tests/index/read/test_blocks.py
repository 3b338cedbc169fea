"""Blocks become markdown with the same meaning, and sections that cover it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import (
    ParsedSource,
    SourceBlock,
    assemble_text_and_sections,
    build_document,
    split_large_table,
)
from clew.index.read.text.markdown import parse_markdown_blocks

WORDS = st.text(st.sampled_from("ab1 #*-+>`~|=_:.)(<[]\\$\n\t你א"), min_size=1, max_size=40)
KINDS = st.sampled_from(["heading", "paragraph", "list_item", "code", "quote", "caption", "note"])
BLOCKS = st.lists(
    st.builds(
        SourceBlock,
        KINDS,
        WORDS,
        level=st.integers(0, 7),
        page=st.none() | st.integers(1, 3),
        marker=st.sampled_from(["", "1.", "-", "a)", "2)"]),
    ),
    max_size=12,
)


def assemble(*blocks: SourceBlock) -> str:
    return assemble_text_and_sections(blocks)[0]


def parse_kinds(text: str) -> list[str]:
    return [part.kind for part in parse_markdown_blocks(text)]


@given(BLOCKS)
def test_sections_partition_the_text(blocks: list[SourceBlock]) -> None:
    text, sections = assemble_text_and_sections(blocks)
    assert "".join(text[section.start : section.end] for section in sections) == text
    assert all(before.end == after.start for before, after in pairwise(sections))
    assert all(section.parent is None or section.parent < at for at, section in enumerate(sections))


@given(BLOCKS)
def test_only_headings_become_headings(blocks: list[SourceBlock]) -> None:
    text, sections = assemble_text_and_sections(blocks)
    assert [part.start for part in parse_markdown_blocks(text) if part.level] == [s.start for s in sections if s.label]


@given(WORDS)
def test_a_paragraph_is_never_structure(words: str) -> None:
    assert set(parse_kinds(assemble(SourceBlock("paragraph", words)))) <= {"paragraph"}


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_code_stays_in_its_fence(lines: list[str]) -> None:
    code = "\n".join(lines)
    assert set(parse_kinds(assemble(SourceBlock("code", code), SourceBlock("paragraph", "after")))) <= {
        "code",
        "paragraph",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# no heading", "\\# no heading"),
        ("1. no list", "1\\. no list"),
        ("- no item", "\\- no item"),
        ("a | b\n--- | ---", "a | b\n\\--- | ---"),
        ("title\n===", "title\n\\==="),
        ("<div>", "\\<div>"),
        ("[a]: b", "\\[a]: b"),
        ("max_skew_ms *is* 3", "max_skew_ms *is* 3"),
    ],
)
def test_what_looks_like_markdown_is_escaped_where_a_line_begins(text: str, expected: str) -> None:
    assert assemble(SourceBlock("paragraph", text)) == expected


def test_lists_nest_under_their_markers() -> None:
    items = [("one", 0, "1."), ("sub", 1, ""), ("deep\nmore", 2, ""), ("two", 0, "2."), ("third", 0, "a)")]
    text = assemble(*(SourceBlock("list_item", words, level=level, marker=mark) for words, level, mark in items))
    assert text == "1. one\n   - sub\n     - deep\n       more\n2. two\n- a) third"


def test_a_page_that_turns_inside_a_section_keeps_the_path() -> None:
    blocks = [
        SourceBlock("heading", "Keys", 1, 1),
        SourceBlock("paragraph", "a", page=1),
        SourceBlock("paragraph", "b", page=2),
    ]
    text, sections = assemble_text_and_sections(
        [*blocks, SourceBlock("heading", "Rotation", 2, 2), SourceBlock("paragraph", "c", page=3)]
    )
    found = Document("d", text, sections)
    assert [(s.page, found.heading_path(at)) for at, s in enumerate(sections)] == [
        (1, ("Keys",)),
        (2, ("Keys",)),
        (2, ("Keys", "Rotation")),
        (3, ("Keys", "Rotation")),
    ]


def test_nothing_to_read_is_an_error() -> None:
    with pytest.raises(SourceError, match="no text"):
        build_document(
            ParsedSource([SourceBlock("paragraph", " \n")]), uri="a.docx", name="a.docx", source_format="docx"
        )


def test_a_small_table_is_one_block_and_its_pipes_are_escaped() -> None:
    (only,) = split_large_table([["a", "b|c"], ["1\n2", ""], ["", ""]])
    assert only.text == "| a | b\\|c |\n| - | - |\n| 1 2 |"


def test_a_long_table_is_cut_by_rows_under_its_header() -> None:
    pieces = list(split_large_table([["name", "value"], *([f"n{n}", f"v{n}"] for n in range(200))]))
    assert len(pieces) > 3
    assert all(piece.text.startswith("| name | value |\n| - | - |\n") and len(piece.text) <= 720 for piece in pieces)
    assert sum(piece.text.count("\n") - 1 for piece in pieces) == 200
    assert parse_kinds(assemble(*pieces)) == ["table"] * len(pieces)


def test_a_table_of_ten_thousand_columns_is_cut_by_columns_beside_the_first() -> None:
    pieces = list(split_large_table([[f"{row}-{column}" for column in range(10_000)] for row in range(3)]))
    assert all(piece.text.startswith("| 0-0 | ") and len(piece.text) < 2_000 for piece in pieces)
    cells = {cell.strip() for piece in pieces for cell in piece.text.replace("\n", "|").split("|")}
    assert {f"{row}-{column}" for row in range(3) for column in range(10_000)} <= cells


def test_a_table_costs_what_is_in_it_not_the_rectangle_around_it() -> None:
    rows = [["key"], *([str(n)] for n in range(20_000)), [str(n) for n in range(10_000)]]
    assert sum(len(piece.text) for piece in split_large_table(rows)) < 2_000_000
