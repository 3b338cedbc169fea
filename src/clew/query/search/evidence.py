"""Gathers the evidence of hits from the store, fuses a hybrid search by it, and computes similarity and relevance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from clew.core.calibration import Calibration
from clew.core.protocols import Embedder, Step, Store, Strategy
from clew.core.text import Terms, extract_terms
from clew.core.trace import step
from clew.core.types import NO_MATCH, Hit, Query
from clew.query.rank.calibrate import MATCH, Evidence, estimate_match, estimate_relevance
from clew.query.rank.dedupe import dedupe_chunks
from clew.query.rank.fuse import collect_hits, normalise_minmax
from clew.query.rank.thread_smoothing import is_message_chunk
from clew.query.rewrite.small_talk import estimate_intent
from clew.query.search.retrieve import embed_query

_PROMINENCE_DEPTH = 50  # hits among which the best stands out, however deep the search
PAGE_TRUST, MESSAGE_TRUST = 2.0, 0.5  # powers of trust: in a chat most messages have the same words
RIVALS = 10  # of each leg, that the hits of any other strategy are compared with
MIN_ASSESSED = 20  # hits that are compared with one another, however few are wanted


class EvidenceSource:
    """Reads from a store how well chunks match a query, by meaning and by words."""

    def __init__(self, store: Store, embedder: Embedder, calibration: Calibration, *, language: str) -> None:
        self._store, self._embedder, self._calibration, self._language = store, embedder, calibration, language

    def gather(self, query: Query, hits: Sequence[Hit]) -> tuple[list[float], list[Evidence]]:
        """The cosine and the evidence of each hit; a similarity that it has already is taken for the cosine."""
        vector = embed_query(query, self._embedder)
        unknown = [hit.chunk.id for hit in hits if math.isnan(hit.similarity)]
        vectors = self._store.vectors(unknown) if unknown else {}
        terms = self._extract_terms(query)
        matches = self._store.match_terms(terms, [hit.chunk.id for hit in hits])
        certainty = len(terms) / (len(terms) + 1)  # one word in common says less than all of five
        background = self._calibration.background(vector)
        cosines, evidence = [], []
        for hit in hits:
            cosine = hit.similarity
            if math.isnan(cosine):  # of a chunk that is gone meanwhile, nothing is known
                cosine = float(vector @ vectors[hit.chunk.id]) if hit.chunk.id in vectors else background
            match = matches.get(hit.chunk.id, NO_MATCH)
            meaning = self._calibration.scale(cosine, background)
            cosines.append(cosine)
            share, words = certainty * match.share, certainty * (match.share + match.strength) / 2
            evidence.append(Evidence(meaning, words, share, hit.chunk.text.strip()))
        return cosines, evidence

    def find_rivals(self, query: Query, hits: Sequence[Hit]) -> list[Hit]:
        """The best chunks by meaning and by words that are not among the hits, so that any list is judged alike."""
        vector = embed_query(query, self._embedder)
        nearest = self._store.search_vectors(vector, RIVALS, query.where)
        matching = self._store.search_terms(self._extract_terms(query), RIVALS, query.where)
        known = {hit.chunk.id for hit in hits}
        return [hit for hit in dedupe_chunks([*nearest, *matching]) if hit.chunk.id not in known]

    def _extract_terms(self, query: Query) -> Terms:
        return extract_terms(query.text, language=self._language, is_query=True)


def assess(source: EvidenceSource, *, again: bool = False, every: bool = False) -> Step:
    """A step that computes similarity and relevance where hits lack them, or for all of them `again`.

    Only the first hits are looked at, those that may be among the k best, unless it is for `every` hit.
    """

    def relevance(query: Query, hits: list[Hit]) -> list[Hit]:
        first = hits if every else hits[: max(query.k, MIN_ASSESSED)]
        if again:
            first = [replace(hit, similarity=math.nan) for hit in first]
        elif not any(math.isnan(hit.relevance) for hit in first):
            return hits
        together = [*first, *source.find_rivals(query, first)]
        cosines, evidence = source.gather(query, together)
        near = [replace(hit, similarity=cosine) for hit, cosine in zip(first, cosines, strict=False)]
        return [*_with_relevance(query, near, evidence, len(first)), *hits[len(first) :]]

    return relevance


def fuse_by_evidence(
    *legs: Strategy, source: EvidenceSource, page_weight: float, message_weight: float, name: str
) -> Strategy:
    """A strategy that runs several on the same query and scores their hits together, by meaning and words.

    It also computes the similarity of all and the relevance of the first. The score is the convex combination of
    meaning and words, each normalised over the hits; the weights are those of meaning. No fixed ones are right
    everywhere: words mislead where every text has them, meaning where the model does not know the language. So each
    weight is multiplied by a power of how far its signal can be trusted: meaning by its best value, words by how far
    the best stands out.
    """

    def search(query: Query) -> list[Hit]:
        with step("fused") as trace:
            hits = collect_hits([leg(query) for leg in legs])
            cosines, evidence = source.gather(query, hits)
            scores = _combine(hits, evidence, page_weight, message_weight)
            scored = [
                (score, Hit(hit.chunk, hit.document, score, {**hit.scores, name: score}, cosine), signals)
                for hit, cosine, score, signals in zip(hits, cosines, scores, evidence, strict=True)
            ]
            scored.sort(key=lambda each: (-each[0], each[1].chunk.id))
            ranked = [hit for _, hit, _ in scored]
            fused = _with_relevance(query, ranked, [signals for *_, signals in scored], max(query.k, MIN_ASSESSED))
            trace.set_output(fused)
            return fused

    return search


def _combine(
    hits: Sequence[Hit], evidence: Sequence[Evidence], page_weight: float, message_weight: float
) -> Iterator[float]:
    """The score of each hit from its meaning and words."""
    meaning, words = [each.meaning for each in evidence], [each.words for each in evidence]
    trust = min(max([0.1, *meaning]), 1.0), max(0.1, measure_prominence(words))
    most = max(words, default=0.0) or 1.0  # words have a true zero, meaning has none
    for hit, near, matching in zip(hits, normalise_minmax(meaning), words, strict=True):
        is_message = is_message_chunk(hit.chunk)
        weight, power = (message_weight, MESSAGE_TRUST) if is_message else (page_weight, PAGE_TRUST)
        by_meaning, by_words = weight * trust[0] ** power, (1 - weight) * trust[1] ** power
        yield (by_meaning * near + by_words * matching / most) / (by_meaning + by_words)


def measure_prominence(signals: Sequence[float]) -> float:
    """How far the best signal stands out, from 0 to 1: 1 - mean of the others / best.

    The spread of scores predicts how well a query is answered: Shtok and others, "Predicting Query Performance by
    Query-Drift Estimation", 2012.
    """
    best, *others = sorted(signals, reverse=True)[:_PROMINENCE_DEPTH] or [0.0]
    if best <= 0:
        return 0.0
    return 1 - fmean(max(each, 0.0) for each in others) / best if others else 1.0


def _with_relevance(query: Query, hits: Sequence[Hit], evidence: Sequence[Evidence], first: int) -> list[Hit]:
    """The hits, the first ones with their relevance and with their match among the scores."""
    relevances = estimate_relevance(evidence, first=first, intent=estimate_intent(query.text))
    known = [
        Hit(hit.chunk, hit.document, hit.score, {**hit.scores, MATCH: estimate_match(signals)}, hit.similarity, chance)
        for hit, signals, chance in zip(hits[:first], evidence[:first], relevances, strict=True)
    ]
    return [*known, *hits[first:]]
