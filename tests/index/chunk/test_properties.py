"""What holds for every chunker and every text: spans, nothing lost, nothing too large, everything in order."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import clew
from clew.core.protocols import Chunker
from clew.core.types import Chunk, Document, Section
from clew.index.chunk.atoms import find_document_blocks
from clew.index.chunk.pages import (
    count_characters,
    estimate_token_counts,
    find_paragraph_spans,
    make_paragraph_chunker,
    make_structure_chunker,
    merge_small_chunks,
)
from clew.index.read.text.code import read_code
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.plain import read_plain_text

Count = Callable[[Sequence[str]], list[int]]


def word_pieces(texts: Sequence[str]) -> list[int]:
    """Tokens as a word piece model counts them: up to four letters, or one mark; what is too long is one unknown."""
    return [
        sum(1 if len(run) > 100 else -(-len(run) // 4) for run in re.findall(r"\w+|[^\w\s]", text)) for text in texts
    ]


def unfair(texts: Sequence[str]) -> list[int]:
    """A count that is more for a text than for its parts together."""
    return [len(text) + len(text) // 10 for text in texts]


COUNTS = (count_characters, estimate_token_counts, word_pieces, unfair)
WORDS = st.sampled_from(
    [
        "rotate",
        "the",
        "signing",
        "key.",
        "Every",
        "90",
        "days!",
        "naïve",
        "\u0065\u0301\u0301",
        "鍵を回す。",
        "密钥轮换",
        "x" * 70,
        "a:",
        "🗝️",
        "\u00a0",
    ]
)
PROSE = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
LINES = st.lists(PROSE, min_size=1, max_size=4).map("\n".join)


@st.composite
def marked(draw: st.DrawFn) -> str:
    """A piece of markdown: a block of any kind, well formed or not."""
    match draw(st.integers(0, 11)):
        case 0:
            return "#" * draw(st.integers(1, 6)) + " " + draw(PROSE)
        case 1:
            return draw(PROSE) + "\n" + draw(st.sampled_from(["===", "---"]))
        case 2:
            return "\n".join(f"{draw(st.sampled_from(['- ', '1. ', '  - ', '    * ']))}{draw(PROSE)}" for _ in range(4))
        case 3:
            rows = [f"| {draw(WORDS)} | {draw(WORDS)} |" for _ in range(draw(st.integers(1, 12)))]
            return "\n".join(["| a | b |", "|---|---|", *rows])
        case 4:
            return "```py\n" + draw(LINES) + "\n\n# no heading\n" + draw(LINES) + draw(st.sampled_from(["\n```", ""]))
        case 5:
            return "\n".join("> " + line for line in draw(LINES).split("\n"))
        case 6:
            return "<div>\n" + draw(LINES) + "\n</div>"
        case 7:
            return draw(
                st.sampled_from(["***", "[ref]: http://example.com", "-", ">", "#", "    indented\n\n    more"])
            )
        case 8:
            return draw(st.text(max_size=60))
        case 9:
            return "- item\n\n  ```\n  " + draw(PROSE) + "\n  ```\n- " + draw(PROSE)
        case _:
            return draw(LINES)


MARKDOWN = st.lists(
    st.tuples(marked(), st.sampled_from(["\n", "\n\n", "\n\n\n", "\r\n\r\n", " \n \n"])), max_size=12
).map(lambda pieces: "".join(block + gap for block, gap in pieces))
SIZES = st.tuples(st.integers(8, 120), st.integers(0, 40)).filter(lambda pair: pair[1] < pair[0])


def page(text: str) -> Document:
    return read_markdown(text, uri="page.md", name="page.md")


def check_chunks(document: Document, chunks: Sequence[Chunk], *, size: int, count: Count) -> None:
    """Fails unless the chunks are what chunks of this document must be."""
    covered = bytearray(len(document.text))
    for chunk in chunks:
        assert chunk.text == document.text[chunk.start : chunk.end] == chunk.text.strip() != ""
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
        assert count([chunk.text])[0] <= size or len(chunk.text) == 1
    assert all(seen or char.isspace() for seen, char in zip(covered, document.text, strict=True))
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert {chunk.total for chunk in chunks} <= {len(chunks)}
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end


def make_plain_chunker(*, size: int, overlap: int, count: Count) -> Chunker:
    """The paragraph chunker, as the settings make it."""
    return make_paragraph_chunker(max_tokens=size, overlap_tokens=overlap, count=count)


@given(
    text=MARKDOWN,
    sizes=SIZES,
    count=st.sampled_from(COUNTS),
    kind=st.sampled_from([make_structure_chunker, make_plain_chunker]),
)
@pytest.mark.slow
def test_chunks_are_spans_that_hold_everything_and_fit(
    text: str, sizes: tuple[int, int], count: Count, kind: Callable[..., Chunker]
) -> None:
    document = page(text)
    chunks = kind(size=sizes[0], overlap=sizes[1], count=count)(document)
    check_chunks(document, chunks, size=sizes[0], count=count)


@given(text=st.text(max_size=400), sizes=SIZES, reader=st.sampled_from([read_markdown, read_plain_text, read_code]))
def test_any_text_in_any_format(text: str, sizes: tuple[int, int], reader: Callable[..., Document]) -> None:
    document = reader(text, uri="a", name="a.py" if reader is read_code else "a.txt")
    check_sections(document)
    for kind in (make_structure_chunker, make_plain_chunker):
        chunks = kind(size=sizes[0], overlap=sizes[1], count=count_characters)(document)
        check_chunks(document, chunks, size=sizes[0], count=count_characters)


def check_sections(document: Document) -> None:
    """Fails unless the sections partition the text and stand under earlier ones."""
    if not document.text:
        assert document.sections == ()
        return
    assert document.sections[0].start == 0
    assert document.sections[-1].end == len(document.text)
    for position, (before, after) in enumerate(zip(document.sections, document.sections[1:], strict=False), 1):
        assert before.start < before.end == after.start
        assert after.parent is None or 0 <= after.parent < position


@pytest.mark.slow
@given(text=MARKDOWN)
@example("# A\n\n## B\n\ntext\n\n# C")
@example("---\n\n---\ntext")
def test_sections_partition_and_blocks_cover(text: str) -> None:
    document = page(text)
    check_sections(document)
    check_blocks(document)


def check_blocks(document: Document) -> None:
    at = 0
    for block in find_document_blocks(document):
        assert block.start < block.end
        assert not document.text[at : block.start].strip()
        assert document.text[block.start : block.end].strip() == document.text[block.start : block.end]
        section = document.sections[block.section]
        assert section.start <= block.start < block.end <= section.end
        at = block.end
    assert not document.text[at:].strip()


@pytest.mark.slow
@given(messages=st.lists(MARKDOWN, min_size=1, max_size=6), sizes=SIZES)
@example(messages=["```\nnever closed", "next"], sizes=(20, 0))
def test_no_chunk_is_in_two_messages(messages: list[str], sizes: tuple[int, int]) -> None:
    sections, at = [], 0
    for message in messages:
        sections.append(Section(at, at + len(message) + 2))
        at += len(message) + 2
    document = Document(id="d", text="".join(message + "\n\n" for message in messages), sections=tuple(sections))
    check_blocks(document)
    chunks = make_structure_chunker(size=sizes[0], overlap=sizes[1], count=count_characters)(document)
    check_chunks(document, chunks, size=sizes[0], count=count_characters)
    starts = [section.start for section in sections]
    assert not any(chunk.start < start < chunk.end for chunk in chunks for start in starts)


@given(text=MARKDOWN, sizes=SIZES)
@pytest.mark.slow
def test_only_chunks_of_one_section_overlap_and_by_no_more_than_asked(text: str, sizes: tuple[int, int]) -> None:
    document = page(text)
    size, overlap = sizes
    chunks = make_structure_chunker(size=size, overlap=overlap, count=count_characters)(document)
    for before, after in pairwise(chunks):
        if after.start < before.end:
            assert before.headings == after.headings
            assert before.end - after.start <= overlap


@given(text=MARKDOWN, sizes=SIZES)
@pytest.mark.slow
def test_merged_chunks_are_still_spans(text: str, sizes: tuple[int, int]) -> None:
    document = page(text)
    chunks = make_structure_chunker(size=sizes[0], overlap=sizes[1], count=count_characters)(document)
    merged = merge_small_chunks(document, chunks, min_chars=sizes[0], max_size=2 * sizes[0])
    check_chunks(document, merged, size=2 * sizes[0], count=count_characters)


@given(text=MARKDOWN, sizes=SIZES)
@pytest.mark.slow
def test_a_document_without_sections_is_chunked_too(text: str, sizes: tuple[int, int]) -> None:
    document = replace(page(text), sections=(), meta={})
    for kind in (make_structure_chunker, make_plain_chunker):
        chunks = kind(size=sizes[0], overlap=sizes[1], count=count_characters)(document)
        check_chunks(document, chunks, size=sizes[0], count=count_characters)


@given(text=MARKDOWN, sizes=SIZES, count=st.sampled_from(COUNTS))
@pytest.mark.slow
def test_spans_move_on(text: str, sizes: tuple[int, int], count: Count) -> None:
    spans = find_paragraph_spans(text, max_tokens=sizes[0], overlap_tokens=sizes[1], count=count)
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start
        assert end < next_end


@pytest.mark.parametrize("path", sorted(Path(clew.__file__).parent.rglob("*.py"))[:40], ids=lambda path: path.name)
def test_our_own_code(path: Path) -> None:
    document = read_code(path.read_text(), uri="a.py", name="a.py")
    check_sections(document)
    check_chunks(
        document,
        make_structure_chunker(size=256, overlap=48, count=estimate_token_counts)(document),
        size=256,
        count=estimate_token_counts,
    )


SHAPES = {
    "blank lines": "\n" * 100_000 + "x",
    "spaces": "a" + " " * 100_000 + "b",
    "bare headings": "# H\n\n" * 4_000,
    "one word": "x" * 100_000,
    "one line": "word " * 20_000,
    "no spaces": "鍵を回す" * 10_000,
    "rules": "---\n" * 10_000,
    "brackets": "[" * 20_000,
    "quotes": "> " * 5_000 + "x",
}


@pytest.mark.parametrize("reader", [read_markdown, read_plain_text, read_code])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.slow
def test_no_shape_of_text_takes_for_ever(shape: str, reader: Callable[..., Document]) -> None:
    document = reader(SHAPES[shape], uri="a", name="a.js")
    for kind in (make_structure_chunker, make_plain_chunker):
        chunks = kind(size=256, overlap=48, count=word_pieces)(document)
        check_chunks(document, chunks, size=256, count=word_pieces)
