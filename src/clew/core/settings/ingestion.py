"""Settings of ingestion: how sources become chunks, and messages threads."""

from dataclasses import dataclass
from typing import Literal, get_args

from clew.core.languages import LANGUAGES
from clew.core.settings.checks import check_choice, check_min, check_range

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
    max_read_memory: int = 1_200_000_000  # bytes, of the process in which a file is read
    max_pages: int = 10_000
    allow_private: bool = False  # whether web pages may be fetched from private addresses

    def __post_init__(self) -> None:
        check_min("ingestion.chunk_size", self.chunk_size, 8)
        check_range("ingestion.chunk_overlap", self.chunk_overlap, 0, self.chunk_size - 1)
        check_choice("ingestion.language", self.language, ("auto", *sorted(LANGUAGES)))
        check_choice("ingestion.summaries", self.summaries, get_args(Summaries))
        check_min("ingestion.max_concurrent", self.max_concurrent, 1)
        check_min("ingestion.max_file_bytes", self.max_file_bytes, 1)
        check_range("ingestion.max_read_seconds", self.max_read_seconds, 0.1, 86_400)
        check_min("ingestion.max_read_memory", self.max_read_memory, 100_000_000)
        check_min("ingestion.max_pages", self.max_pages, 1)


@dataclass(frozen=True, slots=True)
class ThreadConfig:
    """How the messages of a channel are grouped into threads, and what is indexed with each."""

    untangle: bool = True  # whether messages without a reply mark are assigned to threads
    gap_hours: float = 12.0  # the longest silence that a guessed reply may bridge
    before: int = 2  # earlier messages whose words are indexed with a message
    before_chars: int = 300  # of each of those

    def __post_init__(self) -> None:
        check_min("threads.gap_hours", self.gap_hours, 0)
        check_min("threads.before", self.before, 0)
        check_min("threads.before_chars", self.before_chars, 1)
