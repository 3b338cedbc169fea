"""The quality filter: small chunks are merged and poor ones dropped, where the settings ask for it."""

from collections.abc import Iterator
from itertools import accumulate

import pytest

from clew import Document, Engine, Extensions, Message, Settings
from clew.core.settings import IngestionConfig
from clew.core.thread import Thread
from clew.core.types import Chunk
from clew.index.chunk.atoms import PARAGRAPH
from clew.index.chunk.build import assign_spans_to_sections, build_chunks_from_spans
from clew.index.chunk.pages import count_characters, drop_poor_chunks, make_structure_chunker, merge_small_chunks
from clew.index.read.text.markdown import read_markdown


def document_of(*sizes: int) -> tuple[Document, list[Chunk]]:
    """A text of paragraphs of these sizes, and a chunk of each."""
    document = read_markdown("\n\n".join("x" * size for size in sizes), uri="a", name="a.md")
    starts = [0, *accumulate(size + 2 for size in sizes)]
    spans = [(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    return document, build_chunks_from_spans(document, assign_spans_to_sections(document, spans), headings=True)


@pytest.mark.parametrize(
    ("sizes", "min_chars", "max_size", "expected"),
    [
        ((150, 30, 30), 200, None, [214]),
        ((150, 30, 30), 200, 200, [182, 30]),
        ((300, 300), 200, None, [300, 300]),
        ((300, 30), 200, None, [332]),
        ((300, 30), 200, 320, [300, 30]),
    ],
)
def test_case_2_13_merge_small(
    sizes: tuple[int, ...], min_chars: int, max_size: int | None, expected: list[int]
) -> None:
    document, chunks = document_of(*sizes)
    assert [len(chunk.text) for chunk in chunks] == list(sizes)
    merged = merge_small_chunks(document, chunks, min_chars=min_chars, max_size=max_size)
    assert [len(chunk.text) for chunk in merged] == expected
    assert [(chunk.index, chunk.total) for chunk in merged] == [(i, len(expected)) for i in range(len(expected))]
    assert all(chunk.text == document.text[chunk.start : chunk.end] for chunk in merged)


def test_what_stands_under_other_headings_is_not_merged() -> None:
    document = read_markdown("# A\n\nfew\n\n# B\n\nwords", uri="a", name="a.md")
    chunks = make_structure_chunker(size=100, overlap=0, count=count_characters)(document)
    assert merge_small_chunks(document, chunks) == chunks
    assert merge_small_chunks(document, []) == []


GOOD = "These are enough words to say something of use to a reader."


def test_case_2_13_indexes_are_contiguous_after_filtering() -> None:
    document = read_markdown(f"# A\n\n{GOOD}\n\n# B\n\nfew\n\n# C\n\n{GOOD}", uri="a", name="a.md")
    chunks = make_structure_chunker(size=100, overlap=0, count=count_characters)(document)
    kept = drop_poor_chunks(chunks)
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
    document = read_markdown(text, uri="a", name="a.md")
    chunks = make_structure_chunker(size=1000, overlap=0, count=count_characters)(document)
    assert len(chunks) == 1
    assert (drop_poor_chunks(chunks) == chunks) is is_kept


def test_case_2_14_the_limits_can_be_set() -> None:
    document = read_markdown("few words", uri="a", name="a.md")
    chunks = make_structure_chunker(size=1000, overlap=0, count=count_characters)(document)
    assert drop_poor_chunks(chunks, min_chars=5, min_words=2) == chunks
    assert drop_poor_chunks(chunks, min_chars=5, min_words=3) == []
    assert drop_poor_chunks(chunks, min_chars=5, min_words=2, min_alphanumeric=0.95) == []


def test_case_2_14_scripts_without_spaces_have_words_too() -> None:
    text = (
        "新しい倉庫の鍵は毎月の第一月曜日に安全担当者が交換し、その記録は台帳に残される。"
        "古い鍵はその日のうちに回収されて廃棄される。"
    )
    document = read_markdown(text, uri="a", name="a.md")
    chunks = make_structure_chunker(size=1000, overlap=0, count=count_characters)(document)
    assert drop_poor_chunks(chunks) == chunks


# -- through Engine: `ingestion.quality_filter`

PAGE = f"# A\n\n{GOOD}\n\n# B\n\nfew\n\n# C\n\n```\nx = 1\n```\n\n# D\n\n{GOOD}"
FILTERED = Settings(ingestion=IngestionConfig(quality_filter=True))


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open(":memory:", embedder="hashed") as opened:
        yield opened


def read_chunks(engine: Engine, uri: str) -> list[Chunk]:
    """The stored chunks of a document, which must be spans of its text, numbered without a gap."""
    document = engine.read(uri)
    chunks = engine.opened.store.chunks(document.id)
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert [(chunk.index, chunk.total) for chunk in chunks] == [(i, len(chunks)) for i in range(len(chunks))]
    return chunks


def test_case_2_14_the_filter_is_off_by_default_and_drops_poor_chunks_when_on(engine: Engine) -> None:
    page = Document("a", PAGE)
    assert engine.add_documents([page]).chunks == 4
    assert [chunk.headings for chunk in read_chunks(engine, "a")] == [("A",), ("B",), ("C",), ("D",)]
    assert engine.add_documents([page]).skipped == 1
    report = engine.add_documents([page], settings=FILTERED)
    assert (report.changed, report.chunks, report.embedded) == (("a",), 3, 0)  # the setting is part of the recipe
    assert [chunk.headings for chunk in read_chunks(engine, "a")] == [("A",), ("C",), ("D",)]
    assert not any(hit.chunk.headings == ("B",) for hit in engine.search("few", k=10))
    assert engine.add_documents([page], settings=FILTERED).skipped == 1
    assert engine.add_documents([page]).chunks == 4  # and off again


def test_case_2_13_the_filter_merges_small_chunks_up_to_the_chunk_size() -> None:
    def one_per_paragraph(document: Document) -> list[Chunk]:
        spans = [match.span() for match in PARAGRAPH.finditer(document.text)]
        return build_chunks_from_spans(document, assign_spans_to_sections(document, spans), headings=True)

    page = Document("a", "\n\n".join([GOOD] * 12))
    for chunk_size, expected in ((256, 1), (64, 3), (8, 12)):
        settings = Settings(ingestion=IngestionConfig(quality_filter=True, chunk_size=chunk_size, chunk_overlap=0))
        with Engine.open(
            ":memory:", embedder="hashed", extensions=Extensions(chunker=one_per_paragraph), settings=settings
        ) as engine:
            assert engine.add_documents([page]).chunks == expected
            assert "".join("".join(chunk.text.split()) for chunk in read_chunks(engine, "a")) == "".join(
                page.text.split()
            )


def test_case_2_14_messages_are_never_filtered() -> None:
    messages = [Message(text, author="ann", id=f"m{i}", channel="yard") for i, text in enumerate(("ok", "yes", "?!"))]
    with Engine.open(":memory:", embedder="hashed", settings=FILTERED) as engine:
        assert engine.add_messages(messages).chunks == 3
    thread = Thread("m0", "yard", tuple(messages)).document()
    with Engine.open(":memory:", embedder="hashed", settings=FILTERED) as engine:
        assert engine.add_documents([thread]).chunks == 3
        assert [chunk.text for chunk in read_chunks(engine, thread.id)] == ["ok", "yes", "?!"]


def test_a_page_that_is_left_with_no_chunks_is_reported_and_then_unchanged(engine: Engine) -> None:
    page = Document("a", "# B\n\nfew")
    report = engine.add_documents([page], settings=FILTERED)
    assert report.added == ("a",)
    assert [(note.source, "no chunks" in note.reason) for note in report.noted] == [("a", True)]
    assert engine.add_documents([page], settings=FILTERED).skipped == 1
