"""Settings of the search: strategies, query rewriting, and a whole conversation as the query."""

from dataclasses import dataclass
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_choice, check_min, check_range


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How chunks are found. A minimum, where it is set, holds for every hit, whichever leg found it."""

    strategy: str = "hybrid"
    k: int = 5
    depth: int = 50
    mode: Literal["ann", "exact"] = "ann"
    nprobe: int | None = None  # breadth of the approximate search; None: the default of the index
    overfetch: int = 5
    min_similarity: float | None = None  # cosine
    min_relevance: float = 0.0  # chance that the chunk answers
    fusion: Literal["confident", "convex", "rrf", "round_robin"] = "confident"
    semantic_weight: float = 0.4  # of pages; the rest is the lexical weight
    rrf_k: int = 60
    document_strategy: str = "semantic"  # whose chunks document_boost weighs by their documents
    document_weight: float = 0.3  # weight of the document's similarity in document_boost
    document_min_similarity: float | None = None  # of a summary that counts; None: any counts
    candidates: int = 20  # minimum number of hits that are re-ranked
    variations: int = 3  # queries that multi_query adds to the question
    rounds: int = 2  # maximum number of searches of self_reflective
    max_query_chars: int = 100_000
    cache: int = 256  # size of the LRU cache of results, valid until the collection changes; 0: none

    @property
    def has_floor(self) -> bool:
        """Whether hits are left out for their similarity or relevance."""
        return self.min_similarity is not None or self.min_relevance > 0

    def __post_init__(self) -> None:
        check_min("search.k", self.k, 1)
        check_min("search.depth", self.depth, 1)
        check_choice("search.mode", self.mode, ("ann", "exact"))
        if self.nprobe is not None:
            check_min("search.nprobe", self.nprobe, 1)
        check_min("search.overfetch", self.overfetch, 1)
        if self.min_similarity is not None:
            check_range("search.min_similarity", self.min_similarity, -1, 1)
        check_range("search.min_relevance", self.min_relevance, 0, 1)
        check_choice("search.fusion", self.fusion, ("confident", "convex", "rrf", "round_robin"))
        check_range("search.semantic_weight", self.semantic_weight, 0, 1)
        check_min("search.rrf_k", self.rrf_k, 1)
        if self.document_strategy in ("auto", "chunked", "document_boost"):
            raise SettingsError(
                f"search.document_strategy is {self.document_strategy!r}; name a strategy that finds chunks, as hybrid"
            )
        check_range("search.document_weight", self.document_weight, 0, 1)
        if self.document_min_similarity is not None:
            check_range("search.document_min_similarity", self.document_min_similarity, -1, 1)
        check_min("search.candidates", self.candidates, 1)
        check_min("search.variations", self.variations, 0)
        check_min("search.rounds", self.rounds, 1)
        check_min("search.max_query_chars", self.max_query_chars, 1)
        check_min("search.cache", self.cache, 0)


@dataclass(frozen=True, slots=True)
class QueryTransformerConfig:
    """Queries written by the language model for `multi_query`, in place of variations of the question."""

    enabled: bool = False
    num_queries: int = 3  # searched beside the question
    domain_context: str = ""  # subject of the documents, told to the model
    suppress_thinking: bool = False  # ask for no reasoning, and drop what is in <think> tags

    def __post_init__(self) -> None:
        check_min("query_transformer.num_queries", self.num_queries, 1)


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Expansion of an elliptic question by keywords of the conversation before it.

    Three keywords, weighted by the answers too, mislead less often than five (measured on MTRAG).
    """

    max_context_turns: int = 3  # turns to read; 0: no expansion
    include_assistant: bool = True  # whether the answers count, not only the questions
    keyword_weight: float = 2.0  # factor by which a word counts more than one a turn earlier; 1: all turns alike
    max_keywords: int = 3

    def __post_init__(self) -> None:
        check_min("history.max_context_turns", self.max_context_turns, 0)
        check_min("history.keyword_weight", self.keyword_weight, 1)
        check_min("history.max_keywords", self.max_keywords, 1)


@dataclass(frozen=True, slots=True)
class ConversationConfig:
    """How a whole conversation is searched with. Sizes are tokens of the embedder."""

    strategy: str = "hybrid"  # the strategy of each part
    single_below: int | None = None  # messages up to which it is one query; None: as many as it has topics
    max_tokens: int = 256  # of one part, which is a query of its own: 1800 found fewer of the topics
    overlap_tokens: int = 48
    chunks_per_query: int = 5  # hits that each part keeps
    dedup_strategy: Literal["document", "none", "semantic"] = "document"
    dedup_max_per_doc: int = 1
    dedup_threshold: float = 0.92  # cosine from which two chunks count as duplicates
    order: Literal["coverage", "score"] = "coverage"
    topics: bool = True  # split where the topic changes, not by length alone
    global_query: bool = False  # also search with the whole conversation as one query
    mmr: float | None = None  # weight of relevance against novelty; needs order = "score"

    def __post_init__(self) -> None:
        if self.single_below is not None:
            check_min("conversation.single_below", self.single_below, 0)
        if self.strategy in ("auto", "chunked"):
            raise SettingsError(
                f"conversation.strategy is {self.strategy!r}; name the strategy of each part, such as hybrid"
            )
        check_min("conversation.max_tokens", self.max_tokens, 8)
        check_range("conversation.overlap_tokens", self.overlap_tokens, 0, self.max_tokens - 1)
        check_min("conversation.chunks_per_query", self.chunks_per_query, 1)
        check_choice("conversation.dedup_strategy", self.dedup_strategy, ("document", "none", "semantic"))
        check_min("conversation.dedup_max_per_doc", self.dedup_max_per_doc, 1)
        check_range("conversation.dedup_threshold", self.dedup_threshold, -1, 1)
        check_choice("conversation.order", self.order, ("coverage", "score"))
        if self.mmr is not None:
            check_range("conversation.mmr", self.mmr, 0, 1)
