"""Settings of answers, and the limits of an agent."""

from dataclasses import dataclass
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_choice, check_min, check_range


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How a question is answered from the search results."""

    min_confidence: float = 0.4  # minimum confidence that the collection holds an answer; without a model
    min_nearest: float = 0.15  # minimum confidence at which the nearest passage is shown where there is no answer
    passages: int = 3  # that an answer without a model quotes at most
    max_tokens: int = 600  # of an answer with a model
    unsupported: Literal["mark", "remove", "raise"] = "mark"  # what is done with sentences that no passage supports
    verifier: str = "builtin"  # what says whether a passage supports a sentence
    reader: str = "builtin"  # what says which part of a passage answers; without a model

    def __post_init__(self) -> None:
        check_range("answer.min_confidence", self.min_confidence, 0, 1)
        check_range("answer.min_nearest", self.min_nearest, 0, 1)
        check_min("answer.passages", self.passages, 1)
        check_min("answer.max_tokens", self.max_tokens, 1)
        check_choice("answer.unsupported", self.unsupported, ("mark", "remove", "raise"))
        if not self.verifier:
            raise SettingsError("answer.verifier is empty; give rules or builtin")
        if not self.reader:
            raise SettingsError("answer.reader is empty; give reranker or builtin")


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The limits of an agent per question. Tokens and cost include the calls to the language model that tools make."""

    max_calls: int = 10  # of tools; then it must answer with what it has
    max_tokens: int = 100_000  # input and output
    max_cost: float | None = None  # by the prices of the language model; None: no limit
    guided: bool | None = None  # run the tools that fit the question first; None: only for models in this process

    def __post_init__(self) -> None:
        check_min("agent.max_calls", self.max_calls, 1)
        check_min("agent.max_tokens", self.max_tokens, 1)
        if self.max_cost is not None:
            check_min("agent.max_cost", self.max_cost, 0)
