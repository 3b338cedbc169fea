"""Which models help, and where they answer."""

import re
from dataclasses import dataclass, field

from clew.core.errors import SettingsError
from clew.core.settings.checks import at_least


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """Which model makes the vectors, by its exact name, and where an HTTP one answers."""

    name: str = ""  # empty: the collection's own, bge-small for a new one
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # a file that keeps vectors by model and text
    price: float = 0.0  # of a million tokens

    def __post_init__(self) -> None:
        at_least("embedder.price", self.price, 0)


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """Which model reads question and text together, by its exact name, and where an HTTP one answers; empty: none."""

    name: str = "ms-marco-minilm"
    url: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """Which language model helps, if any: what can use one works without, too. Prices are of a million tokens."""

    name: str = ""
    url: str = ""
    api_key: str = field(default="", repr=False)
    cache: str = ""  # a file that keeps answers by model and prompt
    timeout: float = 60.0  # seconds for an answer, or for the next piece of one
    retries: int = 3  # more tries at a provider that is full, failing, slow or out of reach
    max_concurrent: int = 8  # requests at once, whoever makes them
    window: int = 24_000  # characters of a document that it may be shown at once
    prices: tuple[str, ...] = ()  # the price table: "openai:gpt-4o-mini 0.15 0.60" is model, input, output
    input_price: float = 0.0  # with the next one, over the table
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise SettingsError(f"llm.timeout is {self.timeout}; it must be more than 0 seconds")
        at_least("llm.retries", self.retries, 0)
        at_least("llm.max_concurrent", self.max_concurrent, 1)
        for line in self.prices:
            if not re.fullmatch(r"\s*\S+(\s+\d+(\.\d*)?){2}\s*", line):
                raise SettingsError(
                    f"llm.prices has the line {line!r}; it must be a model and what a million tokens cost that it "
                    'reads and writes, such as "openai:gpt-4o-mini 0.15 0.60"'
                )
        at_least("llm.window", self.window, 1000)
        at_least("llm.input_price", self.input_price, 0)
        at_least("llm.output_price", self.output_price, 0)
