"""Chunkers, the third step of the write path: a Document becomes the Chunks that are embedded and searched."""

from collections.abc import Callable
from functools import partial

from clew.core.protocols import Chunker
from clew.core.settings import ConversationConfig, IngestionConfig, ThreadConfig
from clew.core.thread import is_thread
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import TokenCounter
from clew.index.chunk.build import make_validating_chunker
from clew.index.chunk.messages import make_message_chunker
from clew.index.chunk.pages import chunk_markdown, make_paragraph_chunker, make_structure_chunker, merge_and_drop_chunks


def make_chunker(
    config: IngestionConfig,
    count: TokenCounter,
    threads: ThreadConfig | None = None,
    *,
    page_chunker: Chunker | None = None,
) -> Chunker:
    """Make the chunker of the settings, for pages and threads; `count` counts the tokens of its sizes.

    `page_chunker` replaces the built-in chunker of pages. The quality filter applies only to pages: a message is a
    chunk however short it is.
    """
    size, overlap = config.chunk_size, config.chunk_overlap
    built_in = (
        make_structure_chunker(size=size, overlap=overlap, count=count)
        if config.use_semantic_chunking
        else make_paragraph_chunker(max_tokens=size, overlap_tokens=overlap, count=count)
    )
    chunk_page = make_validating_chunker(page_chunker) if page_chunker else built_in
    chunk_thread = make_message_chunker(config, threads or ThreadConfig(), count)

    def chunk(document: Document) -> list[Chunk]:
        if is_thread(document):
            return chunk_thread(document)
        chunks = chunk_page(document)
        if config.quality_filter:
            return merge_and_drop_chunks(document, chunks, max_size=config.chunk_size, count=count)
        return chunks

    return chunk


def make_query_splitter(config: ConversationConfig, *, count: TokenCounter) -> Callable[[str], list[str]]:
    """Make a function that splits a conversation used as a query into texts of at most `config.max_tokens`."""
    return partial(chunk_markdown, max_tokens=config.max_tokens, overlap_tokens=config.overlap_tokens, count=count)
