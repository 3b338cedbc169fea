"""How chunks are found, by a question and by a whole conversation."""

from dataclasses import dataclass
from typing import Literal

from clew.core.settings.checks import at_least, between, one_of


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How chunks are found. `min_similarity` is a cosine; None leaves it to the embedder."""

    strategy: str = "hybrid"
    k: int = 5
    depth: int = 50
    mode: Literal["ann", "exact"] = "ann"
    nprobe: int | None = None  # breadth of the approximate search; None leaves it to the index
    overfetch: int = 5
    min_similarity: float | None = None
    fusion: Literal["confident", "convex", "rrf", "round_robin"] = "confident"
    semantic_weight: float = 0.5  # the rest is the lexical weight
    rrf_k: int = 60
    document_weight: float = 0.3  # the share of the document's similarity in document_boost
    document_min_similarity: float | None = None  # of a summary; None leaves it to the embedder
    candidates: int = 20  # the least that are re-ranked
    variations: int = 3  # queries that multi_query adds to the one that was asked
    rounds: int = 2  # searches that self_reflective may make
    cache: int = 256  # results that are kept until the collection changes; 0: none

    def __post_init__(self) -> None:
        at_least("search.k", self.k, 1)
        at_least("search.depth", self.depth, 1)
        one_of("search.mode", self.mode, ("ann", "exact"))
        if self.nprobe is not None:
            at_least("search.nprobe", self.nprobe, 1)
        at_least("search.overfetch", self.overfetch, 1)
        if self.min_similarity is not None:
            between("search.min_similarity", self.min_similarity, -1, 1)
        one_of("search.fusion", self.fusion, ("confident", "convex", "rrf", "round_robin"))
        between("search.semantic_weight", self.semantic_weight, 0, 1)
        at_least("search.rrf_k", self.rrf_k, 1)
        between("search.document_weight", self.document_weight, 0, 1)
        if self.document_min_similarity is not None:
            between("search.document_min_similarity", self.document_min_similarity, -1, 1)
        at_least("search.candidates", self.candidates, 1)
        at_least("search.variations", self.variations, 0)
        at_least("search.rounds", self.rounds, 1)
        at_least("search.cache", self.cache, 0)


@dataclass(frozen=True, slots=True)
class ConversationConfig:
    """How a whole conversation is asked as a query. Sizes are tokens of the embedder."""

    single_below: int = 100  # messages up to which it is one query
    max_tokens: int = 256  # of a part that asks for itself: 1800 found fewer of its topics
    overlap_tokens: int = 48
    chunks_per_query: int = 5  # hits that each part takes
    dedup_strategy: Literal["document", "none", "semantic"] = "document"
    dedup_max_per_doc: int = 1
    dedup_threshold: float = 0.92  # the cosine from which two chunks say the same
    order: Literal["coverage", "score"] = "coverage"
    topics: bool = True  # cut where the topic changes, not by length alone
    global_query: bool = False  # also ask the whole at once
    mmr: float | None = None  # the share of relevance against novelty; needs order = "score"

    def __post_init__(self) -> None:
        at_least("conversation.single_below", self.single_below, 0)
        at_least("conversation.max_tokens", self.max_tokens, 8)
        between("conversation.overlap_tokens", self.overlap_tokens, 0, self.max_tokens - 1)
        at_least("conversation.chunks_per_query", self.chunks_per_query, 1)
        one_of("conversation.dedup_strategy", self.dedup_strategy, ("document", "none", "semantic"))
        at_least("conversation.dedup_max_per_doc", self.dedup_max_per_doc, 1)
        between("conversation.dedup_threshold", self.dedup_threshold, -1, 1)
        one_of("conversation.order", self.order, ("coverage", "score"))
        if self.mmr is not None:
            between("conversation.mmr", self.mmr, 0, 1)
