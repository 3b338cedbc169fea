"""Language models that run in this process, by `local:NAME` or `local:FILE.gguf`: no key, no network, one thread."""

from functools import partial
from typing import TYPE_CHECKING

from clew.core.protocols import LLM
from clew.core.settings import LLMConfig
from clew.drivers.llm.local.weights import weights_of
from clew.drivers.llm.model import ModelLLM

if TYPE_CHECKING:
    from pydantic_ai.models import Model

NO_LIMIT = 1e9  # seconds: nothing but its own work can hold it up


def configured(config: LLMConfig) -> LLM:
    """The model of that name; its weights are found now, and loaded when it is first asked."""
    from clew.drivers.llm.local.runtime import runtime

    path = weights_of(config.name.partition(":")[2])

    def build() -> "Model":
        from clew.drivers.llm.local.transport import model

        return model(config.name, partial(runtime, path))

    return ModelLLM.built(
        build,
        config.name,
        timeout=NO_LIMIT,
        retries=0,
        max_concurrent=1,  # one context serves one call
        count=lambda text: runtime(path).count(text),
    )
