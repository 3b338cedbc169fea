"""Whatever touches a model, a disk or a network. Here stands the table from names to embedders.

A name is exact ("bge-small") or begins with a prefix that ends in a colon ("openai:text-embedding-3-small"). A driver
is imported when it is asked for, so that nothing heavy is loaded for a name that is not used.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from clew.core.errors import NotFound
from clew.core.protocols import LLM, Embedder
from clew.core.settings import EmbedderConfig, LLMConfig

EMBEDDERS: Final[Mapping[str, str]] = MappingProxyType(  # to "module:function", which is given the EmbedderConfig
    {
        "bge-small": "clew.drivers.embed.onnx:bge_small",
        "hashed": "clew.drivers.embed.hashed:configured",
        "hashed:": "clew.drivers.embed.hashed:configured",
        "onnx:": "clew.drivers.embed.onnx:in_folder",
        "openai:": "clew.drivers.embed.http:configured",
        "wordllama": "clew.drivers.embed.static:configured",
    }
)


def embedder(config: EmbedderConfig) -> Embedder:
    """The embedder of that name, around which a cache stands if one is set; NotFound lists the names there are."""
    prefix, colon, _ = config.name.partition(":")
    place = EMBEDDERS.get(prefix + colon)
    if place is None:
        raise NotFound(_unknown(config.name))
    module, _, attribute = place.partition(":")
    made = cast(Embedder, getattr(import_module(module), attribute)(config))
    if config.cache:
        from clew.drivers.embed.cached import CachedEmbedder

        return CachedEmbedder(made, config.cache)
    return made


def language_model(config: LLMConfig) -> LLM | None:
    """The language model of that name, around which a cache stands if one is set; None where none is named."""
    if not config.name:
        return None
    from clew.drivers.llm.model import ModelLLM

    made = ModelLLM(config.name, url=config.url, api_key=config.api_key)
    if config.cache:
        from clew.drivers.llm.cached import CachedLLM

        return CachedLLM(made, config.cache)
    return made


def _unknown(name: str) -> str:
    shown = {key: f"{key}…" if key.endswith(":") else key for key in EMBEDDERS}
    near = get_close_matches(name.casefold(), EMBEDDERS, n=1)
    guess = f"; did you mean {shown[near[0]]}?" if near else "."
    return f"there is no embedder {name!r}{guess} There are: {', '.join(shown.values())}"
