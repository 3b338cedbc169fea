"""The confidence of an answer without a model: each signal, and what they make together. The test is the arithmetic."""

import math
from dataclasses import replace

import pytest

from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.confidence import (
    NEUTRAL_MARGIN,
    OTHER_DOCUMENTS,
    PROBE_HITS,
    WEIGHTS,
    ConfidenceSignals,
    Probe,
    compute_confidence,
    compute_margin,
    compute_signals,
    score_evidence,
)

ASKED = frozenset({"rotat", "sign", "key", "vault"})


def hit(text: str, cosine: float | None = None, *, document: str = "d") -> Hit:
    chunk = Chunk(f"{document}:{text}", document, 0, 1, text, 0, len(text))
    return Hit(chunk, DocumentRecord(chunk.doc_id), 1.0, {} if cosine is None else {"semantic": cosine})


def look(*hits: Hit, floor: float = 0.5) -> Probe:
    return Probe(hits, ASKED, floor)


def test_evidence_is_nearness_over_the_floor_and_words() -> None:
    assert score_evidence(hit("Soup", 0.75), look()) == pytest.approx(0.5)
    assert score_evidence(hit("Keys", 0.75), look()) == pytest.approx(0.5 + WEIGHTS.words / 4)
    assert score_evidence(hit("Keys", 0.75), look(), word_weight=1.0) == pytest.approx(0.75)
    assert score_evidence(hit("Keys"), look()) == pytest.approx(WEIGHTS.words / 4)  # found by words alone
    assert score_evidence(hit("Soup", 0.2), look()) == 0.0  # below the floor is unrelated, not less
    assert score_evidence(hit("Soup", 0.55), look(floor=0.1)) == pytest.approx(0.5)  # each embedder has its own


def test_the_terms_are_those_of_the_language() -> None:
    german = Probe((), frozenset({"haus"}), language="de")
    assert score_evidence(hit("Häuser"), german, word_weight=1.0) == 1.0
    assert score_evidence(hit("Häuser"), replace(german, language="en"), word_weight=1.0) == 0.0
    assert score_evidence(hit("Häuser"), replace(german, query_terms=frozenset()), word_weight=1.0) == 0.0


def test_the_best_stands_out_of_other_documents() -> None:
    best, same = hit("Soup", 0.9), hit("Stew", 0.9)
    others = [hit("Bread", 0.7, document="e"), hit("Butter", 0.6, document="f"), hit("Jam", 0.5, document="f")]
    unknown = (OTHER_DOCUMENTS - 2) * NEUTRAL_MARGIN
    assert compute_margin(look(best, *others)) == pytest.approx((0.8 - 0.4 + 0.8 - 0.2 + unknown) / OTHER_DOCUMENTS)
    assert compute_margin(look(*others, same, best)) == compute_margin(
        look(best, *others)
    )  # its own are not held against it
    assert compute_margin(look(best)) == compute_margin(look()) == pytest.approx(NEUTRAL_MARGIN)


def test_without_other_documents_the_reranker_decides() -> None:
    even = compute_signals(look(hit("Soup", 0.9)), [0.5])
    assert compute_confidence(even) == pytest.approx(0.5)


def test_only_so_many_hits_and_others_are_looked_at() -> None:
    best = hit("Soup", 0.9)
    crowd = [hit("Bread", 0.7, document=f"e{place}") for place in range(OTHER_DOCUMENTS)]
    few = [hit("Bread", 0.6, document=f"f{place}") for place in range(PROBE_HITS)]
    assert compute_margin(look(best, *crowd, *few)) == pytest.approx(0.8 - 0.4)
    assert compute_margin(look(*few, best)) == pytest.approx(0.0)  # too late


def test_the_reranker_counts_by_its_best_chance() -> None:
    assert compute_signals(look(), [0.2, 0.8]).reranker == pytest.approx(math.log(4))
    assert compute_signals(look(), [0.999]).reranker == pytest.approx(math.log(19))  # sure is sure
    assert (
        compute_signals(look(), [0.0]).reranker == compute_signals(look(), []).reranker == pytest.approx(-math.log(19))
    )


def test_confidence_is_the_logistic_of_the_weighed_signals() -> None:
    weights = replace(WEIGHTS, margin=2.0, reranker=0.5, offset=-1.0)
    assert compute_confidence(ConfidenceSignals(0.5, 0.0), weights) == 0.5
    assert compute_confidence(ConfidenceSignals(1.0, 2.0), weights) == pytest.approx(1 / (1 + math.exp(-2.0)))
    assert compute_confidence(ConfidenceSignals(-1e4, 0.0), weights) == 0.0


def test_both_signals_speak_for_an_answer() -> None:
    assert WEIGHTS.margin > 0
    assert WEIGHTS.reranker > 0
    assert WEIGHTS.words > 0
    assert (
        compute_confidence(ConfidenceSignals(0.0, 0.0)) < 0.5
    )  # nothing that stands out, and a reranker that cannot tell
