"""Gathers the evidence of hits from the store, fuses a hybrid search by it, and computes similarity and relevance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clew.core.analyse import make_language_term
from clew.core.calibration import Calibration
from clew.core.candidates import Candidates, CandidateTexts
from clew.core.cosine import compute_cosines
from clew.core.detect import detect_language
from clew.core.languages import find_known_languages
from clew.core.protocols import Embedder, Step, Store, Strategy
from clew.core.small_talk import estimate_intent
from clew.core.text import Terms
from clew.core.trace import step
from clew.core.types import FOREIGN, NO_MATCH, Hit, Query, Vector
from clew.query.rank.calibrate import (
    EXPECTED_WORDS,
    MATCH,
    Evidence,
    Signal,
    estimate_match,
    estimate_relevance,
    expect_meaning,
    sort_by_relevance,
)
from clew.query.rank.dedupe import dedupe_chunks
from clew.query.rank.fuse import collect_hits
from clew.query.rank.thread_smoothing import is_message_chunk
from clew.query.search.analyse import QueryAnalyser
from clew.query.search.retrieve import embed_query

_PROMINENCE_DEPTH = 50  # hits among which the best stands out, however deep the search
PAGE_TRUST, MESSAGE_TRUST = 2.0, 0.5  # powers of trust: in a chat most messages have the same words
FOREIGN_TRUST = 0.25  # of the words of a query in another language than the texts: names and numbers
RIVALS = 10  # of each leg, that the hits of any other strategy are compared with
TOGETHER = 50  # chunks that are looked at for two sets of terms together
MIN_ASSESSED = 20  # hits that are judged and ordered by relevance, however few are wanted


class EvidenceSource:
    """Reads from a store how well chunks match a query, by meaning and by words."""

    def __init__(self, store: Store, embedder: Embedder, calibration: Calibration, analyser: QueryAnalyser) -> None:
        self.embedder = embedder
        self._store, self._calibration, self._analyser = store, calibration, analyser

    def gather(self, query: Query, hits: Sequence[Hit]) -> tuple[list[float], Evidence]:
        """The cosine and the evidence of each hit; a similarity that it has already is taken for the cosine.

        The cosine is nan where there is no vector yet.
        """
        vector = embed_query(query, self.embedder)
        ids = [hit.chunk.id for hit in hits]
        unknown = [hit.chunk.id for hit in hits if math.isnan(hit.similarity)]
        vectors = self._store.vectors(unknown) if unknown else {}
        found = dict(zip(vectors, _compute_similarities(vectors, vector), strict=True))
        background = self._calibration.background(vector)
        cosines = [found.get(hit.chunk.id, math.nan) if math.isnan(hit.similarity) else hit.similarity for hit in hits]
        matched = self._store.match_terms(self.extract_terms(query), ids)
        matches = [matched.get(each, NO_MATCH) for each in ids]
        shares, strengths = np.array(matches, np.float64).reshape(-1, 2).T
        meaning, texts = (
            self._calibration.scale(np.array(cosines), background),
            [hit.chunk.text.strip() for hit in hits],
        )
        return cosines, self._weigh(query, ids, texts, meaning, shares, strengths)

    def judge_candidates(self, query: Query, found: Candidates, texts: CandidateTexts) -> Evidence:
        """The evidence of candidates, which have these texts."""
        background = self._calibration.background(embed_query(query, self.embedder))
        meaning = self._calibration.scale(found.cosines, background)
        return self._weigh(query, found.ids, texts, meaning, found.shares, found.strengths)

    def _weigh(
        self,
        query: Query,
        ids: Sequence[str],
        texts: Sequence[str],
        meaning: Signal,
        shares: Signal,
        strengths: Signal,
    ) -> Evidence:
        terms = self.extract_terms(query)
        certainty = len(terms) / (len(terms) + 1)  # one word in common says less than all of five
        share = certainty * shares
        words = (share + certainty * strengths) / 2
        evidence = Evidence(expect_meaning(meaning, share), words, share, texts)
        others = self._list_other_languages(query)
        if not others:
            return evidence
        foreign = self._store.match_terms({make_language_term(code): 1 for code in others}, ids)
        return evidence.expect_words([each in foreign and foreign[each].share > 0 for each in ids])

    def estimate_summaries(
        self, query: Query, summaries: Sequence[str], cosines: Mapping[str, float]
    ) -> dict[str, float]:
        """The relevance of summaries with these cosines, by document, as if each were a chunk among the others.

        Their terms are in no index, so that every term of the query counts the same.
        """
        asked = self.extract_terms(query)
        certainty = len(asked) / (len(asked) + 1)
        found = [self._analyser.extract_text_terms(each, query.text) for each in summaries]
        share = certainty * np.array([sum(term in terms for term in asked) / max(len(asked), 1) for terms in found])
        background = self._calibration.background(embed_query(query, self.embedder))
        meaning = self._calibration.scale(np.array(list(cosines.values())), background)
        evidence = Evidence(meaning, share, share, summaries)
        if others := self._list_other_languages(query):
            evidence = evidence.expect_words([detect_language(each) in others for each in summaries])
        relevances = estimate_relevance(evidence, intent=estimate_intent(query.text)) if cosines else []
        return dict(zip(cosines, relevances, strict=True))

    def find_rivals(self, query: Query, hits: Sequence[Hit]) -> list[Hit]:
        """The best chunks by meaning and by words that are not among the hits, so that any list is judged alike."""
        vector = embed_query(query, self.embedder)
        nearest = self._store.search_vectors(vector, RIVALS, query.where)
        matching = self._store.search_terms(self.extract_terms(query), RIVALS, query.where)
        known = {hit.chunk.id for hit in hits}
        return [hit for hit in dedupe_chunks([*nearest, *matching]) if hit.chunk.id not in known]

    def match_together(self, query: Query, expanded: Query) -> float:
        """The greatest share of the terms that only the expanded query has, in chunks with most terms of the query."""
        own, both = self.extract_terms(query), self.extract_terms(expanded)
        added = {term: count for term, count in both.items() if term not in own}
        found = [hit for terms in (own, both) for hit in self._store.search_terms(terms, TOGETHER, query.where)]
        ids = list({hit.chunk.id: None for hit in found})
        shares = {id_: match.share for id_, match in self._store.match_terms(own, ids).items()}
        best = max(shares.values(), default=0.0)
        first = [id_ for id_, share in shares.items() if math.isclose(share, best)]
        return max((match.share for match in self._store.match_terms(added, first).values()), default=0.0)

    def trust_words(self, query: Query, evidence: Evidence) -> float:
        """How far the words of a query can be trusted: less in another language than the texts.

        Where the embedder knows the query's language and another of the collection, meaning can do without words, so
        that they count by how near the best come to what is expected of the best meaning.
        """
        if self._analyser.is_foreign(query.text):
            return FOREIGN_TRUST
        known = find_known_languages(self.embedder)
        if len(evidence.words) and self._analyser.can_do_without_words(query.text, known):
            return min(float(evidence.words.max()) / EXPECTED_WORDS, 1.0)
        return 1.0

    def find_language(self, query: Query) -> str:
        """The language that the query is likely in; "" if there is no telling."""
        return self._analyser.find_language(query.text)

    def _list_other_languages(self, query: Query) -> list[str]:
        return self._analyser.list_other_languages(query.text, find_known_languages(self.embedder))

    def extract_terms(self, query: Query) -> Terms:
        """The terms of a query."""
        return self._analyser.extract_terms(query.text)


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
        cosines, evidence = source.gather(query, [*first, *source.find_rivals(query, first)])
        trust, intent = source.trust_words(query, evidence), estimate_intent(query.text)
        relevances = estimate_relevance(evidence, first=len(first), intent=intent, words_trust=trust)
        assessed = []
        for place, (hit, match) in enumerate(zip(first, estimate_match(evidence), strict=False)):
            scores = {**hit.scores, MATCH: match, **name_expected_words(evidence, place)}
            numbers = cosines[place], relevances[place]
            assessed.append(Hit(hit.chunk, hit.document, hit.score, scores, *numbers))
        return [*assessed, *hits[len(first) :]]

    return relevance


def fuse_by_evidence(
    *legs: Strategy, source: EvidenceSource, page_weight: float, message_weight: float, name: str
) -> Strategy:
    """A strategy that runs several on the same query and scores their hits together, by meaning and words.

    It also computes the similarity and the relevance of all. The score is the convex combination of
    meaning and words, each normalised over the hits; the weights are those of meaning. No fixed ones are right
    everywhere: words mislead where every text has them, meaning where the model does not know the language. So each
    weight is multiplied by a power of how far its signal can be trusted: meaning by its best value, words by how far
    the best stands out.
    """

    def search(query: Query) -> list[Hit]:
        with step("fused") as trace:
            query = replace(query, vector=embed_query(query, source.embedder))
            hits = collect_hits([leg(query) for leg in legs])
            cosines, evidence = source.gather(query, hits)
            trust = source.trust_words(query, evidence)
            is_message = np.array([is_message_chunk(hit.chunk) for hit in hits], bool)
            weights = page_weight, message_weight
            scores = combine_evidence(evidence, *weights, is_message=is_message, words_trust=trust).tolist()
            meaning_weights = np.where(is_message, message_weight, page_weight)
            keys = [(-score, hit.chunk.id) for score, hit in zip(scores, hits, strict=True)]
            order = sorted(range(len(hits)), key=keys.__getitem__)
            intent = estimate_intent(query.text)
            relevances = estimate_relevance(evidence, intent=intent, semantic_weight=meaning_weights, words_trust=trust)
            matches = estimate_match(evidence)
            fused = []
            for place in order:
                hit, score = hits[place], scores[place]
                numbers = {**hit.scores, name: score, MATCH: matches[place], **name_expected_words(evidence, place)}
                fused.append(Hit(hit.chunk, hit.document, score, numbers, cosines[place], relevances[place]))
            if any(evidence.foreign):
                trace.notes["in_other_languages"] = sum(evidence.foreign)
            trace.set_output(fused)
            return fused

    return search


def order_by_relevance(query: Query, hits: list[Hit]) -> list[Hit]:
    """Order the hits that may be shown by relevance, which becomes their score."""
    first = max(query.k, MIN_ASSESSED)
    scored = [replace(hit, score=hit.relevance) for hit in hits]
    return [*sort_by_relevance(scored[:first]), *scored[first:]]


def name_expected_words(evidence: Evidence, place: int) -> dict[str, float]:
    """The score that says that a hit is in another language than the question; none if it is not."""
    return {FOREIGN: float(evidence.words[place])} if evidence.foreign and evidence.foreign[place] else {}


def combine_evidence(
    evidence: Evidence,
    page_weight: float,
    message_weight: float,
    *,
    is_message: NDArray[np.bool_] | None = None,
    words_trust: float = 1.0,
) -> Signal:
    """The score of each hit from its meaning and words; where nothing is said of messages, there are none."""
    if not len(evidence.meaning):
        return evidence.meaning
    low, high = float(evidence.meaning.min()), float(evidence.meaning.max())
    by_meaning = min(max(0.1, high), 1.0)
    by_words = words_trust * max(0.1, measure_prominence(evidence.words))
    meaning = (evidence.meaning - low) / (high - low) if high > low else np.ones(len(evidence.meaning))
    words = evidence.words / (evidence.words.max() or 1.0)  # words have a true zero, meaning has none

    def combine(weight: float, power: float) -> Signal:
        meaning_weight, words_weight = weight * by_meaning**power, (1 - weight) * by_words**power
        combined: Signal = (meaning_weight * meaning + words_weight * words) / (meaning_weight + words_weight)
        return combined

    pages = combine(page_weight, PAGE_TRUST)
    return pages if is_message is None else np.where(is_message, combine(message_weight, MESSAGE_TRUST), pages)


def _compute_similarities(vectors: Mapping[str, Vector], query: Vector) -> list[float]:
    """The cosine of each vector with that of a query."""
    return compute_cosines(np.array(list(vectors.values())), query).tolist() if vectors else []


def measure_prominence(signal: Signal) -> float:
    """How far the best signal stands out, from 0 to 1: 1 - mean of the others / best.

    The spread of scores predicts how well a query is answered: Shtok and others, "Predicting Query Performance by
    Query-Drift Estimation", 2012.
    """
    ordered = np.maximum(np.sort(signal)[::-1][:_PROMINENCE_DEPTH], 0.0)
    if not ordered.any():
        return 0.0
    return 1.0 - float(ordered[1:].mean() / ordered[0]) if len(ordered) > 1 else 1.0
