"""temporary"""
from clew.core.settings import EmbedderConfig
from clew.core.protocols import Embedder
def embedder(config: EmbedderConfig) -> Embedder:
    from clew.drivers.embed.hashed import Hashed
    return Hashed(int(config.name.partition(":")[2] or 256))
