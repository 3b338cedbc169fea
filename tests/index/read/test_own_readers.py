"""A program's own readers: new suffixes, suffixes that Clew knows too, and what they may return."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import SettingsError, SourceError
from clew.core.report import Report
from clew.core.settings import Settings, StoreConfig
from clew.core.types import Document, Section
from clew.drivers import open_store
from clew.drivers.embed.hashed import HashedEmbedder
from clew.index.add.context import IngestContext
from clew.index.add.ingest import add_sources, plan_add_sources
from clew.index.read import check_reader_suffixes, read_file


def read_foo(data: bytes, _uri: str) -> str:
    return data.decode("latin-1").replace("==", "#")


def read_loudly(data: bytes, _uri: str) -> Document:
    text = data.decode().upper()
    return Document("any id", text, (Section(0, len(text), "LOUD"),), title="Loud", meta={"volume": 11})


def read_nothing(_data: bytes, _uri: str) -> str:
    raise ValueError("no header at byte 0")


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., IngestContext]:
    embedder = HashedEmbedder()
    store = open_store(":memory:", "default", embedder=embedder, config=StoreConfig())
    return lambda **readers: IngestContext(
        store, embedder, None, Settings(), tmp_path, readers={f".{suffix}": read for suffix, read in readers.items()}
    )


def add(context: IngestContext, *paths: Path) -> Report:
    return add_sources(context, paths, sync=False, max_cost=None, on_progress=None)


def test_a_new_suffix_is_found_in_folders_and_its_text_is_parsed_as_markdown(
    tmp_path: Path, make_context: Callable[..., IngestContext]
) -> None:
    (tmp_path / "winch-notes.FOO").write_bytes("== Winch\n\nGrease it, señor.".encode("latin-1"))
    (tmp_path / "unknown.bar").write_text("not read from a folder")
    context = make_context(foo=read_foo)
    assert plan_add_sources(context, [tmp_path], sync=False).added == ("winch-notes.FOO",)
    assert add(context, tmp_path).added == ("winch-notes.FOO",)
    [record] = context.store.documents()
    document = context.store.document(record.id)
    assert (document.text, document.title, document.uri) == ("# Winch\n\nGrease it, señor.", "Winch", "winch-notes.FOO")
    assert [section.label for section in document.sections] == ["Winch"]
    assert add(context, tmp_path).skipped == 1


def test_an_own_reader_goes_before_the_one_of_clew_and_before_chat_exports(
    tmp_path: Path, make_context: Callable[..., IngestContext]
) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"text": "hello", "author": "Ann", "channel": "yard"}')
    context = make_context(jsonl=read_loudly)
    add(context, chat)
    [record] = context.store.documents()
    assert (record.title, record.kind, record.uri) == ("Loud", "page", "chat.jsonl")
    document = context.store.document(record.id)
    assert [section.label for section in document.sections] == ["LOUD"]
    assert document.meta["volume"] == 11


def test_a_file_is_read_again_when_another_reader_takes_over(
    tmp_path: Path, make_context: Callable[..., IngestContext]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("grease the winch")
    os.utime(page, (1, 1))  # long ago, so that its stamp can be relied on
    assert add(make_context(), page).added
    assert add(make_context(md=read_loudly), page).changed
    assert add(make_context(md=read_loudly), page).skipped == 1
    assert add(make_context(), page).changed


def test_a_reader_that_fails_fails_its_file_alone(tmp_path: Path, make_context: Callable[..., IngestContext]) -> None:
    (tmp_path / "a.foo").write_text("x")
    (tmp_path / "b.md").write_text("grease the winch")
    report = add(make_context(foo=read_nothing), tmp_path)
    assert report.added == ("b.md",)
    [failure] = report.failed
    assert failure.reason == "is not a readable .foo file: no header at byte 0"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (None, "must return a Document or a text"),
        ("", "is empty"),
        (Document("", "two words", (Section(0, 3),)), "sections that end at 3"),
    ],
)
def test_what_a_reader_returns_is_checked(tmp_path: Path, made: object, reason: str) -> None:
    path = tmp_path / "a.foo"
    path.write_text("x")
    reader: Any = lambda _data, _uri: made  # noqa: E731
    with pytest.raises(SourceError, match=reason):
        read_file(path, uri="a.foo", readers={".foo": reader})


@pytest.mark.parametrize("suffix", ["foo", ".FOO", ".tar.gz", ".", ""])
def test_a_key_that_no_suffix_can_equal_is_refused(suffix: str) -> None:
    with pytest.raises(SettingsError, match="with its dot, in lower case"):
        check_reader_suffixes({suffix: read_foo})
