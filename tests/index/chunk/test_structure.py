"""The structure chunker: headings, blocks and sentences decide where a chunk ends."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from clew.core.errors import SettingsError
from clew.core.settings import IngestionConfig
from clew.core.types import Chunk, Document, Section
from clew.index.chunk import make_chunker
from clew.index.chunk.atoms import find_document_blocks
from clew.index.chunk.pages import count_characters, make_structure_chunker
from clew.index.read import TextReader
from clew.index.read.text.code import read_code
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.plain import read_plain_text


def page(text: str) -> Document:
    return read_markdown(text, uri="page.md", name="page.md")


def chunks_of(text: str, *, size: int = 100, overlap: int = 0) -> list[Chunk]:
    return make_structure_chunker(size=size, overlap=overlap, count=count_characters)(page(text))


def texts_of(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_case_2_10_no_sentence_is_lost_or_doubled() -> None:
    text = "# Title\n\n" + 50 * "Sentence number one. "
    chunks = make_structure_chunker(size=100, overlap=0, count=count_characters, headings=False)(page(text))
    assert sum(chunk.text.count("Sentence number one.") for chunk in chunks) == 50
    assert {chunk.headings for chunk in chunks} == {()}
    assert all(chunk.text.endswith(".") for chunk in chunks)


def test_case_2_11_a_chunk_a_heading() -> None:
    chunks = chunks_of("# Chapter 1\n\ntext\n\n## Section 1.1\n\ntext\n\n# Chapter 2\n\ntext")
    assert [chunk.headings for chunk in chunks] == [("Chapter 1",), ("Chapter 1", "Section 1.1"), ("Chapter 2",)]


@pytest.mark.parametrize("size", [30, 60, 200])
def test_case_2_12_order_under_a_heading_is_that_of_the_document(size: int) -> None:
    text = "# A\n\nFirst words here.\n\n```py\ncode()\n```\n\nLast words here."
    joined = "\n".join(texts_of(chunks_of(text, size=size)))
    assert joined.index("First") < joined.index("code()") < joined.index("Last")


@pytest.mark.parametrize(("reader", "name"), [(read_markdown, "a.md"), (read_plain_text, "a.txt")])
def test_case_2_15_markdown_and_text_go_through_structure(reader: TextReader, name: str) -> None:
    document = reader("Title\n=====\n\nFirst.\n\nOther\n=====\n\nSecond.\n", uri=name, name=name)
    chunks = make_chunker(IngestionConfig(chunk_size=100, chunk_overlap=0), count_characters)(document)
    assert [chunk.headings for chunk in chunks] == [("Title",), ("Other",)]


def test_the_setting_chooses_windows() -> None:
    document = page("# A\n\nFirst.\n\n# B\n\nSecond.")
    config = IngestionConfig(chunk_size=100, chunk_overlap=0, use_semantic_chunking=False)
    assert texts_of(make_chunker(config, count_characters)(document)) == [document.text]


@pytest.mark.parametrize(("size", "overlap"), [(100, 100), (100, 101), (0, 0), (10, -1)])
def test_sizes_that_cannot_be_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(SettingsError, match="chunk_"):
        make_structure_chunker(size=size, overlap=overlap, count=count_characters)


def test_nothing_gives_no_chunks() -> None:
    assert chunks_of("") == []
    assert chunks_of(" \n\n ") == []


def test_a_heading_goes_with_what_follows() -> None:
    first = "One sentence of some length that nearly fills a chunk by itself alone."
    for chunk in chunks_of(f"# The heading\n\n{first} Another one.\n\n{first}", size=75):
        assert chunk.text != "# The heading"


def test_where_lines_are_not_wrapped_each_is_a_paragraph() -> None:
    first, second = ("One thing, told at length. " * 8).strip(), ("Another thing, told at length. " * 8).strip()
    assert texts_of(chunks_of(f"Of one\n{first}\nOf another\n{second}", size=300)) == [
        f"Of one\n{first}",
        f"Of another\n{second}",
    ]


def test_where_lines_are_wrapped_they_are_no_place_to_cut() -> None:
    text = "A sentence that is broken\nover lines. Another that is\nbroken over lines as well.\n" * 4
    assert all(chunk.text.endswith(".") for chunk in chunks_of(text, size=100))


def test_a_paragraph_that_a_stray_line_underlines_is_not_said_before_every_chunk() -> None:
    text = f"{'A long paragraph that is no heading. ' * 9}\n====\n\n## Part\n\nText of it."
    assert chunks_of(text, size=800)[-1].headings == ("Part",)


def test_a_bare_heading_goes_with_the_next_section() -> None:
    chunks = chunks_of("# Book\n\n## Part\n\nText of it.\n\n## Empty\n\n## Last\n\nMore text.\n\n# End")
    assert texts_of(chunks) == [
        "# Book\n\n## Part\n\nText of it.",
        "## Empty\n\n## Last\n\nMore text.",
        "# End",
    ]
    assert [chunk.headings for chunk in chunks] == [("Book", "Part"), ("Book", "Last"), ("End",)]


def test_a_table_that_fits_is_not_cut() -> None:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n * n} |" for n in range(6))
    chunks = chunks_of(f"# T\n\nSome words before it, enough to fill half of it.\n\n{table}\n\nSome words after it.")
    assert any(table in chunk.text for chunk in chunks)
    assert {chunk.meta.get("content") for chunk in chunks if table in chunk.text} == {"table"}


@pytest.mark.parametrize("size", [100, 101, 120])
def test_what_is_exactly_as_large_as_a_chunk_is_not_cut(size: int) -> None:
    table = "| a |\n|---|\n| " + "x" * 84 + " |"
    assert len(table) == 100
    texts = texts_of(chunks_of(f"{'Some words. ' * 20}\n\n{table}\n\n\n\n{'More words. ' * 20}", size=size))
    assert any(table in text for text in texts)
    assert "y" * 100 in texts_of(chunks_of(f"{'Some words. ' * 20}\n\n{'y' * 100}\n\n{'More words. ' * 20}"))


def test_a_large_table_is_cut_by_rows_that_know_their_head() -> None:
    rows = [f"| row {n} | {n * n} |" for n in range(30)]
    chunks = chunks_of("\n".join(["| name | square |", "|---|---|", *rows]))
    assert len(chunks) > 3
    assert chunks[0].context == ""
    assert {chunk.context for chunk in chunks[1:]} == {"| name | square |"}
    assert [line for chunk in chunks for line in chunk.text.split("\n")][2:] == rows
    assert chunks[1].embed_text.startswith("| name | square |\n\n")


def test_code_that_fits_is_not_cut_and_larger_code_is_cut_at_blank_lines() -> None:
    function = "def f():\n    one()\n    two()"
    small = f"```py\n{function}\n\n{function}\n```"
    assert any(small in text for text in texts_of(chunks_of(f"Words before, many of them, more.\n\n{small}", size=80)))
    large = "\n\n".join([function] * 10)
    for text in texts_of(chunks_of(f"```py\n{large}\n```", size=80)):
        assert text.startswith(("```py", "def f():"))
        assert text.endswith(("two()", "```"))


def test_a_list_stays_with_its_lead_in() -> None:
    items = "- first item\n- second item\n- third item"
    chunks = chunks_of(f"# L\n\n{'Words. ' * 12}\n\nThe steps are:\n\n{items}\n\nAfter it.", size=90)
    assert any(f"The steps are:\n\n{items}" in chunk.text for chunk in chunks)


def test_a_long_list_is_cut_between_items() -> None:
    items = [f"- item {n} of the list. It has two sentences." for n in range(10)]
    for text in texts_of(chunks_of("\n".join(items), size=100)):
        assert all(line in items for line in text.split("\n"))


def test_code_inside_an_item_is_not_cut() -> None:
    text = "- item one\n\n  ```\n  a. b. c\n\n  d. e. f\n  ```\n- item two with words\n- item three with words"
    assert any("a. b. c\n\n  d. e. f\n  ```" in chunk.text for chunk in chunks_of(text, size=50))


def test_overlap_is_of_whole_sentences_inside_a_section() -> None:
    sentences = [f"Sentence number {n:02}." for n in range(12)]
    chunks = chunks_of("# A\n\n" + " ".join(sentences) + "\n\n# B\n\nOther words.", size=70, overlap=25)
    for before, after in pairwise(chunks[:-1]):
        shared = before.text[after.start - before.start :]
        assert shared in sentences
    assert chunks[-1].text == "# B\n\nOther words."


def test_overlap_repeats_no_table_and_no_code() -> None:
    code_block = "```\nx = 1\n```"
    chunks = chunks_of(f"{code_block}\n\n{'Words and words. ' * 5}", size=60, overlap=40)
    assert sum(chunk.text.count("x = 1") for chunk in chunks) == 1


def test_one_batch_for_what_fits() -> None:
    calls: list[int] = []

    def count(texts: Sequence[str]) -> list[int]:
        calls.append(len(texts))
        return [len(text) for text in texts]

    text = "".join(f"# Heading {n}\n\nSome words.\n\n" for n in range(50))
    assert len(make_structure_chunker(size=100, overlap=10, count=count)(page(text))) == 50
    assert calls == [50]


def test_a_word_that_no_vocabulary_knows_is_cut_all_the_same() -> None:
    chunks = make_structure_chunker(size=16, overlap=0, count=lambda texts: [len(text.split()) for text in texts])(
        page("x" * 5000)
    )
    assert max(len(chunk.text) for chunk in chunks) <= 16 * 24
    assert "".join(texts_of(chunks)) == "x" * 5000


def test_time_page_and_author_come_from_the_section() -> None:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    sections = (Section(0, 10, page=3, at=at), Section(10, 20, author="ada"))
    document = Document(id="d", text="One page. Two words.", sections=sections, meta={"format": "text"})
    first, second = make_structure_chunker(size=50, overlap=0, count=count_characters)(document)
    assert (first.meta, first.at) == ({"page": 3}, at)
    assert (second.meta, second.at) == ({"author": "ada"}, None)


def test_ids_stay_when_a_chunk_only_moves() -> None:
    before = chunks_of("# A\n\nSame text.")
    after = chunks_of("# New\n\nOther text.\n\n# A\n\nSame text.")
    assert before[0].id == after[1].id
    assert before[0].start != after[1].start


def test_definitions_are_chunks() -> None:
    text = (
        "import os\n\n\ndef one():\n    return 1\n\n\nclass Two:\n    x = 1\n\n    def three(self):\n        return 3\n"
    )
    chunks = make_structure_chunker(size=200, overlap=20, count=count_characters)(
        read_code(text, uri="a.py", name="a.py")
    )
    assert [chunk.headings for chunk in chunks] == [
        (),
        ("def one",),
        ("class Two",),
        ("class Two", "def three"),
    ]
    assert {chunk.meta["content"] for chunk in chunks} == {"code"}


def test_blocks_say_what_they_are() -> None:
    text = "# H\n\npara\n\n- a\n- b\n\n> quote\n\n| a |\n|---|\n| 1 |\n\n```\ncode\n```\n\n<div>\n</div>\n\n***\n\n[x]: http://y"
    assert [block.kind for block in find_document_blocks(page(text))] == [
        *("heading", "paragraph", "list_item", "list_item", "quote", "table", "code", "html", "rule", "paragraph"),
    ]
    assert [block.depth for block in find_document_blocks(page("- a\n- b\n  - c\n  - d\n\n  e\n- f\n\ng"))] == [
        0,
        1,
        2,
        3,
        2,
        1,
        0,
    ]
