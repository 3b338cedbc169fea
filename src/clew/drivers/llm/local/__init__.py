"""Language models that run in this process, by `local:NAME` or `local:FILE.gguf`: no key, no network, one thread."""

from functools import partial
from typing import TYPE_CHECKING

from clew.core.protocols import LLM
from clew.core.settings import LLMConfig
from clew.drivers.llm.local.weights import find_weights
from clew.drivers.llm.model import ModelLLM

if TYPE_CHECKING:
    from pydantic_ai.models import Model

NO_TIMEOUT = 1e9  # seconds; a local model only waits for its own work


def make_local_llm(config: LLMConfig) -> LLM:
    """The model of that name; its weights are located now, and loaded at the first call."""
    from clew.drivers.llm.local.runtime import load_runtime

    path = find_weights(config.name.partition(":")[2])

    def build() -> "Model":
        from clew.drivers.llm.local.transport import make_pydantic_model

        return make_pydantic_model(config.name, partial(load_runtime, path))

    return ModelLLM.from_builder(
        build,
        config.name,
        timeout=NO_TIMEOUT,
        retries=0,
        max_concurrent=1,  # one context serves one call at a time
        count=lambda text: load_runtime(path).count(text),
    )
