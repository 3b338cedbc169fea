"""How far an agent may go: one table of `core.settings`, kept where it can be read alone."""

from dataclasses import dataclass

from clew.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The limits of one question. Tokens and money are of all calls to the language model, those of the tools too."""

    max_calls: int = 10  # of its tools; then it must answer with what it has
    max_tokens: int = 100_000  # read and written
    max_cost: float | None = None  # by the prices of the language model; None: no limit

    def __post_init__(self) -> None:
        if self.max_calls < 1:
            raise SettingsError(f"agent.max_calls is {self.max_calls}; it must be at least 1")
        if self.max_tokens < 1:
            raise SettingsError(f"agent.max_tokens is {self.max_tokens}; it must be at least 1")
        if self.max_cost is not None and self.max_cost < 0:
            raise SettingsError(f"agent.max_cost is {self.max_cost}; it must be at least 0")
