"""Settings of the models: embedder, reranker and language model."""

import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_min

Device = Literal["auto", "cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """The embedding model by its exact name, and the address and key of an HTTP one."""

    name: str = ""  # empty: that of the collection, bge-small for a new one
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # path of a file that caches vectors
    price: float = 0.0  # per million tokens
    device: Device = "auto"  # of a model that runs here: a GPU where there is one, the CPU, or a GPU or an error

    def __post_init__(self) -> None:
        check_min("embedder.price", self.price, 0)
        if self.device not in get_args(Device):
            raise SettingsError(f"embedder.device is {self.device!r}; it must be auto, cpu or gpu")


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
    retries: int = 3  # of a provider that is overloaded, failing, slow or unreachable
    max_concurrent: int = 8  # simultaneous requests of the whole process
    window: int = 24_000  # characters of a document in one prompt
    prices: tuple[str, ...] = ()  # the price table: "openai:gpt-4o-mini 0.15 0.60" is model, input, output
    input_price: float = 0.0  # with output_price, instead of the table
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise SettingsError(f"llm.timeout is {self.timeout}; it must be more than 0 seconds")
        check_min("llm.retries", self.retries, 0)
        check_min("llm.max_concurrent", self.max_concurrent, 1)
        for line in self.prices:
            if not re.fullmatch(r"\s*\S+(\s+\d+(\.\d*)?){2}\s*", line):
                raise SettingsError(
                    f"llm.prices has the line {line!r}; it must be a model and its prices per million input and output "
                    'tokens, such as "openai:gpt-4o-mini 0.15 0.60"'
                )
        check_min("llm.window", self.window, 1000)
        check_min("llm.input_price", self.input_price, 0)
        check_min("llm.output_price", self.output_price, 0)
