"""Sections of one source as documents with a parent and a number, through the engine, on both stores (9.10)."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew import (
    Document,
    Engine,
    Extensions,
    Filter,
    IngestionConfig,
    Message,
    NotFound,
    Settings,
    SettingsError,
    Thread,
    split_into_sections,
)
from clew.index.read.sections import validate_document
from tests.engine.chosen import OpenEngine

BOOK = """# Handbook

## Keys

Signing keys are rotated by Dan.

### Spare

The spare key is in the blue box.

## Soup

Soup is served at noon.

## Tides

High water is at six.
"""
SECTIONED = Settings(ingestion=IngestionConfig(sections=True))
PLAIN = Settings(ingestion=IngestionConfig())


def book(text: str = BOOK) -> Document:
    return Document("book", text, title="Handbook", uri="handbook.md", access=frozenset({"staff"}), meta={"year": 2026})


def list_numbers(engine: Engine, parent: str = "book") -> list[tuple[int, int]]:
    found = engine.list(Filter(meta={"parent": parent}))
    return sorted((record.meta["section_number"], record.meta["sections"]) for record in found)


# -- splitting


def test_chapters_are_sections_with_parent_and_number() -> None:
    parts = split_into_sections(book())
    assert [part.id for part in parts] == ["book#section-1", "book#section-2", "book#section-3"]
    assert [part.uri for part in parts] == [f"handbook.md#section-{number}" for number in (1, 2, 3)]
    assert [part.title for part in parts] == ["Handbook > Keys", "Handbook > Soup", "Handbook > Tides"]
    assert [part.meta["section_number"] for part in parts] == [1, 2, 3]
    assert {(part.meta["parent"], part.meta["sections"], part.meta["year"]) for part in parts} == {("book", 3, 2026)}
    assert all(part.access == {"staff"} for part in parts)
    assert "".join(part.text for part in parts) == BOOK
    assert [part.heading_path(len(part.sections) - 1)[-1] for part in parts] == ["Spare", "Soup", "Tides"]


def test_a_level_decides_where_sections_begin() -> None:
    titles = [[part.title for part in split_into_sections(book(), level=level)] for level in (1, 2)]
    assert titles == [["Handbook"], ["Handbook > Keys", "Handbook > Soup", "Handbook > Tides"]]
    assert len(split_into_sections(book(), level=3)) == 4


def test_a_document_of_one_section_stays_whole() -> None:
    (only,) = split_into_sections(book(BOOK[: BOOK.index("## Soup")]))
    assert (only.id, only.uri, only.title) == ("book", "handbook.md", "Handbook")
    assert only.meta == {"format": "markdown", "year": 2026, "sections": 1}


def test_a_long_section_is_cut_after_a_paragraph() -> None:
    text = "\n\n".join(f"Paragraph {number} of a page without headings." for number in range(20))
    parts = split_into_sections(Document("p", text, title="Page"), max_chars=200)
    assert len(parts) == 5
    assert all(len(part.text) <= 200 and part.text.startswith("Paragraph") for part in parts)
    assert {part.title for part in parts} == {"Page"}
    assert "".join(part.text for part in parts) == text


def test_a_source_cut_by_size_is_read_under_its_own_title(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    for title in ("Page", "Book > Page"):
        parts = split_into_sections(Document("p", "One line.\n\nAnother line.", title=title), max_chars=12)
        engine.add_documents(parts)
        assert (len(parts), engine.read("p").title) == (2, title)


def test_a_page_may_shrink_to_one_section_and_grow_again(tmp_path: Path, open_engine: OpenEngine) -> None:
    file = tmp_path / "book.md"
    engine = open_engine(embedder="hashed", settings=SECTIONED)
    for text, titles in (
        (BOOK, ["Handbook > Keys", "Handbook > Soup", "Handbook > Tides"]),
        (BOOK[: BOOK.index("## Soup")], ["Handbook"]),
        (BOOK[: BOOK.index("## Tides")], ["Handbook > Keys", "Handbook > Soup"]),
    ):
        file.write_text(text)
        engine.add(file)
        assert sorted(record.title for record in engine.list()) == titles
        again = engine.add(file)
        assert (again.skipped, again.dropped, again.changed) == (len(titles), 0, ())
        assert engine.read(file).text == text


def test_a_page_of_one_section_is_not_read_again_while_its_stamp_is_the_same(
    tmp_path: Path, open_engine: OpenEngine
) -> None:
    file = tmp_path / "note.md"
    file.write_text("# Leave\n\n## Parental leave\n\nA year.\n")
    os.utime(file, (1e9, 1e9))
    readings = list[str]()

    def read(data: bytes, uri: str) -> Document:
        readings.append(uri)
        return Document(uri, data.decode(), title="Leave")

    engine = open_engine(embedder="hashed", settings=SECTIONED, extensions=Extensions(readers={".md": read}))
    engine.add(file)
    assert [record.title for record in engine.list()] == ["Leave"]
    count = len(readings)
    assert engine.add(file).skipped == 1
    assert len(readings) == count


@example(["", "", "# A"], 1)
@given(
    st.lists(st.sampled_from(["# A", "## B", "### C", "word " * 9, "", "x"]), min_size=1, max_size=30),
    st.integers(1, 80),
)
def test_the_sections_are_the_whole_text(lines: list[str], max_chars: int) -> None:
    text = "\n".join(lines)
    if not text.strip():
        return
    for parts in (
        split_into_sections(Document("d", text)),
        split_into_sections(Document("d", text), max_chars=max_chars),
    ):
        assert "".join(part.text for part in parts) == text
        for part in parts:
            assert part.text.strip()
            validate_document(part)


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(SettingsError, match="is a section of another document already"):
        split_into_sections(split_into_sections(book())[0])
    with pytest.raises(SettingsError, match="is a conversation"):
        split_into_sections(Thread("t", "a", (Message("hi", author="eve", channel="a"),)).document())
    with pytest.raises(SettingsError, match="max_chars is 0"):
        split_into_sections(book(), max_chars=0)


# -- in a collection


def test_sections_are_records_that_are_filtered_read_and_dropped_as_one(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    engine.add_documents([*split_into_sections(book()), Document("other", "Soup is cold.", uri="other.md")])
    assert list_numbers(engine) == [(1, 3), (2, 3), (3, 3)]
    hits = engine.search("soup at noon", where=Filter(meta={"parent": "book"}))
    assert {hit.chunk.doc_id for hit in hits} <= {f"book#section-{number}" for number in (1, 2, 3)}
    assert hits[0].document.title == "Handbook > Soup"
    assert (
        engine.search("soup", where=Filter(meta={"parent": "book", "section_number": 3}))[0].chunk.doc_id
        == "book#section-3"
    )
    for name in ("book", "handbook.md"):
        whole = engine.read(name)
        assert (whole.id, whole.title, whole.uri, whole.text) == ("book", "Handbook", "handbook.md", BOOK)
        assert whole.meta == {"format": "markdown", "year": 2026, "sections": 3}
        validate_document(whole)
    assert engine.read("book#section-2").text.startswith("## Soup")
    assert engine.drop("book") == 3
    assert [record.id for record in engine.list()] == ["other"]
    with pytest.raises(NotFound):
        engine.read("book")


def test_adding_again_replaces_and_removes_the_stale(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    engine.add_documents(split_into_sections(book()))
    again = engine.add_documents(split_into_sections(book()))
    assert (again.skipped, again.dropped, again.embedded) == (3, 0, 0)
    shorter = engine.add_documents(split_into_sections(book(BOOK[: BOOK.index("## Tides")])))
    assert shorter.dropped == 1
    assert list_numbers(engine) == [(1, 2), (2, 2)]
    assert not any("High water" in hit.chunk.text for hit in engine.search("high water at six"))
    one = engine.add_documents([split_into_sections(book(BOOK[: BOOK.index("## Tides")]))[1]])
    assert (one.skipped, one.dropped) == (1, 0)  # the others are still there
    assert list_numbers(engine) == [(1, 2), (2, 2)]


def test_whole_and_split_replace_each_other(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    engine.add_documents([book()])
    assert engine.add_documents(split_into_sections(engine.read("book"))).dropped == 1
    assert [record.id for record in engine.list()] == [f"book#section-{number}" for number in (1, 2, 3)]
    assert engine.add_documents([book()]).dropped == 3
    assert [record.id for record in engine.list()] == ["book"]


def test_a_parent_of_your_own_is_left_alone(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=PLAIN)
    engine.add_documents([book(), Document("note", "A note on keys.", meta={"parent": "book"})])
    assert engine.add_documents([book(BOOK + "\nMore.")]).dropped == 0
    assert engine.drop("book") == 1
    assert [record.id for record in engine.list()] == ["note"]


def test_files_are_split_by_the_setting(tmp_path: Path, open_engine: OpenEngine) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "book.md"
    file.write_text(BOOK)
    (tmp_path / "docs" / "note.md").write_text("# Note\n\nOne page.\n")
    engine = open_engine(embedder="hashed", settings=SECTIONED)
    assert len(engine.plan(tmp_path / "docs").added) == 4
    assert len(engine.add(tmp_path / "docs").added) == 4
    parent = next(record.meta["parent"] for record in engine.list() if record.uri.endswith("book.md#section-1"))
    assert list_numbers(engine, parent) == [(1, 3), (2, 3), (3, 3)]
    assert engine.read(file).text == BOOK
    again = engine.add(tmp_path / "docs", sync=True)
    assert (again.skipped, again.dropped) == (4, 0)
    file.write_text(BOOK[: BOOK.index("## Tides")])
    shorter = engine.add(tmp_path / "docs", sync=True)
    assert (shorter.dropped, list_numbers(engine, parent)) == (1, [(1, 2), (2, 2)])
    whole = engine.add(file, settings=PLAIN)
    assert (len(whole.added), whole.dropped) == (1, 2)
    engine.add(file)
    assert list_numbers(engine, parent) == [(1, 2), (2, 2)]
    assert parent not in {record.id for record in engine.list()}
    file.unlink()
    assert engine.add(tmp_path / "docs", sync=True).dropped == 2
    with pytest.raises(NotFound):
        engine.read(file)
