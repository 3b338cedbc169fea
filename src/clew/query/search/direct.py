"""The short way of a plain search: candidates in columns, and objects only of the hits that are shown.

A store that finds the candidates of queries in one pass spares a search by meaning, by words or by both the objects of
the hundred hits that it compares. The hits are those that the strategies of the same names find step by step; that is
how they are found while a trace is recorded that is not brief, too.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from clew.core.candidates import Candidates, CandidateTexts, Depth
from clew.core.protocols import FindsCandidates
from clew.core.small_talk import estimate_intent
from clew.core.trace import step
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import FIELD, MATCH, SEMANTIC_WEIGHT, Signal, estimate_match, estimate_relevance
from clew.query.search.evidence import (
    MIN_ASSESSED,
    RIVALS,
    EvidenceSource,
    combine_evidence,
    name_expected_words,
)
from clew.query.search.retrieve import embed_query
from clew.query.search.strategies import Drivers

SEMANTIC, LEXICAL, HYBRID = "semantic", "lexical", "hybrid"


def can_search_directly(name: str, drivers: Drivers, query: Query, has_channels: Callable[[], bool]) -> bool:
    """Whether a strategy, which is a built-in one, does nothing with this query but rank what the store finds."""
    search = drivers.settings.search
    if name not in (SEMANTIC, LEXICAL, HYBRID) or not isinstance(drivers.store, FindsCandidates):
        return False
    is_plain = search.mode == "ann" and search.nprobe is None and not search.has_floor
    if not is_plain or query.history or query.channel is not None or query.now is not None:
        return False
    if name != HYBRID:
        return True
    return search.fusion == "confident" and not (drivers.settings.flow.each_kind and has_channels())


def search_directly(name: str, drivers: Drivers, queries: Sequence[Query]) -> list[list[Hit] | None]:
    """The k best hits of each query, all with the same k, depth and filter; None where they have to be searched for."""
    store, source, first = drivers.store, drivers.evidence, queries[0]
    assert isinstance(store, FindsCandidates)
    vectors = np.stack([embed_query(query, drivers.embedder) for query in queries])
    near, matching = _choose_depths(name, first, drivers.settings.search.overfetch)
    with step("candidates") as trace:
        terms = [source.extract_terms(query) for query in queries]
        found = store.find_candidates(vectors, terms, near, matching, first.where)
        if found is None:
            return [None for _ in queries]
        trace.out = sum(len(each.ids) for each in found)
        if trace.is_recorded:
            trace.notes |= {SEMANTIC: sum(each.nearest for each in found), LEXICAL: sum(map(_count_by_words, found))}
    ranked = list[list[Hit] | None]()
    with step("rank") as trace:
        for query, candidates, vector in zip(queries, found, vectors, strict=True):
            if candidates.has_messages:  # they gain from their neighbours
                ranked.append(None)
                continue
            asked = Query(query.text, query.k, query.depth, where=query.where, vector=vector)
            try:
                ranked.append(_rank(name, asked, candidates, source, drivers.settings.search.semantic_weight))
            except LookupError:  # one of them was removed meanwhile, or is damaged
                ranked.append(None)
        trace.out = sum(len(each or ()) for each in ranked)
    return ranked


def _count_by_words(found: Candidates) -> int:
    return len(found.by_words)


def _choose_depths(name: str, query: Query, overfetch: int) -> tuple[Depth, Depth]:
    """How many candidates each ranking has: in a search by one of them, of the other only the rivals."""
    if name == HYBRID:
        both = Depth(query.depth, query.depth)
        return both, both
    depth = max(query.k * overfetch, 15)
    own, rivals = Depth(depth, max(query.k, MIN_ASSESSED)), Depth(RIVALS, RIVALS)
    return (own, rivals) if name == SEMANTIC else (rivals, own)


def _rank(name: str, query: Query, found: Candidates, source: EvidenceSource, weight: float) -> list[Hit]:
    """The k best candidates as hits."""
    texts = CandidateTexts(found)
    evidence = source.judge_candidates(query, found, texts)
    fused, meaning_weight, trust = evidence.words, SEMANTIC_WEIGHT, source.trust_words(query, evidence)
    if name == HYBRID:
        meaning_weight = weight
        fused = combine_evidence(evidence, weight, 0.0, words_trust=trust)
        best = _find_best(fused, found.ids, max(query.k, MIN_ASSESSED))
    else:
        best = list(range(found.nearest) if name == SEMANTIC else found.by_words)[: query.k]
    ranks = [np.argsort(-signal, kind="stable")[: FIELD.stop].tolist() for signal in (evidence.meaning, evidence.words)]
    texts.read_hits(list(dict.fromkeys(chain(*ranks))))  # whose texts are compared, all at once
    chances = estimate_relevance(
        evidence,
        places=best,
        intent=estimate_intent(query.text),
        semantic_weight=meaning_weight,
        words_trust=trust,
    )
    relevances = dict(zip(best, chances, strict=True))
    scores: Mapping[int, float] | Signal = found.by_words if name == LEXICAL else found.cosines
    if name == HYBRID:
        near = np.nan_to_num(found.cosines, nan=-1.0)  # of a chunk without a vector yet
        best = sorted(best, key=lambda place: (-relevances[place], -near[place], found.ids[place]))[: query.k]
        scores = relevances
    hits = []
    for place, of, match in zip(best, texts.read_hits(best), estimate_match(evidence.take(best)), strict=True):
        cosine, named = float(found.cosines[place]), dict[str, float]()
        if name != LEXICAL and place < found.nearest:
            named[SEMANTIC] = cosine
        if name != SEMANTIC and place in found.by_words:
            named[LEXICAL] = found.by_words[place]
        if name == HYBRID:
            named[HYBRID] = float(fused[place])
        named |= {MATCH: match, **name_expected_words(evidence, place)}
        hits.append(Hit(of.chunk, of.document, float(scores[place]), named, cosine, relevances[place]))
    return hits


def _find_best(scores: Signal, ids: Sequence[str], k: int) -> list[int]:
    """The places of the k greatest scores in order, equal ones by the ids of their chunks."""
    least = np.partition(scores, -k)[-k] if len(scores) > k else -np.inf
    best = [(-score, ids[place], place) for place, score in enumerate(scores.tolist()) if score >= least]
    return [place for _, _, place in sorted(best)[:k]]
