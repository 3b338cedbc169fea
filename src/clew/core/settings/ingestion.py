"""How sources become chunks, and messages threads."""

from dataclasses import dataclass

from clew.core.settings.checks import at_least, between


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
        at_least("ingestion.chunk_size", self.chunk_size, 8)
        between("ingestion.chunk_overlap", self.chunk_overlap, 0, self.chunk_size - 1)
        at_least("ingestion.max_concurrent", self.max_concurrent, 1)
        at_least("ingestion.max_file_bytes", self.max_file_bytes, 1)


@dataclass(frozen=True, slots=True)
class ThreadConfig:
    """How the messages of a channel become threads, and what is embedded of each."""

    untangle: bool = True  # whether messages that say not what they answer are joined to conversations
    gap_hours: float = 12.0  # the longest silence that a link which nobody wrote reaches over
    before: int = 2  # earlier messages that are embedded with one
    before_chars: int = 300  # of each of them

    def __post_init__(self) -> None:
        at_least("threads.gap_hours", self.gap_hours, 0)
        at_least("threads.before", self.before, 0)
        at_least("threads.before_chars", self.before_chars, 1)
