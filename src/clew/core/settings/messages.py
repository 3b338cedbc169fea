"""Settings of messages: how they are found and scored, and the size of a context window."""

from dataclasses import dataclass, fields
from typing import Literal

from clew.core.settings.checks import check_choice, check_min, check_range


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """How messages are ranked among pages, and how much they gain from the messages around them in their thread."""

    each_kind: bool = True  # also search each kind by itself, so that neither crowds out the other
    semantic_weight: float = 0.4  # of messages; the rest is the lexical weight
    after: float = 0.5  # share of the next message's score
    before: float = 0.3  # share of the previous one's, whose words are indexed with it already
    reach: int = 5  # messages to either side, their shares falling linearly; 0: no smoothing

    def __post_init__(self) -> None:
        for name in ("semantic_weight", "after", "before"):
            check_range(f"flow.{name}", getattr(self, name), 0, 1)
        check_min("flow.reach", self.reach, 0)


@dataclass(frozen=True, slots=True)
class ScoringConfig:
    """Weights of a message's score besides its relevance. A boost of 1 has no effect.

    `min_similarity` is a cosine, so that age never hides a message; None: no minimum.
    """

    base: Literal["relevance", "similarity"] = "relevance"  # before boosts: by its own signals, or the cosine
    scoring: Literal["product", "weighted_sum"] = "product"
    time_decay: float = 0.2  # λ of exp(−λ·hours)
    time_floor: float = 0.5  # minimum of the time factor; 0: nothing is left after a day or two
    channel_boost: float = 1.2
    thread_boost: float = 1.5
    flow_boost: float = 1.0  # where other hits are near in the same thread
    completeness_boost: float = 1.0  # where all the messages it answers were found too
    score_equality: float = 0.01  # scores closer than this tie, and the newer message comes first
    semantic_weight: float = 0.8  # weights of the weighted sum, each of a part from 0 to 1
    time_weight: float = 0.1
    channel_weight: float = 0.05
    thread_weight: float = 0.05
    flow_weight: float = 0.0
    completeness_weight: float = 0.0
    min_similarity: float | None = None
    tokens: int = 4000  # of a window
    related_channels: int = 3  # maximum number besides the requested channel
    chain_share: float = 0.05  # of the budget, for chains of replies that are guessed, not marked
    authors: bool = True  # whether the text of a window names the author and time of each message
    style_messages: int = 5  # minimum number for a style profile
    style_threads: int = 2  # past threads shown in a style prompt
    style_tokens: int = 1000  # of a style prompt

    def __post_init__(self) -> None:
        check_choice("scoring.base", self.base, ("relevance", "similarity"))
        check_choice("scoring.scoring", self.scoring, ("product", "weighted_sum"))
        for field in fields(self):
            value = getattr(self, field.name)
            minimum = 1 if field.name in ("tokens", "style_messages", "style_tokens") else 0
            if field.name != "min_similarity" and isinstance(value, int | float):
                check_min(f"scoring.{field.name}", value, minimum)
        for name in ("time_floor", "chain_share"):
            check_range(f"scoring.{name}", getattr(self, name), 0, 1)
        if self.min_similarity is not None:
            check_range("scoring.min_similarity", self.min_similarity, -1, 1)
