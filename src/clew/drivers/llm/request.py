"""What is asked of a language model, checked before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.errors import SettingsError
from clew.core.ids import digest


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt and how it is to be answered."""

    prompt: str
    system: str = ""
    max_tokens: int = 300
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise SettingsError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not self.temperature >= 0:  # written so that NaN fails too
            raise SettingsError(f"temperature is {self.temperature}; it must be at least 0")

    def key(self, model: str) -> str:
        """The name of this question's answer by this model: it changes when anything that is sent changes."""
        return digest("answer", model, self.system, self.prompt, str(self.max_tokens), str(float(self.temperature)))


def asks(prompts: Sequence[str], *, system: str, max_tokens: int, temperature: float) -> list[Ask]:
    """One Ask a prompt, in order."""
    return [Ask(prompt, system, max_tokens, temperature) for prompt in prompts]
