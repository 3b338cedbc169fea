"""Third on the write path: a Document becomes the Chunks that are embedded and found."""

from collections.abc import Callable
from functools import partial

from clew.core.protocols import Chunker
from clew.core.settings import ConversationConfig, IngestionConfig, ThreadConfig
from clew.core.thread import is_thread
from clew.core.types import Chunk, Document
from clew.index.chunk.atoms import Count
from clew.index.chunk.messages import messages
from clew.index.chunk.paragraphs import chunk_markdown
from clew.index.chunk.structure import structure
from clew.index.chunk.windows import windows


def chunker(config: IngestionConfig, count: Count, threads: ThreadConfig = ThreadConfig()) -> Chunker:  # noqa: B008
    """The chunker that the settings ask for, of pages and of threads; sizes are tokens by `count`."""
    make = structure if config.use_semantic_chunking else windows
    pages = make(size=config.chunk_size, overlap=config.chunk_overlap, count=count)
    talk = messages(config, threads, count)

    def chunk(document: Document) -> list[Chunk]:
        return talk(document) if is_thread(document) else pages(document)

    return chunk


def cutter(config: ConversationConfig, *, count: Count) -> Callable[[str], list[str]]:
    """The same chunker for texts that are asked: a conversation becomes parts of so many tokens."""
    return partial(chunk_markdown, max_tokens=config.max_tokens, overlap_tokens=config.overlap_tokens, count=count)
