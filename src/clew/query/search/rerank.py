"""A step: the best candidates in the order of a model that reads the question and the text together."""

import logging

from clew.core.protocols import Reranker, Step
from clew.core.trace import step
from clew.core.types import Hit, Query

log = logging.getLogger("clew")


def rerank(reranker: Reranker | None, *, candidates: int = 20) -> Step:
    """The first max(candidates, k) hits by the reranker's score; without a reranker the order stays, and it is said."""

    def change(query: Query, hits: list[Hit]) -> list[Hit]:
        with step("rerank") as trace:
            if reranker is None:
                log.warning("there is no reranker; the order of the search is kept")
                trace.notes["reranker"] = "none: the order is kept"
                return hits
            few = hits[: max(candidates, query.k)]
            scores = reranker.score(query.text, [hit.chunk.embed_text for hit in few])
            trace.notes["reranker"] = reranker.name
            scored = [hit.with_score(score, "rerank") for hit, score in zip(few, scores, strict=True)]
            ranked = sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))
            trace.set_output(ranked)
            return ranked

    return change
