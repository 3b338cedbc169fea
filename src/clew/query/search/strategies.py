"""The named strategies, one sentence each over the combinators.

A maker takes what a strategy may use and gives the strategy; your own joins by its name:
`Engine.open(…, strategies={"mine": maker})`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from clew.core.protocols import LLM, Embedder, Fuse, Judge, Reranker, Store, Strategy, Verdict
from clew.core.settings import DEFAULTS, Settings
from clew.core.trace import step
from clew.core.types import Hit, Query
from clew.query.rank.balance_kinds import by_kind, each_kind
from clew.query.rank.fuse import confident, contrast, convex, nearness, round_robin, rrf, turns
from clew.query.rank.thread_smoothing import smooth_threads
from clew.query.rewrite.queries import expand_query_variations, variations
from clew.query.rewrite.route import route
from clew.query.search import boost, conversation, retrieve
from clew.query.search.compose import Embed, fan_out, fuse, pipe, reflect
from clew.query.search.conversation import Cut
from clew.query.search.judge import by_model, by_reranker
from clew.query.search.rerank import rerank as by_score
from clew.query.search.topics import segments

log = logging.getLogger("clew")


def _no_reranker() -> None:
    return None


def _whole(text: str) -> list[str]:
    return [text]


@dataclass(frozen=True, slots=True)
class Drivers:
    """What a strategy may use. The reranker is loaded when it is first asked for; there may be none, and no model."""

    store: Store
    embedder: Embedder
    settings: Settings = DEFAULTS
    reranker: Callable[[], Reranker | None] = _no_reranker
    llm: LLM | None = None
    cut: Cut = _whole  # the storage chunker, for texts as long as documents

    def embed(self) -> Embed:
        """A function that embeds queries in one batch."""
        return lambda texts: self.embedder.embed(texts, role="query")


StrategyFactory = Callable[[Drivers], Strategy]


def semantic(drivers: Drivers) -> Strategy:
    """By meaning."""
    return pipe(alone(_semantic(drivers), drivers), smooth_threads(drivers.settings.flow))


def lexical(drivers: Drivers) -> Strategy:
    """By words."""
    return pipe(alone(_lexical(drivers), drivers), smooth_threads(drivers.settings.flow))


def hybrid(drivers: Drivers) -> Strategy:
    """By meaning and by words, fused."""
    legs = [_semantic(drivers), _lexical(drivers)]
    if drivers.settings.flow.each_kind:
        legs = [each_kind(leg) for leg in legs]
    return pipe(fuse(*legs, by=fusion(drivers)), smooth_threads(drivers.settings.flow))


def document_boost(drivers: Drivers) -> Strategy:
    """By the chunk and by what its document is about."""
    search = drivers.settings.search
    return boost.document_boost(
        drivers.store,
        drivers.embedder,
        weight=search.document_weight,
        min_similarity=search.document_min_similarity,
        mode=search.mode,
        nprobe=search.nprobe,
    )


def multi_query(drivers: Drivers) -> Strategy:
    """The question and its variations, each chunk once: the more and the higher they rank it, the better.

    Ranks, because the scores of hybrid searches are relative to their own query: taking the best of them gained
    nothing over the question alone where adding up reciprocal ranks did (MTRAG, recall@5 .280 against .305).
    """
    first = hybrid(drivers)
    rewrite = variations(drivers.llm, n=drivers.settings.search.variations, feedback=first)
    return fan_out(rewrite, first, by=rrf(k=drivers.settings.search.rrf_k, by="multi_query"), embed=drivers.embed())


def rerank(drivers: Drivers) -> Strategy:
    """The best of a hybrid search in the order of a model that reads question and text together."""
    return pipe(hybrid(drivers), by_score(drivers.reranker(), candidates=drivers.settings.search.candidates))


def self_reflective(drivers: Drivers) -> Strategy:
    """Searched again with a better query for as long as the judge finds the hits wanting."""
    return reflect(hybrid(drivers), _judge(drivers), rounds=drivers.settings.search.rounds)


def chunked(drivers: Drivers) -> Strategy:
    """A whole conversation: each of its topics asks for itself, and each has its best document found."""
    config = drivers.settings.conversation
    topics = partial(segments, embed=None)  # by words: as good as with meaning, and nothing is embedded for it
    return conversation.chunked(
        hybrid(drivers),
        chunk=drivers.cut,
        embed=drivers.embed(),
        topics=topics if config.topics else None,
        vectors=drivers.store.vectors,
        chunks_per_query=config.chunks_per_query,
        dedup=config.dedup_strategy,
        max_per_doc=config.dedup_max_per_doc,
        threshold=config.dedup_threshold,
        order=config.order,
        mmr=config.mmr,
        global_query=config.global_query,
        single_below=config.single_below,
    )


def auto(drivers: Drivers) -> Strategy:
    """The strategy that the question calls for, by its own words or its kind."""

    def search(query: Query) -> list[Hit]:
        most = drivers.settings.conversation.single_below
        found = route(query.text, turns=len(query.history), single_below=most)
        with step("auto") as trace:
            trace.notes["strategy"] = found.strategy
            trace.notes["reason"] = found.reason
        return STRATEGIES[found.strategy](drivers)(replace(query, text=found.text))

    return search


STRATEGIES: Mapping[str, StrategyFactory] = {
    "semantic": semantic,
    "lexical": lexical,
    "hybrid": hybrid,
    "document_boost": document_boost,
    "multi_query": multi_query,
    "rerank": rerank,
    "self_reflective": self_reflective,
    "chunked": chunked,
    "auto": auto,
}


def fusion(drivers: Drivers) -> Fuse:
    """The fusion of a semantic and a lexical ranking that the settings ask for, of pages and of messages."""
    settings = drivers.settings
    pages, messages = settings.search.semantic_weight, settings.flow.semantic_weight
    return by_kind(weighted(pages, drivers), weighted(messages, drivers))


def weighted(weight: float, drivers: Drivers) -> Fuse:
    """The fusion of the settings in which meaning has that weight, and words the rest."""
    search = drivers.settings.search
    if search.fusion == "rrf":
        return rrf(weight, 1 - weight, k=search.rrf_k, by="hybrid")
    if search.fusion == "round_robin":
        return round_robin(*turns(weight, 1 - weight), by="hybrid")
    if search.fusion == "confident":
        sure = (nearness(drivers.embedder.min_similarity), contrast)
        return confident(weight, 1 - weight, sure=sure, by="hybrid")
    return convex(weight, 1 - weight, by="hybrid")


def alone(strategy: Strategy, drivers: Drivers) -> Strategy:
    """A single ranking, which asks for a few times `k` instead of the depth that fusion needs."""

    def search(query: Query) -> list[Hit]:
        return strategy(replace(query, depth=max(query.k * drivers.settings.search.overfetch, 15)))

    return search


def _semantic(drivers: Drivers) -> Strategy:
    search = drivers.settings.search
    return retrieve.semantic(
        drivers.store,
        drivers.embedder,
        mode=search.mode,
        nprobe=search.nprobe,
        min_similarity=search.min_similarity,
    )


def _lexical(drivers: Drivers) -> Strategy:
    return retrieve.lexical(drivers.store, language=drivers.settings.ingestion.language)


def _judge(drivers: Drivers) -> Judge:
    """By the language model where there is one, else by the reranker; with neither, content with everything."""
    if drivers.llm is not None:
        return by_model(drivers.llm)
    reranker = drivers.reranker()
    if reranker is None:
        log.warning("there is neither a language model nor a reranker; nothing is graded")
        return lambda _query, _hits: Verdict(None)

    def refine(query: Query, hits: list[Hit]) -> Query | None:
        texts = expand_query_variations(query.text, n=1, feedback=[hit.chunk.text for hit in hits[:5]])
        return replace(query, text=texts[1], vector=None) if len(texts) > 1 else None

    return by_reranker(reranker, refine)
