"""The reranking step: the best candidates in the order of a model that reads question and text together."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from clew.core.errors import DriverFailed
from clew.core.protocols import Reranker, Step
from clew.core.trace import note
from clew.core.types import Hit, Query
from clew.query.rank.calibrate import refine_relevance

log = logging.getLogger("clew")


def rerank(reranker: Reranker | None, *, candidates: int = 20) -> Step:
    """A step that orders the first max(candidates, k) hits by the reranker; without one it warns and keeps them."""

    def rerank(query: Query, hits: list[Hit]) -> list[Hit]:
        if reranker is None:
            log.warning("there is no reranker; the order of the search is kept")
            note("reranker", "none: the order is kept")
            return hits
        note("reranker", reranker.name)
        subset = hits[: max(candidates, query.k)]
        scores = score_texts(reranker, query.text, [hit.chunk.index_text for hit in subset])
        scored = [
            replace(
                hit.with_score(score, "rerank"),
                relevance=refine_relevance(hit.relevance, reranker.calibrate(score)),
            )
            for hit, score in zip(subset, scores, strict=True)
        ]
        return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))

    return rerank


def score_texts(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """The reranker's scores of texts for a query, or DriverFailed if they are not one finite number per text."""
    scores = reranker.score(query, texts)
    if len(scores) != len(texts):
        raise DriverFailed(f"reranker {reranker.name} returned {len(scores)} scores for {len(texts)} texts")
    for score in scores:
        if not math.isfinite(score):
            raise DriverFailed(f"reranker {reranker.name} returned {score} as a score")
    return scores
