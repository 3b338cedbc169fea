"""Each chunk once, and the best of each document: cases 5.1 to 5.4."""

import logging
from typing import Any

import pytest

from clew.core.errors import SettingsError
from clew.core.types import Chunk, DocumentRecord, Hit, Query
from clew.query.context.results import deduplicate_by_document
from clew.query.rank.dedupe import limit_per_document


def row(document: str, similarity: float, **more: Any) -> dict[str, Any]:
    return {"document_id": document, "similarity": similarity, **more}


def pairs(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(each["document_id"], each["similarity"]) for each in rows]


def hit(document: str, name: str, score: float) -> Hit:
    return Hit(Chunk(name, document, 0, 1, name, 0, len(name)), DocumentRecord(document), score)


def test_the_best_row_of_each_document() -> None:
    rows = [row("post-123", 0.90), row("post-123", 0.85), row("post-456", 0.88), row("post-456", 0.82)]
    assert pairs(deduplicate_by_document(rows, n=1)) == [("post-123", 0.90), ("post-456", 0.88)]
    assert deduplicate_by_document(rows) == deduplicate_by_document(rows, n=1)


def test_the_two_best_rows() -> None:
    rows = [row("post-123", 0.80), row("post-123", 0.90), row("post-123", 0.85)]
    assert pairs(deduplicate_by_document(rows, n=2)) == [("post-123", 0.90), ("post-123", 0.85)]
    assert deduplicate_by_document([]) == []


def test_rows_may_come_from_a_generator(caplog: pytest.LogCaptureFixture) -> None:
    rows = [row("a", 0.80), row("b", 0.90), row("a", 0.85)]
    with caplog.at_level(logging.DEBUG, "clew"):
        assert deduplicate_by_document(each for each in rows) == [row("a", 0.85), row("b", 0.90)]
    assert "3 results → 2 unique documents" in caplog.text


def test_documents_stay_in_the_order_they_were_seen_in() -> None:
    rows = [row("b", 0.1), row("a", 0.9), row("b", 0.5)]
    assert pairs(deduplicate_by_document(rows)) == [("b", 0.5), ("a", 0.9)]


def test_rows_without_a_document_or_a_similarity() -> None:
    rows = [{"similarity": 0.95}, row("", 0.95), {"document_id": None, "similarity": 0.95}]
    assert deduplicate_by_document(rows) == []
    unscored = {"document_id": "post-123", "content": "unscored"}
    assert deduplicate_by_document([unscored, row("post-123", 0.90)]) == [row("post-123", 0.90)]
    assert deduplicate_by_document([{**unscored, "similarity": None}]) == [{**unscored, "similarity": None}]
    assert deduplicate_by_document([row("a", float("nan")), row("a", 0.2)]) == [row("a", 0.2)]


@pytest.mark.parametrize("name", ["chunk_index", "id"])
def test_the_same_chunk_twice_counts_once(name: str) -> None:
    rows = [row("a", 0.88, **{name: 0}), row("a", 0.70, **{name: 1}), row("a", 0.90, **{name: 0})]
    assert pairs(deduplicate_by_document(rows, n=2)) == [("a", 0.90), ("a", 0.70)]


def test_the_given_rows_are_not_changed() -> None:
    rows = [row("a", 0.5)]
    deduplicate_by_document(rows)[0]["similarity"] = 0.1
    assert rows == [row("a", 0.5)]


def test_the_log_counts_documents_and_rows(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "clew"):
        deduplicate_by_document([row("a", 0.9), row("a", 0.8), row("b", 0.7)], n=2)
    assert "3 results → 2 unique documents (n=2 per doc), 3 rows" in caplog.text


def test_by_document_keeps_the_best_hits_in_their_order() -> None:
    hits = [hit("a", "a1", 0.5), hit("b", "b1", 0.4), hit("a", "a2", 0.9), hit("a", "a1", 0.5)]
    assert [each.chunk.id for each in limit_per_document(1)(Query("?"), hits)] == ["b1", "a2"]
    assert [each.chunk.id for each in limit_per_document(2)(Query("?"), hits)] == ["a1", "b1", "a2"]


def test_none_of_a_document_cannot_be_asked_for() -> None:
    with pytest.raises(SettingsError, match="n is 0"):
        deduplicate_by_document([], n=0)
    with pytest.raises(SettingsError, match="n is 0"):
        limit_per_document(0)
