"""How messages are scored and how many make a window: one table of `core.settings`, kept where it can be read alone."""

from dataclasses import dataclass, fields
from typing import Literal

from clew.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ScoringConfig:
    """What a message is worth besides its similarity. A boost of 1 changes nothing.

    `min_score` is a cosine, so that age never hides a message; None leaves it to the embedder.
    """

    base: Literal["search", "similarity"] = "search"  # what is scored: the search's own score, or the cosine alone
    scoring: Literal["product", "weighted_sum"] = "product"
    time_decay: float = 0.2  # λ of exp(−λ·hours)
    time_floor: float = 0.5  # what age leaves at least; 0: nothing after a day or two
    channel_boost: float = 1.2
    thread_boost: float = 1.5
    flow_boost: float = 1.0  # where other hits are near in the same thread
    completeness_boost: float = 1.0  # where all that a message answers was found too
    score_equality: float = 0.01  # scores nearer than this are equal, and the newer message comes first
    semantic_weight: float = 0.8  # the weights of the sum, each of a part from 0 to 1
    time_weight: float = 0.1
    channel_weight: float = 0.05
    thread_weight: float = 0.05
    flow_weight: float = 0.0
    completeness_weight: float = 0.0
    min_score: float | None = None
    max_tokens: int = 4000  # of a window
    related_channels: int = 3  # the most besides the channel that was asked for
    chain_share: float = 0.05  # of the budget, up to which the chain of replies before a hit is never cut
    authors: bool = False  # whether the text of a window says who wrote each message
    style_messages: int = 5  # the least that a profile is made from
    style_threads: int = 2  # past threads that a reply prompt shows

    def __post_init__(self) -> None:
        _one_of("scoring.base", self.base, ("search", "similarity"))
        _one_of("scoring.scoring", self.scoring, ("product", "weighted_sum"))
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.name in ("max_tokens", "style_messages") else 0
            if each.name != "min_score" and isinstance(value, int | float) and not value >= least:
                raise SettingsError(f"scoring.{each.name} is {value}; it must be at least {least}")
        for name in ("time_floor", "chain_share"):
            if getattr(self, name) > 1:
                raise SettingsError(f"scoring.{name} is {getattr(self, name)}; it must be between 0 and 1")
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise SettingsError(f"scoring.min_score is {self.min_score}; it must be between -1 and 1")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it may be {', '.join(allowed)}")
