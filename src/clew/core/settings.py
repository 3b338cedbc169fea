"""The settings: one frozen tree with a default for everything, checked when it is made.

It is given to `Engine.open(settings=…)`, and any call may be given its own. Reading files and the environment is the
surface's work.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from clew.core.agent import AgentConfig as AgentConfig
from clew.core.errors import SettingsError
from clew.core.flow import FlowConfig as FlowConfig
from clew.core.scoring import ScoringConfig as ScoringConfig


@dataclass(frozen=True, slots=True)
class IngestionConfig:
    """How sources become chunks. Sizes are tokens of the embedder."""

    chunk_size: int = 256
    chunk_overlap: int = 48
    use_semantic_chunking: bool = True  # False: plain windows
    use_contextual_enrichment: bool = False  # a sentence before each chunk that places it in its document
    summaries: bool = True  # two or three sentences a document, embedded with it
    language: str = "auto"  # of the words that are indexed
    max_concurrent: int = 5  # calls to the language model at once
    max_file_bytes: int = 100_000_000
    allow_private: bool = False  # whether web pages may be read from private addresses

    def __post_init__(self) -> None:
        _at_least("ingestion.chunk_size", self.chunk_size, 8)
        _between("ingestion.chunk_overlap", self.chunk_overlap, 0, self.chunk_size - 1)
        _at_least("ingestion.max_concurrent", self.max_concurrent, 1)
        _at_least("ingestion.max_file_bytes", self.max_file_bytes, 1)


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
        _at_least("search.k", self.k, 1)
        _at_least("search.depth", self.depth, 1)
        _one_of("search.mode", self.mode, ("ann", "exact"))
        if self.nprobe is not None:
            _at_least("search.nprobe", self.nprobe, 1)
        _at_least("search.overfetch", self.overfetch, 1)
        if self.min_similarity is not None:
            _between("search.min_similarity", self.min_similarity, -1, 1)
        _one_of("search.fusion", self.fusion, ("confident", "convex", "rrf", "round_robin"))
        _between("search.semantic_weight", self.semantic_weight, 0, 1)
        _at_least("search.rrf_k", self.rrf_k, 1)
        _between("search.document_weight", self.document_weight, 0, 1)
        if self.document_min_similarity is not None:
            _between("search.document_min_similarity", self.document_min_similarity, -1, 1)
        _at_least("search.candidates", self.candidates, 1)
        _at_least("search.variations", self.variations, 0)
        _at_least("search.rounds", self.rounds, 1)
        _at_least("search.cache", self.cache, 0)


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
        _at_least("conversation.single_below", self.single_below, 0)
        _at_least("conversation.max_tokens", self.max_tokens, 8)
        _between("conversation.overlap_tokens", self.overlap_tokens, 0, self.max_tokens - 1)
        _at_least("conversation.chunks_per_query", self.chunks_per_query, 1)
        _one_of("conversation.dedup_strategy", self.dedup_strategy, ("document", "none", "semantic"))
        _at_least("conversation.dedup_max_per_doc", self.dedup_max_per_doc, 1)
        _between("conversation.dedup_threshold", self.dedup_threshold, -1, 1)
        _one_of("conversation.order", self.order, ("coverage", "score"))
        if self.mmr is not None:
            _between("conversation.mmr", self.mmr, 0, 1)


@dataclass(frozen=True, slots=True)
class MergerConfig:
    """How hits of one source and heading path are joined into a readable stretch. Sizes are characters."""

    max_merged_size: int = 2000  # separators and marks counted; a single chunk is never cut
    preserve_order: bool = True  # False: within a stretch the best comes first
    require_adjacent: bool = False  # True: never joined across a gap
    gap_mark: str = "[…]"  # stands where text between two parts is left out; empty: nothing does

    def __post_init__(self) -> None:
        _at_least("merger.max_merged_size", self.max_merged_size, 1)


@dataclass(frozen=True, slots=True)
class FormatterConfig:
    """How an entry is written. Thresholds are characters of its text."""

    small_chunk_threshold: int = 200  # below: all headings
    medium_chunk_threshold: int = 800  # below: the last two; from here on: none
    include_scores: bool = False
    include_source: bool = True
    group_by_source: bool = False

    def __post_init__(self) -> None:
        _at_least("formatter.small_chunk_threshold", self.small_chunk_threshold, 0)
        _at_least("formatter.medium_chunk_threshold", self.medium_chunk_threshold, self.small_chunk_threshold)


RENDERED = ("numbered", "knowledge_base", "related_posts", "threads", "json")


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How hits become a prompt."""

    tokens: int = 2000
    k: int = 10
    render: Literal["numbered", "knowledge_base", "related_posts", "threads", "json"] = "numbered"
    wrap: Literal["none", "xml", "markdown", "prose"] = "none"
    tag: str = "knowledge_base"  # what the wrapper is called
    order: Literal["score", "reading"] = "score"  # best first; or documents by their best, each from its beginning
    grow: Literal["none", "threads", "neighbours", "section"] = "threads"  # what hits bring along
    neighbour_worth: float = 0.8  # of its hit's score: a neighbour comes before hits that score less
    section_share: float = 0.5  # of a section that must be found before the rest of it may come too
    cut: bool = False  # whether what does not fit whole may end at the end of a sentence
    tokenizer: str = ""  # a tokenizers JSON file of the model that reads the prompt; empty: a token is four characters

    def __post_init__(self) -> None:
        _at_least("context.tokens", self.tokens, 1)
        _at_least("context.k", self.k, 1)
        _one_of("context.render", self.render, RENDERED)
        _one_of("context.wrap", self.wrap, ("none", "xml", "markdown", "prose"))
        if not re.fullmatch(r"[^\W\d][\w.-]*", self.tag):
            raise SettingsError(f"context.tag is {self.tag!r}; it must be a plain name, as in an XML tag")
        _one_of("context.order", self.order, ("score", "reading"))
        _one_of("context.grow", self.grow, ("none", "threads", "neighbours", "section"))
        _between("context.neighbour_worth", self.neighbour_worth, 0, 1)
        _between("context.section_share", self.section_share, 0, 1)


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How a question is answered."""

    min_confidence: float = 0.5  # the least chance, by the reranker, that what was found answers; without a model
    sentences: int = 3  # of an answer without a model
    max_tokens: int = 600  # of an answer with one

    def __post_init__(self) -> None:
        _between("answer.min_confidence", self.min_confidence, 0, 1)
        _at_least("answer.sentences", self.sentences, 1)
        _at_least("answer.max_tokens", self.max_tokens, 1)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How long the documents of a conversation keep their numbers, and how many are kept."""

    most: int = 1000  # conversations at once; the least used are forgotten first
    documents: int = 1000  # numbers in one
    idle: float = 86_400.0  # seconds after which an unused one is forgotten

    def __post_init__(self) -> None:
        _at_least("session.most", self.most, 1)
        _at_least("session.documents", self.documents, 1)
        _at_least("session.idle", self.idle, 1)


