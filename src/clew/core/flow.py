"""How messages gain from those around them: one table of `core.settings`, kept where it can be read alone."""

from dataclasses import dataclass

from clew.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """How messages are found: beside pages, by meaning and words, and by what was said around them."""

    each_kind: bool = True  # whether pages and messages are also looked for apart, so that neither crowds out the other
    semantic_weight: float = 0.5  # of a message, whose few words say more than their vector; the rest is lexical
    after: float = 0.5  # the share of the next message's score
    before: float = 0.2  # of the one before, which is embedded with it already
    reach: int = 3  # messages to either side, their shares falling evenly; 0: none gains

    def __post_init__(self) -> None:
        for name in ("semantic_weight", "after", "before"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"flow.{name} is {getattr(self, name)}; it must be between 0 and 1")
        if self.reach < 0:
            raise SettingsError(f"flow.reach is {self.reach}; it must be at least 0")
