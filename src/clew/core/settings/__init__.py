"""The settings: one frozen tree of dataclasses with a default for everything, validated on construction.

Pass it to `Engine.open(settings=…)`, or to any single call. Only the surfaces read files and the environment.
"""

import re
from dataclasses import dataclass, field, fields
from typing import Literal, cast

from clew.core.errors import SettingsError
from clew.core.languages import LANGUAGES
from clew.core.settings.types import check_choice, check_min, check_range, check_table
from clew.core.time import parse_iso_or_none

Device = Literal["auto", "cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """The embedding model by its exact name, and the address and key of an HTTP one."""

    name: str = ""  # empty: that of the collection, bge-small for a new one
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # path of a file that caches vectors
    price: float = 0.0  # per million tokens
    device: Device = "auto"  # of a local model. auto: a GPU if there is one; gpu: a GPU, or an error

    def __post_init__(self) -> None:
        check_table("embedder", self, {0: "price"})


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """The reranking model by its exact name (empty: none), and the address and key of an HTTP one."""

    name: str = "ms-marco-minilm"
    url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """The language model, if any: everything also works without one. Prices are per million tokens."""

    name: str = ""
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # path of a file that caches answers
    timeout: float = 60.0  # seconds for an answer, or for the next piece of a stream
    retries: int = 3  # while the provider is overloaded, failing, slow or unreachable
    max_concurrent: int = 8  # simultaneous requests of the whole process
    window: int = 24_000  # characters of a document in one prompt
    prices: tuple[str, ...] = ()  # the price table: "openai:gpt-4o-mini 0.15 0.60" is model, input, output

    def __post_init__(self) -> None:
        check_table("llm", self, {0: "retries", 1: "max_concurrent", 1000: "window"})
        if not self.timeout > 0:
            raise SettingsError(f"llm.timeout is {self.timeout}; it must be more than 0 seconds")
        for line in self.prices:
            if not re.fullmatch(r"\s*\S+(\s+\d+(\.\d*)?){2}\s*", line):
                raise SettingsError(
                    f"llm.prices has the line {line!r}; it must be a model and its prices per million input and output "
                    'tokens, such as "openai:gpt-4o-mini 0.15 0.60"'
                )


Precision = Literal["float32", "half"]


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Storage of vectors, the size at which an index starts, access labels, and the version to read."""

    vectors: Precision = "float32"  # of a new collection: four bytes a number, or two ("half")
    exact_below: int = 10_000  # below this every search is exact and in memory

    access: tuple[str, ...] | None = None  # the reader's labels: only what they admit is visible; None: everything
    pooler: str = field(default="", repr=False)  # address of a transaction pooler for the PostgreSQL server
    as_of: str = ""  # read the version of this time (ISO 8601), for a collection in Lance; empty: the last one
    keep_versions: float = 30.0  # days to keep versions of a collection in Lance, for `as_of`

    def __post_init__(self) -> None:
        check_table("store", self, {0: "keep_versions exact_below"})
        if isinstance(self.access, str):  # its letters would become the labels
            raise SettingsError(f"store.access is the text {self.access!r}; give a list of labels")
        if self.access is not None:
            object.__setattr__(self, "access", tuple(sorted(set(self.access))))
        if self.as_of and parse_iso_or_none(self.as_of) is None:
            raise SettingsError(
                f"store.as_of is {self.as_of!r}; it must be a date or a time such as 2025-05-31 or 2025-05-31T14:00"
            )


@dataclass(frozen=True, slots=True)
class JobConfig:
    """When, and by which machines, a job is taken over from a dead worker."""

    lease: float = 60.0  # seconds without a sign of life after which another worker may take the job
    any_host: bool = False  # whether any machine may take a job, since all share the files that it reads

    def __post_init__(self) -> None:
        check_table("jobs", self, {0.1: "lease"})


Summaries = Literal["none", "extractive", "llm"]


@dataclass(frozen=True, slots=True)
class IngestionConfig:
    """How sources are read, chunked and enriched. Sizes are tokens of the embedder."""

    chunk_size: int = 256
    chunk_overlap: int = 48
    use_semantic_chunking: bool = True  # False: whole paragraphs, headings are no boundaries
    quality_filter: bool = False  # merge small chunks of pages and drop those with hardly any text; never messages
    sections: bool = False  # add each chapter of a file or web page as a document of its own
    use_contextual_enrichment: bool = False  # put a sentence before each chunk that places it in its document
    summaries: Summaries = "none"  # of pages, with a vector of their own: the page's own sentences, or the model's
    language: str = "auto"  # of the text analyser
    max_concurrent: int = 5  # simultaneous calls to the language model
    max_file_bytes: int = 100_000_000
    include: tuple[str, ...] = ()  # only files that match one of these patterns (as in .gitignore); empty: all
    exclude: tuple[str, ...] = ()  # no files and folders that match one of these patterns
    ignore: bool = True  # whether .gitignore, .clewignore and the default rules pass files over
    max_read_seconds: float = 25.0  # for a file, or for a page of one that has pages
    max_read_memory: int = 1_200_000_000  # bytes for the process that reads a file
    max_pages: int = 10_000
    allow_private: bool = False  # whether web pages may be fetched from private addresses

    def __post_init__(self) -> None:
        check_table(
            "ingestion",
            self,
            {
                8: "chunk_size",
                1: "max_concurrent max_file_bytes max_pages",
                (0.1, 86_400): "max_read_seconds",
                100_000_000: "max_read_memory",
            },
        )
        check_range("ingestion.chunk_overlap", self.chunk_overlap, 0, self.chunk_size - 1)
        check_choice("ingestion.language", self.language, ("auto", *sorted(LANGUAGES)))


@dataclass(frozen=True, slots=True)
class ThreadConfig:
    """How the messages of a channel are grouped into threads, and the context indexed with each."""

    untangle: bool = True  # whether messages without a reply mark are assigned to threads
    before: int = 2  # earlier messages whose words are indexed with a message

    def __post_init__(self) -> None:
        check_table("threads", self, {0: "before"})


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How chunks are found. A minimum applies to every hit, whichever ranking found it."""

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
    document_strategy: str = "semantic"  # whose chunks document_boost weighs by their documents
    document_weight: float = 0.3  # weight of the document's similarity in document_boost
    document_min_similarity: float | None = None  # of a summary that counts; None: any counts
    candidates: int = 20  # minimum number of hits that are re-ranked
    variations: int = 3  # queries that multi_query adds to the question
    rounds: int = 2  # maximum number of searches of self_reflective
    cache: int = 256  # size of the LRU cache of results, valid until the collection changes; 0: none

    @property
    def has_floor(self) -> bool:
        """Whether hits below a minimum similarity or relevance are left out."""
        return self.min_similarity is not None or self.min_relevance > 0

    def __post_init__(self) -> None:
        check_table(
            "search",
            self,
            {
                1: "k depth nprobe overfetch candidates rounds",
                (-1, 1): "min_similarity document_min_similarity",
                (0, 1): "min_relevance semantic_weight document_weight",
                0: "variations cache",
            },
        )
        if self.document_strategy in ("auto", "chunked", "document_boost"):
            raise SettingsError(
                f"search.document_strategy is {self.document_strategy!r}; name a strategy that finds chunks, as hybrid"
            )


@dataclass(frozen=True, slots=True)
class QueryTransformerConfig:
    """Queries written by the language model for `multi_query`, in place of variations of the question."""

    enabled: bool = False
    num_queries: int = 3  # searched beside the question
    domain_context: str = ""  # subject of the documents, told to the model
    suppress_thinking: bool = False  # ask for no reasoning, and drop what is in <think> tags

    def __post_init__(self) -> None:
        check_table("query_transformer", self, {1: "num_queries"})


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Expansion of an elliptic question by keywords of the conversation before it.

    Three keywords, with answers counted too, mislead less often than five (measured on MTRAG).
    """

    max_context_turns: int = 3  # turns to read; 0: no expansion
    include_assistant: bool = True  # whether the answers count, not only the questions
    keyword_weight: float = 2.0  # factor by which a word counts more than one a turn earlier; 1: all turns alike
    max_keywords: int = 3

    def __post_init__(self) -> None:
        check_table("history", self, {0: "max_context_turns", 1: "keyword_weight max_keywords"})


@dataclass(frozen=True, slots=True)
class ConversationConfig:
    """How a whole conversation becomes search queries. Sizes are tokens of the embedder."""

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
        check_table(
            "conversation",
            self,
            {
                0: "single_below",
                8: "max_tokens",
                1: "chunks_per_query dedup_max_per_doc",
                (-1, 1): "dedup_threshold",
                (0, 1): "mmr",
            },
        )
        check_range("conversation.overlap_tokens", self.overlap_tokens, 0, self.max_tokens - 1)
        if self.strategy in ("auto", "chunked"):
            raise SettingsError(
                f"conversation.strategy is {self.strategy!r}; name the strategy of each part, such as hybrid"
            )


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """How messages are ranked among pages, and how much they gain from neighbouring messages in their thread."""

    semantic_weight: float = 0.4  # of messages; the rest is the lexical weight
    reach: int = 5  # messages to either side, their shares falling linearly; 0: no smoothing

    def __post_init__(self) -> None:
        check_table("flow", self, {(0, 1): "semantic_weight", 0: "reach"})


@dataclass(frozen=True, slots=True)
class ScoringConfig:
    """Weights of a message's score besides its relevance. A boost of 1 has no effect.

    `min_similarity` is a cosine, so that age never hides a message; None: no minimum.
    """

    base: Literal["relevance", "similarity"] = "relevance"  # before boosts: by its own signals, or the cosine
    scoring: Literal["product", "weighted_sum"] = "product"
    time_decay: float = 0.2  # λ of exp(−λ·hours)
    time_floor: float = 0.5  # minimum of the time factor; 0: nothing is left after a day or two
    channel_boost: float = 1.2
    thread_boost: float = 1.5
    flow_boost: float = 1.0  # where other hits are near in the same thread
    completeness_boost: float = 1.0  # where all the messages it answers were found too
    score_equality: float = 0.01  # scores closer than this tie, and the newer message comes first
    semantic_weight: float = 0.8  # weights of the weighted sum, each of a part from 0 to 1
    time_weight: float = 0.1
    channel_weight: float = 0.05
    thread_weight: float = 0.05
    flow_weight: float = 0.0
    completeness_weight: float = 0.0
    min_similarity: float | None = None
    tokens: int = 4000  # of a window
    authors: bool = True  # whether the text of a window names the author and time of each message

    def __post_init__(self) -> None:
        check_table(
            "scoring",
            self,
            {
                0: "time_decay channel_boost thread_boost flow_boost completeness_boost score_equality semantic_weight "
                "time_weight channel_weight thread_weight flow_weight completeness_weight",
                1: "tokens",
                (0, 1): "time_floor",
                (-1, 1): "min_similarity",
            },
        )


RENDERERS = ("numbered", "knowledge_base", "related_posts", "threads", "json")


@dataclass(frozen=True, slots=True)
class MergerConfig:
    """How hits of one source and heading path are merged into a passage. Sizes are characters."""

    max_merged_size: int = 2000  # separators and gap marks included; a single chunk is never cut
    preserve_order: bool = True  # False: best chunk first within a passage
    require_adjacent: bool = False  # True: never merge across a gap
    gap_mark: str = "[…]"  # marks omitted text between two parts; empty: no mark

    def __post_init__(self) -> None:
        check_table("merger", self, {1: "max_merged_size"})


@dataclass(frozen=True, slots=True)
class FormatterConfig:
    """How a passage is formatted. Thresholds are characters of its text."""

    small_chunk_threshold: int = 200  # below: all headings
    medium_chunk_threshold: int = 800  # below: the last two; from here on: none
    include_scores: bool = False
    include_source: bool = True
    group_by_source: bool = False

    def __post_init__(self) -> None:
        check_table("formatter", self, {0: "small_chunk_threshold"})
        check_min("formatter.medium_chunk_threshold", self.medium_chunk_threshold, self.small_chunk_threshold)


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How hits become prompt text within a token budget, and the minimum relevance to show them."""

    tokens: int = 2000
    k: int = 10
    min_relevance: float = 0.01  # of a hit that is shown: the chance that it answers
    min_chance: float = 0.58  # that any hit answers, whatever the others; below it nothing is shown
    render: Literal["numbered", "knowledge_base", "related_posts", "threads", "json"] = "numbered"
    wrap: Literal["none", "xml", "markdown", "prose"] = "none"
    tag: str = "knowledge_base"  # name of the wrapping element
    order: Literal["score", "reading"] = "score"  # best first; or documents by their best hit, each in reading order
    grow: Literal["none", "threads", "neighbours", "section"] = "threads"  # how hits are expanded
    cut: bool = False  # whether a passage that does not fit may be cut after a sentence
    tokenizer: str = ""  # tokenizer.json of the model that reads the prompt; empty: four characters per token

    def __post_init__(self) -> None:
        check_table("context", self, {1: "tokens k", (0, 1): "min_relevance min_chance"})
        if not re.fullmatch(r"[^\W\d][\w.-]*", self.tag):
            raise SettingsError(f"context.tag is {self.tag!r}; it must be a plain name, as in an XML tag")


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How many sessions are kept, and for how long; a session numbers the documents cited in a conversation."""

    max_sessions: int = 1000  # the least recently used are dropped first, named chats never
    idle: float = 86_400.0  # seconds after which an unused session is dropped; named chats are kept

    def __post_init__(self) -> None:
        check_table("session", self, {1: "max_sessions idle"})


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How a question is answered from the search results."""

    min_confidence: float = 0.4  # minimum confidence that the collection holds an answer; without a model
    min_nearest: float = 0.05  # minimum confidence at which the closest passages are shown where there is no answer
    passages: int = 3  # maximum that an answer without a model quotes
    max_tokens: int = 600  # of an answer with a model
    unsupported: Literal["mark", "remove", "raise"] = "mark"  # what to do with sentences that no passage supports
    verifier: str = "builtin"  # checks whether a passage supports a sentence
    reader: str = "builtin"  # finds the part of a passage that answers; without a model

    def __post_init__(self) -> None:
        check_table("answer", self, {(0, 1): "min_confidence min_nearest", 1: "passages max_tokens"})
        if not self.verifier:
            raise SettingsError("answer.verifier is empty; give rules or builtin")
        if not self.reader:
            raise SettingsError("answer.reader is empty; give reranker or builtin")


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The limits of an agent per question. Tokens and cost include calls to the language model by tools."""

    max_calls: int = 10  # of tools; afterwards it must answer with its findings so far
    max_tokens: int = 100_000  # input and output
    max_cost: float | None = None  # by the prices of the language model; None: no limit

    def __post_init__(self) -> None:
        check_table("agent", self, {1: "max_calls max_tokens", 0: "max_cost"})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`clew serve`: its address, its allowed host names and origins, and the limits of requests."""

    host: str = "127.0.0.1"  # any but a loopback address needs keys
    port: int = 8080  # 0: any that is free
    folder: str = ""  # of uploads; empty: .server beside the collections, else one of the user's
    hosts: tuple[str, ...] = ()  # further names by which it may be addressed
    origins: tuple[str, ...] = ()  # of web pages elsewhere that may call it
    read_only: bool = False  # nothing is added or removed, whatever the key
    max_body: int = 64 * 1024 * 1024  # bytes of an upload
    timeout: float = 60.0  # seconds for an answer, and for the next event of a stream
    rate: float = 100.0  # requests a second from one key or address; 0: no limit
    max_concurrent: int = 8  # searches at a time; the others wait in order
    max_answers: int = 8  # answers at a time: asks, chats and agents; and as many uploads

    def __post_init__(self) -> None:
        check_table(
            "server",
            self,
            {
                (0, 65535): "port",
                1024: "max_body",
                0.1: "timeout",
                0: "rate",
                1: "max_concurrent max_answers",
            },
        )
        if not self.host:
            raise SettingsError("server.host is empty; it must be an address, such as 127.0.0.1")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, one field per table of clew.toml."""

    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    ingestion: IngestionConfig = field(default_factory=IngestionConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    query_transformer: QueryTransformerConfig = field(default_factory=QueryTransformerConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
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
    jobs: JobConfig = field(default_factory=JobConfig)
    server: ServerConfig = field(default_factory=ServerConfig)

    def __post_init__(self) -> None:
        for table in fields(self):
            value, kind = getattr(self, table.name), cast("type", table.default_factory)
            if not isinstance(value, kind):
                raise SettingsError(f"{table.name} has the type {type(value).__name__}; give a clew.{kind.__name__}(…)")


DEFAULTS = Settings()
