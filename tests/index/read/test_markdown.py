"""Markdown pages: headings, front matter, titles and times."""

import json
import random
from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt
from markdown_it.rules_block.table import MAX_AUTOCOMPLETED_CELLS

from clew.core.types import Document
from clew.index.read.text.markdown import parse_markdown_blocks, read_markdown


def read_page(text: str, *, name: str = "getting-started_2.md") -> Document:
    return read_markdown(text, uri="a", name=name)


def list_sections(document: Document) -> list[tuple[str, int | None]]:
    return [(section.label, section.parent) for section in document.sections]


def test_headings_are_sections_under_one_another() -> None:
    document = read_page("before\n\n# A\n\n### B\n\ntext\n\n## C\n\nD\n=\n\nE\n-\n\n")
    assert list_sections(document) == [("", None), ("A", None), ("B", 1), ("C", 1), ("D", None), ("E", 4)]
    assert document.heading_path(2) == ("A", "B")
    first = document.sections[1]
    assert document.text[first.start : first.end] == "# A\n\n"


def test_white_space_before_the_first_heading_is_no_section() -> None:
    document = read_page("\n\n# A\n\ntext")
    assert list_sections(document) == [("A", None)]
    assert document.sections[0].start == 0


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```",
        "~~~\n# no\n~~~",
        "    # no",
        "#no",
        "> # no",
        "- # no",
        "<pre>\n# no\n</pre>",
        "text\n\n```sh\n# never closed",
        "\\# no",
        "####### no",
    ],
)
def test_what_only_looks_like_a_heading(text: str) -> None:
    assert list_sections(read_page(text)) == [("", None)]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("# Plain", "Plain"),
        ("# *A* **b** `c_d`", "A b c_d"),
        ("# See [the docs](http://x.y) now", "See the docs now"),
        ("# Closed ##", "Closed"),
        ("# With anchor {#anchor}", "With anchor"),
        ("# snake_case_name", "snake_case_name"),
        ("# a \\* b &amp; c", "a * b & c"),
        ("# ![logo](x.png) Name", "logo Name"),
        ('# <a name="x"></a>Name', "Name"),
        ("Two\nlines\n===", "Two lines"),
        ("#", ""),
    ],
)
def test_a_label_is_the_words_of_the_heading(line: str, label: str) -> None:
    assert list_sections(read_page(line)) == [(label, None)]


def test_front_matter_goes_to_meta() -> None:
    text = (
        "---\ntitle: Key rotation\ntags: [vault, keys]\ndate: 2024-03-01\nformat: mine\nowner: {name: Ada}\n---\n# H1\n"
    )
    document = read_page(text)
    assert document.text == "# H1\n"
    assert document.title == "Key rotation"
    assert document.meta["tags"] == ["vault", "keys"]
    assert document.meta["date"] == "2024-03-01"
    assert document.meta["owner"] == {"name": "Ada"}
    assert document.meta["format"] == "markdown"
    assert document.sections[0].at == datetime(2024, 3, 1, tzinfo=UTC)
    assert json.loads(json.dumps(dict(document.meta))) == dict(document.meta)


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ("date: 2024-03-01T10:00:00+02:00", datetime(2024, 3, 1, 8, tzinfo=UTC)),
        ("date: 2024-03-01 10:00", datetime(2024, 3, 1, 10, tzinfo=UTC)),
        ("date: '2024-03-01'", datetime(2024, 3, 1, tzinfo=UTC)),
        ("date: 2024-03-01\nupdated: 2024-04-01", datetime(2024, 4, 1, tzinfo=UTC)),
        ("date: 2024-03-01\nupdated: soon", datetime(2024, 3, 1, tzinfo=UTC)),
        ("date: last spring", None),
        ("date: 20", None),
        ("title: none", None),
        ("date: 0001-01-01T00:00:00+14:00", None),
    ],
)
def test_the_time_of_a_page(lines: str, at: datetime | None) -> None:
    assert read_page(f"---\n{lines}\n---\ntext").sections[0].at == at


@pytest.mark.parametrize(
    "matter",
    [
        "title: [unclosed",
        "a: b: c",
        "date: 2024-13-45",
        "\tx: 1",
        "a: &a [*a]",
        "? [1]\n: 2\n? {}\n: 3",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d]",
    ],
)
def test_front_matter_that_is_wrong_stays_in_the_text(matter: str) -> None:
    text = f"---\n{matter}\n---\n# A\n"
    document = read_page(text)
    assert document.text == text
    assert "front matter" in document.meta["front_matter_error"]


@pytest.mark.parametrize("text", ["---\n\ntext", "---\nJust words.\n---\n", "--- x\na: 1\n---", "text\n---\na: 1\n---"])
def test_what_is_no_front_matter(text: str) -> None:
    document = read_page(text)
    assert document.text == text
    assert document.meta == {"format": "markdown"}


def test_only_front_matter() -> None:
    document = read_page("---\ntitle: Only\n---\n")
    assert (document.text, document.sections, document.title) == ("", (), "Only")
    assert read_page("---\n---\ntext").text == "text"
    assert read_page("---\nn: .nan\nb: !!binary aGk=\ns: !!set {x, y}\n...\ntext").meta == {
        "n": "nan",
        "b": "b'hi'",
        "s": ["x", "y"],
        "front_matter_lines": 5,
        "format": "markdown",
    }


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Given\n---\n# Heading", "Given"),
        ("---\ntitle: 2024\n---\n# Heading", "2024"),
        ("---\ntitle: ''\n---\n# Heading", "Heading"),
        ("## Second\n\n# First", "First"),
        ("text", "Getting started 2"),
    ],
)
def test_the_title(text: str, title: str) -> None:
    assert read_page(text).title == title


def test_a_text_is_parsed_once() -> None:
    text = "# A\n\nThis text is parsed by the reader and asked for again by the chunker."
    read_page(text)
    before = parse_markdown_blocks.cache_info().hits
    parse_markdown_blocks(text)
    assert parse_markdown_blocks.cache_info().hits == before + 1


def test_nesting_that_is_too_deep_loses_nothing() -> None:
    for text in ("> " * 500 + "deep", "- " * 500 + "deep", "[" * 5000, "*" * 5000 + "x"):
        parts = parse_markdown_blocks(text)
        assert "".join("".join(text[p.start : p.end].split()) for p in parts) == "".join(text.split())


@pytest.mark.slow
def test_tables_end_where_those_of_the_parser_end() -> None:
    parser = MarkdownIt("commonmark").enable("table")
    chance = random.Random(5)
    lines = ["| a | b |", "a | b", "|---|---|", "-|-", "|---|", "", "text", r"a \| b", "|", "> a", "    | c | d", "# A"]
    wide = "|a" * 300 + "|\n" + "|-" * 300 + "|\n"
    texts = ["\n".join(chance.choices(lines, k=12)) for _ in range(300)]
    tables = 0
    for text in (*texts, wide + "|a|\n" * (MAX_AUTOCOMPLETED_CELLS // 299 + 5)):
        starts = [token.map for token in parser.parse(text) if token.type == "table_open" and token.level == 0]
        made = [block for block in parse_markdown_blocks(text) if block.kind == "table" and not block.depth]
        expected = [[text[: b.start].count("\n"), text[: b.end].count("\n") + 1] for b in made]
        assert [s for s in starts if s in expected] == starts, text
        tables += len(starts)
    assert tables > 50
