"""What is shown: snippets, marks, numbers, progress."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from clew.core.report import Progress
from clew.core.text import extract_terms
from clew.core.trace import Trace
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.surface.cli import progress, render
from clew.surface.to_json import dump_json, search_to_json, to_json


def test_a_snippet_is_two_lines_around_the_words_that_were_asked_for() -> None:
    text = "Nothing to see here. " * 40 + "Signing keys are rotated every ninety days. " + "Nothing more. " * 40
    lines = render.make_snippet(text, frozenset(extract_terms("who rotates the keys?")), width=60)
    assert len(lines) == 2
    assert all(len(line) <= 60 for line in lines)
    assert "keys are rotated" in " ".join(lines)
    assert lines[0].startswith("… ")
    assert lines[1].endswith(" …")


def test_a_short_text_is_its_own_snippet() -> None:
    assert render.make_snippet("One\n\n  two.", frozenset(), width=60) == ["One two."]
    assert render.make_snippet("", frozenset(), width=60) == []


def test_words_are_marked_by_stem_and_nothing_is_lost() -> None:
    line = "The keys: they rotate, keyless."
    spans = render.highlight_terms(line, frozenset(extract_terms("who rotates the key?")))
    assert "".join(words for words, _ in spans) == line
    assert [words for words, style in spans if style] == ["keys", "rotate"]


def test_what_json_does_not_have_is_null_and_numbers_stay_whole() -> None:
    chunk = Chunk("c", "d", 0, 1, "héllo", 0, 5, at=datetime(2025, 1, 1, tzinfo=UTC), meta={"n": {2, 1}})
    hit = Hit(chunk, DocumentRecord(chunk.doc_id), float("nan"), {"a": float("inf"), "b": np.float32(0.1), "c": 1e-9})  # type: ignore[dict-item]
    shape = search_to_json([hit], reason="", trace=Trace("search", notes={"x": float("-inf")}))
    text = dump_json(shape)
    assert "héllo" in text
    back = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert back["hits"][0]["score"] is None
    assert back["hits"][0]["scores"] == {"a": None, "b": float(np.float32(0.1)), "c": 1e-9}
    assert back["hits"][0]["chunk"]["meta"] == {"n": [1, 2]}
    assert back["trace"]["notes"] == {"x": None}
    assert dump_json("é", ascii_only=True) == '"\\u00e9"'


def test_plain_values() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    assert to_json({"at": at, 1: (True, None), "of": object}) == {
        "at": "2025-01-01T00:00:00+00:00", "1": [True, None], "of": str(object),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (Progress("reading", 3, None, "files"), "reading: 3 files"),
        (Progress("embedding", 120, 400, "chunks", 55.23, 5.1), "embedding: 120 of 400 chunks, 55.2/s, 5 s left"),
        (Progress("reading", 3, 9, "files", 0.5, 7300.0, 2), "reading: 3 of 9 files, 0.5/s, 2 h 2 min left, 2 failed"),
        (Progress("embedding", 1, 2, "chunks", 1234.5, 90.0), "embedding: 1 of 2 chunks, 1234/s, 2 min left"),
    ],
)
def test_progress_in_a_line(told: Progress, line: str) -> None:
    assert progress.format_progress(told) == line


def test_lines_come_at_the_start_now_and_then_and_at_the_end() -> None:
    now = 0.0
    written: list[str] = []
    watch = progress.make_line_reporter(written.append, interval=5.0, clock=lambda: now)
    for second in range(12):
        now = float(second)
        watch(Progress("reading", second, 11, "files"))
    watch(Progress("reading", 11, 11, "files"))
    watch(Progress("embedding", 0, None, "chunks"))  # says nothing yet
    watch(Progress("embedding", 1, None, "chunks"))
    assert written == [
        "reading: 0 of 11 files", "reading: 5 of 11 files", "reading: 10 of 11 files", "reading: 11 of 11 files",
        "embedding: 1 chunk",
    ]  # fmt: skip


def test_words_are_highlighted_in_the_language_of_the_text() -> None:
    found = render.extract_query_terms("Anahtarlar ne zaman değişir?", "tr")
    spans = render.highlight_terms("Ekip anahtarlarını verdi.", found, language="tr")
    assert [text for text, style in spans if style] == ["anahtarlarını"]
