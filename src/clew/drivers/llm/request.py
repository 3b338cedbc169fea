"""The request to a language model, validated before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.errors import SettingsError
from clew.core.ids import digest


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One prompt with its options."""

    prompt: str
    system: str = ""
    max_tokens: int = 300
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise SettingsError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not self.temperature >= 0:  # written so that NaN fails too
            raise SettingsError(f"temperature is {self.temperature}; it must be at least 0")

    def cache_key(self, model: str) -> str:
        """The key of this request's answer in a cache: it changes with everything that is sent, and with the model."""
        return digest("answer", model, self.system, self.prompt, str(self.max_tokens), str(float(self.temperature)))


def make_requests(
    prompts: Sequence[str], *, system: str, max_tokens: int, temperature: float
) -> list[CompletionRequest]:
    """One request per prompt, in order."""
    return [CompletionRequest(prompt, system, max_tokens, temperature) for prompt in prompts]