@dataclass(frozen=True, slots=True)
class ThreadConfig:
    """How the messages of a channel become threads, and what is embedded of each."""

    untangle: bool = True  # whether messages that say not what they answer are joined to conversations
    gap_hours: float = 12.0  # the longest silence that a link which nobody wrote reaches over
    before: int = 2  # earlier messages that are embedded with one
    before_chars: int = 300  # of each of them

    def __post_init__(self) -> None:
        _at_least("threads.gap_hours", self.gap_hours, 0)
        _at_least("threads.before", self.before, 0)
        _at_least("threads.before_chars", self.before_chars, 1)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the embedded index changes its shape, in chunks."""

    exact_below: int = 10_000  # up to here every search is exact and in memory
    exact_limit: int = 200_000  # the most that is searched in memory while another process holds the index

    def __post_init__(self) -> None:
        _at_least("store.exact_below", self.exact_below, 0)
        _at_least("store.exact_limit", self.exact_limit, 1)


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """Which model makes the vectors, by its exact name, and where an HTTP one answers."""

    name: str = ""  # empty: the collection's own, bge-small for a new one
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # a file that keeps vectors by model and text
    price: float = 0.0  # of a million tokens

    def __post_init__(self) -> None:
        _at_least("embedder.price", self.price, 0)


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """Which language model helps, if any: what can use one works without, too. Prices are of a million tokens."""

    name: str = ""
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # a file that keeps answers by model and prompt
    timeout: float = 60.0  # seconds for an answer, or for the next piece of one
    retries: int = 3  # more tries at a provider that is full, failing, slow or out of reach
    max_concurrent: int = 8  # requests at once, whoever makes them
    window: int = 24_000  # characters of a document that it may be shown at once
    prices: tuple[str, ...] = ()  # the price table: "openai:gpt-4o-mini 0.15 0.60" is model, input, output
    input_price: float = 0.0  # with the next one, over the table
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise SettingsError(f"llm.timeout is {self.timeout}; it must be more than 0 seconds")
        _at_least("llm.retries", self.retries, 0)
        _at_least("llm.max_concurrent", self.max_concurrent, 1)
        for line in self.prices:
            if not re.fullmatch(r"\s*\S+(\s+\d+(\.\d*)?){2}\s*", line):
                raise SettingsError(
                    f"llm.prices has the line {line!r}; it must be a model and what a million tokens cost that it "
                    'reads and writes, such as "openai:gpt-4o-mini 0.15 0.60"'
                )
        _at_least("llm.window", self.window, 1000)
        _at_least("llm.input_price", self.input_price, 0)
        _at_least("llm.output_price", self.output_price, 0)


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """Which model reads question and text together, by its exact name, and where an HTTP one answers; empty: none."""

    name: str = "ms-marco-minilm"
    url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set."""

    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    ingestion: IngestionConfig = field(default_factory=IngestionConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    conversation: ConversationConfig = field(default_factory=ConversationConfig)
    merger: MergerConfig = field(default_factory=MergerConfig)
    formatter: FormatterConfig = field(default_factory=FormatterConfig)
    context: ContextConfig = field(default_factory=ContextConfig)
    answer: AnswerConfig = field(default_factory=AnswerConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    session: SessionConfig = field(default_factory=SessionConfig)
    threads: ThreadConfig = field(default_factory=ThreadConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    store: StoreConfig = field(default_factory=StoreConfig)


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise SettingsError(f"{name} is {value}; it must be at least {least}")


def _between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise SettingsError(f"{name} is {value}; it must be between {least} and {most}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it may be {', '.join(allowed)}")


DEFAULTS = Settings()
