"""One search: candidates are ranked in columns, and objects are made only for the hits that are shown.

`semantic`, `lexical` and `hybrid` rank the same columns: by cosine, by BM25, and by relevance or a fusion of both.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from clew.core.candidates import Placed
from clew.core.errors import DriverFailed
from clew.core.protocols import Reranker, Step
from clew.core.settings import Settings
from clew.core.trace import note, step
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import ANSWER, refine_relevance
from clew.query.rank.fuse import fuse_two
from clew.query.rank.thread_smoothing import FLOW, smooth_in_range
from clew.query.search.evidence import EvidenceSource, Found, embed_query

log = logging.getLogger("clew")


def rerank(reranker: Reranker | None, *, candidates: int = 20) -> Step:
    """Make a step that reranks the first max(candidates, k) hits and drops the rest; without a reranker, keep all."""

    def rerank(query: Query, hits: list[Hit]) -> list[Hit]:
        if reranker is None:
            log.warning("there is no reranker; the order of the search is kept")
            note("reranker", "none: the order is kept")
            return hits
        note("reranker", reranker.name)
        subset = hits[: max(candidates, query.k)]
        scores = score_texts(reranker, query.text, [hit.chunk.index_text for hit in subset])
        scored = []
        for hit, score in zip(subset, scores, strict=True):
            chance = reranker.calibrate(score)
            refined = {ANSWER: refine_relevance(hit.scores[ANSWER], chance)} if ANSWER in hit.scores else {}
            hit = replace(hit, relevance=refine_relevance(hit.relevance, chance), scores={**hit.scores, **refined})
            scored.append(hit.with_score(score, "rerank"))
        return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))

    return rerank


def score_texts(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """Score texts for a query; raise DriverFailed unless the reranker returns one finite number per text."""
    scores = reranker.score(query, texts)
    if len(scores) != len(texts):
        raise DriverFailed(f"reranker {reranker.name} returned {len(scores)} scores for {len(texts)} texts")
    for score in scores:
        if not math.isfinite(score):
            raise DriverFailed(f"reranker {reranker.name} returned {score} as a score")
    return scores


SEMANTIC, LEXICAL, HYBRID = "semantic", "lexical", "hybrid"
RANK = "rank"  # the name of the step


def search(name: str, source: EvidenceSource, queries: Sequence[Query], settings: Settings) -> list[list[Hit]]:
    """Search the k best hits of queries that share k, depth and filter; raise Gone if one is removed meanwhile."""
    first = queries[0]
    depth = first.depth
    if name != HYBRID and first.k < first.depth:
        depth = max(first.k * settings.search.overfetch, 15)
    queries = [replace(query, vector=embed_query(query, source.embedder)) for query in queries]
    with step("candidates") as trace:
        gathered = source.gather(queries, depth)
        trace.out = sum(each.count(depth) for each in gathered)
        if trace.is_recorded:
            trace.notes["languages"] = ", ".join(source.analyser.choose_languages(first.text)[0])
    ranked = []
    with step(RANK) as trace:
        for query, each in zip(queries, gathered, strict=True):
            found = source.weigh(query, each, depth)
            order, scores, own = _order(name, found, settings)
            if trace.is_recorded:
                _record_rankings(name, found)
                trace.notes |= {SEMANTIC: sum(map(len, found.near)), LEXICAL: sum(map(len, found.matching))}
                foreign = found.evidence.foreign
                if foreign is not None and foreign[order].any():
                    trace.notes["in_other_languages"] = int(foreign[order].sum())
            if trace.keeps_output:
                trace.output = tuple(Placed(found.candidates.ids[place], scores[place]) for place in order)
            ranked.append(_make_hits(name, found, order[: query.k], scores, own))
        trace.out = sum(map(len, ranked))
    return ranked


def _order(name: str, found: Found, settings: Settings) -> tuple[list[int], Mapping[int, float], Mapping[int, float]]:
    """Order the places as a strategy ranks them; return also their scores, with and without gains from neighbours.

    Ties are ordered by id; places of equal relevance by cosine first.
    """
    of, near = found.candidates, np.zeros(len(found.candidates.ids))
    if name == HYBRID and settings.search.fusion == "confident":
        places = found.list_places()
        own, scores = (dict(zip(places, each[places].tolist(), strict=True)) for each in (found.own, found.relevance))
        near = np.nan_to_num(of.cosines, nan=-1.0)  # nan: no vector yet
    else:
        own = _fuse_legs(found, settings) if name == HYBRID else _read_scores(name, found)
        scores = _smooth(own, found, settings)
    return sorted(scores, key=lambda place: (-scores[place], -near[place], of.ids[place])), scores, own


def _read_scores(name: str, found: Found) -> dict[int, float]:
    """Return the scores of one leg by place."""
    of, rankings = found.candidates, found.near if name == SEMANTIC else found.matching
    return {p: float(of.cosines[p] if name == SEMANTIC else of.by_words[p]) for ranking in rankings for p in ranking}


def _fuse_legs(found: Found, settings: Settings) -> dict[int, float]:
    """Fuse both legs into scores; messages have a weight of meaning of their own."""
    legs = []
    for leg in (SEMANTIC, LEXICAL):
        order, scores, _ = _order(leg, found, settings)
        legs.append([(place, scores[place]) for place in order])
    weights = settings.search.semantic_weight, settings.flow.semantic_weight
    pages, messages = (fuse_two(legs, weight, settings.search) for weight in weights)
    return {place: (messages if found.candidates.is_message[place] else pages)[place] for place in pages}


def _smooth(scores: dict[int, float], found: Found, settings: Settings) -> dict[int, float]:
    """Smooth the scores of messages: they gain from each other."""
    chosen = [place for place in scores if place in found.threads]
    values = np.array([scores[place] for place in chosen])
    smoothed = smooth_in_range(values, [found.threads[place] for place in chosen], settings.flow.reach)
    return scores | dict(zip(chosen, smoothed.tolist(), strict=True))


def _record_rankings(name: str, found: Found) -> None:
    of, every = found.candidates, {SEMANTIC: found.near, LEXICAL: found.matching}
    for leg, rankings in every.items() if name == HYBRID else [(name, every[name])]:
        scores = of.cosines if leg == SEMANTIC else of.by_words
        with step(leg) as trace:
            places = [(-float(scores[place]), of.ids[place]) for ranking in rankings for place in ranking]
            trace.set_output([Placed(id_, -score) for score, id_ in sorted(places)])


def _make_hits(
    name: str, found: Found, places: Sequence[int], scores: Mapping[int, float], own: Mapping[int, float]
) -> list[Hit]:
    of, hits = found.candidates, []
    by_vector = {place for ranking in found.near for place in ranking}
    for place, hit in zip(places, of.read_hits(places), strict=True):
        cosine, named = float(of.cosines[place]), dict[str, float]()
        if name != LEXICAL and place in by_vector:
            named[SEMANTIC] = cosine
        if name != SEMANTIC and place in of.by_words:
            named[LEXICAL] = of.by_words[place]
        if name == HYBRID:
            named[HYBRID] = own[place]
        if place in found.threads:
            named[FLOW] = scores[place]
        named |= found.name_scores(place)
        hits.append(Hit(hit.chunk, hit.document, scores[place], named, cosine, float(found.relevance[place])))
    return hits
