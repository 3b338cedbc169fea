"""How a question is answered, and how far an agent may go."""

from dataclasses import dataclass

from clew.core.settings.checks import at_least, between


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How a question is answered."""

    min_confidence: float = 0.5  # the least chance that the collection holds an answer; without a model
    sentences: int = 3  # of an answer without a model
    max_tokens: int = 600  # of an answer with one

    def __post_init__(self) -> None:
        between("answer.min_confidence", self.min_confidence, 0, 1)
        at_least("answer.sentences", self.sentences, 1)
        at_least("answer.max_tokens", self.max_tokens, 1)


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The limits of one question. Tokens and money are of all calls to the language model, those of the tools too."""

    max_calls: int = 10  # of its tools; then it must answer with what it has
    max_tokens: int = 100_000  # read and written
    max_cost: float | None = None  # by the prices of the language model; None: no limit
    guided: bool | None = None  # first the tools that the question calls for; None: with models in this process

    def __post_init__(self) -> None:
        at_least("agent.max_calls", self.max_calls, 1)
        at_least("agent.max_tokens", self.max_tokens, 1)
        if self.max_cost is not None:
            at_least("agent.max_cost", self.max_cost, 0)
