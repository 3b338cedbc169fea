"""Third on the write path: a Document becomes the Chunks that are embedded and found."""

from clew.core.protocols import Chunker
from clew.core.settings import IngestionConfig
from clew.index.chunk.atoms import Count
from clew.index.chunk.structure import structure
from clew.index.chunk.windows import windows


def chunker(config: IngestionConfig, count: Count) -> Chunker:
    """The chunker that the settings ask for; sizes are tokens by `count`."""
    make = structure if config.use_semantic_chunking else windows
    return make(size=config.chunk_size, overlap=config.chunk_overlap, count=count)
