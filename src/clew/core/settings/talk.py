"""How messages are found and scored, and how many make a window."""

from dataclasses import dataclass, fields
from typing import Literal

from clew.core.settings.checks import at_least, between, one_of


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
            between(f"flow.{name}", getattr(self, name), 0, 1)
        at_least("flow.reach", self.reach, 0)


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
    chain_share: float = 0.05  # of the budget, up to which a chain of replies comes that was guessed, not said
    authors: bool = False  # whether the text of a window says who wrote each message
    style_messages: int = 5  # the least that a profile is made from
    style_threads: int = 2  # past threads that a reply prompt shows

    def __post_init__(self) -> None:
        one_of("scoring.base", self.base, ("search", "similarity"))
        one_of("scoring.scoring", self.scoring, ("product", "weighted_sum"))
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.name in ("max_tokens", "style_messages") else 0
            if each.name != "min_score" and isinstance(value, int | float):
                at_least(f"scoring.{each.name}", value, least)
        for name in ("time_floor", "chain_share"):
            between(f"scoring.{name}", getattr(self, name), 0, 1)
        if self.min_score is not None:
            between("scoring.min_score", self.min_score, -1, 1)
