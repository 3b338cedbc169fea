"""Different hits before more of the same; the tests are the arithmetic."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from clew.core.errors import SettingsError
from clew.core.trace import record
from clew.core.types import Chunk, DocumentRecord, Hit, Query, Vector
from clew.query.rank.dedupe import drop_near_duplicates, mmr, order_by_coverage
from clew.query.search.compose import run_step

ASKED = Query("?")
A = np.array([1, 0, 0])
B = np.array([0.95, np.sqrt(1 - 0.95**2), 0])
C = np.array([0.10, 0, np.sqrt(1 - 0.10**2)])


def hit(name: str, score: float, document: str = "") -> Hit:
    return Hit(
        Chunk(name, document or name, 0, 1, name, 0, len(name)),
        DocumentRecord(document or name),
        score,
        {"semantic": score},
    )


def vectors(ids: Sequence[str]) -> dict[str, Vector]:
    return {id_: {"a": A, "b": B, "c": C}[id_].astype(np.float32) for id_ in ids if id_ in "abc"}


def ids(hits: list[Hit]) -> str:
    return " ".join(each.chunk.id for each in hits)


def test_mmr_takes_what_adds_most() -> None:
    """Case 5.13: c has .7 · .70 - .3 · .10 = .46, b only .7 · .88 - .3 · .95 = .331."""
    with record() as trace:
        found = run_step(mmr(vectors, balance=0.7), ASKED, [hit("a", 0.90), hit("b", 0.88), hit("c", 0.70)])
    assert ids(found) == "a c b"
    assert [each.scores["mmr"] for each in found] == pytest.approx([0.63, 0.46, 0.331], abs=1e-6)
    assert [each.score for each in found] == [0.90, 0.70, 0.88]
    step = trace.find("mmr")
    assert step is not None
    assert step.out == 3


def test_mmr_at_its_ends() -> None:
    hits = [hit("a", 0.90), hit("b", 0.88), hit("c", 0.70)]
    assert ids(mmr(vectors, balance=1.0)(ASKED, hits)) == "a b c"
    assert ids(mmr(vectors, balance=0.0)(ASKED, hits)) == "a c b"
    assert mmr(vectors)(ASKED, []) == []


def test_mmr_goes_by_the_cosine_and_not_by_the_score() -> None:
    """The numbers of case 5.13 as similarities; scores and relevances, of whatever scale, decide nothing."""
    given = [("a", 0.3, 0.90), ("b", 0.2, 0.88), ("c", 17.0, 0.70)]
    hits = [replace(hit(name, score), similarity=similarity, relevance=0.5) for name, score, similarity in given]
    found = mmr(vectors, balance=0.7)(ASKED, hits)
    assert [each.scores["mmr"] for each in found] == pytest.approx([0.63, 0.46, 0.331], abs=1e-6)
    assert ids(found) == "a c b"


def test_mmr_goes_by_the_score_where_there_is_no_vector() -> None:
    assert ids(mmr(lambda _: {})(ASKED, [hit("x", 0.2), hit("y", 0.9)])) == "y x"


def test_what_says_the_same_as_a_better_hit_is_dropped() -> None:
    hits = [hit("b", 0.88), hit("c", 0.70), hit("a", 0.90), hit("z", 0.1)]
    assert ids(drop_near_duplicates(vectors)(ASKED, hits)) == "c a z"
    assert ids(drop_near_duplicates(vectors, threshold=0.96)(ASKED, hits)) == "b c a z"
    assert ids(drop_near_duplicates(vectors, threshold=0.95)(ASKED, hits)) == "c a z"
    assert drop_near_duplicates(vectors)(ASKED, []) == []


def test_a_document_that_is_best_for_two_queries_serves_both() -> None:
    both, second, third = hit("both", 0.9), hit("second", 0.8), hit("third", 0.3)
    assert (
        ids(order_by_coverage([second, third, both], [[both, second], [both, second], [third]])) == "both third second"
    )


def test_across_queries_relevance_decides_whatever_the_scores_are() -> None:
    """The best of every query scores 1; only the relevance tells which of them answers."""
    weak, strong = (replace(hit(name, 1.0), relevance=relevance) for name, relevance in (("weak", 0.1), ("z", 0.9)))
    more = replace(hit("more", 0.2), relevance=0.5)
    assert ids(order_by_coverage([weak, more, strong], [[weak], [strong, more]])) == "z weak more"
    assert ids(drop_near_duplicates(lambda ids: {i: A.astype(np.float32) for i in ids})(ASKED, [weak, strong])) == "z"


def test_a_second_hit_of_a_document_waits_a_round() -> None:
    one, two, other = hit("a1", 0.9, "a"), hit("a2", 0.8, "a"), hit("b1", 0.2, "b")
    assert ids(order_by_coverage([one, two, other], [[one, two], [other]])) == "a1 b1 a2"


def test_coverage_without_rankings_is_by_score() -> None:
    assert ids(order_by_coverage([hit("b", 0.5), hit("a", 0.5), hit("c", 0.9)], [])) == "c a b"
    assert order_by_coverage([], []) == []


def test_wrong_values_are_named() -> None:
    with pytest.raises(SettingsError, match=r"mmr is 1\.5"):
        mmr(vectors, balance=1.5)
    with pytest.raises(SettingsError, match="threshold is 2"):
        drop_near_duplicates(vectors, threshold=2)
