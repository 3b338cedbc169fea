"""Source discovery: what paths and addresses hold, counted and made into sources."""

from pathlib import Path

import pytest

from clew.core.errors import SourceError
from clew.core.settings import DEFAULTS
from clew.core.types import Document
from clew.index.chat import ChatExport
from clew.index.chat.served import detect_export_within
from clew.index.read.process.limits import ReadLimits
from clew.index.walk import sources
from clew.index.walk.sources import count_expected_documents, discover_sources, is_url, make_sources

LINE = '{"text": "Oil the winches.", "author": "ann", "channel": "yard", "id": "m1", "at": "2026-03-02T09:00:00Z"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page.md").write_text("# Winches\n\nOil them.")
    (tmp_path / "talk.txt").write_text("Nothing but words.")
    return tmp_path


def test_addresses_files_and_missing_paths_are_told_apart(folder: Path) -> None:
    address = "https://example.com/a"
    found = list(discover_sources([address, folder, folder / "nowhere.md", address], readers={}))
    assert found[:3] == [address, folder / "page.md", folder / "talk.txt"]
    assert isinstance(found[3], SourceError)
    assert count_expected_documents(found) == len(found) == 4
    assert is_url("HTTPS://example.com")
    assert not is_url(folder)


def test_an_export_is_recognised_once_and_has_no_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "chat.jsonl").write_text(LINE)
    looked_at: list[str] = []

    def detect(path: Path, *, limits: ReadLimits) -> ChatExport | None:
        looked_at.append(path.name)
        return detect_export_within(path, limits=limits)

    monkeypatch.setattr(sources, "detect_export_within", detect)
    found = list(discover_sources([folder], readers={}))
    assert [type(each).__name__ for each in found] == ["ChatExport", "PosixPath", "PosixPath"]
    assert count_expected_documents(found) is None
    made = list(make_sources(found, root=folder, settings=DEFAULTS, readers={}, on_warning=lambda _: None))
    assert [source.uri for source in made if not isinstance(source, SourceError)] == ["yard/m1", "page.md", "talk.txt"]
    assert looked_at == ["chat.jsonl", "talk.txt"]


def test_a_file_with_a_custom_reader_is_not_taken_for_an_export(folder: Path) -> None:
    (folder / "chat.jsonl").write_text(LINE)

    def read_lines(data: bytes, uri: str) -> Document:
        return Document("", data.decode(), uri=uri)

    found = list(discover_sources([folder], readers={".jsonl": read_lines}))
    assert found[0] == folder / "chat.jsonl"
    assert count_expected_documents(found) == 3
