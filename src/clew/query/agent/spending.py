"""What an agent has used of what it may: calls of tools, tokens and money, counted for one question alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from clew.core.cost import CostBudget, Price
from clew.core.errors import ClewError
from clew.core.protocols import LLM, LLMFailure, Usage
from clew.core.settings import AgentConfig
from clew.core.tally import UsageMeter

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class LimitReached(ClewError):
    """A call that was not made because a limit of the agent would have been passed."""


class Spending:
    """Counts calls and refuses those beyond the limits. Tools may run at the same time."""

    def __init__(self, llm: LLM, config: AgentConfig, price: Price) -> None:
        self._llm = llm
        self._config = config
        self._purse = CostBudget({llm.name: price}, limit=config.max_cost)
        self._lock = Lock()
        self._total = UsageMeter()
        self._calls = 0

    @property
    def usage(self) -> Usage:
        """What the calls to the model took."""
        return self._total.usage

    @property
    def calls(self) -> int:
        """How many tools were called."""
        return self._calls

    @property
    def calls_left(self) -> int:
        """How many more may be."""
        return max(0, self._config.max_calls - self._calls)

    @property
    def cost(self) -> float:
        """What was spent."""
        return self._purse.spent

    def call(self) -> None:
        """Counts the call of a tool, or raises LimitReached."""
        with self._lock:
            if self._calls >= self._config.max_calls:
                raise LimitReached(
                    f"all {self._config.max_calls} calls are used up (agent.max_calls); answer with what you have"
                )
            self._calls += 1

    @contextmanager
    def asking(self, text: str, *, output: int) -> Iterator[None]:
        """A call to the model, or LimitReached or CostLimit where it could be too much; what it took is counted."""
        size = self._llm.count(text)
        used = self.usage.input_tokens + self.usage.output_tokens
        if used + size > self._config.max_tokens:
            raise LimitReached(
                f"stopped at {used} tokens: the next call would read about {size}, "
                f"and the limit is {self._config.max_tokens} (agent.max_tokens)"
            )
        reserved = self._purse.reserve(self._llm.name, [text], output=output)
        tally = UsageMeter()
        try:
            with tally.counting():
                yield
        finally:
            took = tally.usage
            self._total.add(took)
            self._purse.settle(reserved, self._llm.name, input=took.input_tokens, output=took.output_tokens)


class Counted:
    """The language model of the tools, whose calls count for the agent."""

    def __init__(self, llm: LLM, spending: Spending) -> None:
        self._llm = llm
        self._spending = spending
        self.name = llm.name

    @property
    def usage(self) -> Usage:
        """What the agent's calls took."""
        return self._spending.usage

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer."""
        with self._spending.asking(system + prompt, output=max_tokens):
            return self._llm.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure a prompt; so many at a time are paid for, and no more than the limits allow."""
        answers: list[str | LLMFailure] = []
        for start in range(0, len(prompts), max_concurrent):
            few = prompts[start : start + max_concurrent]
            asked = "".join(system + prompt for prompt in few)
            with self._spending.asking(asked, output=max_tokens * len(few)):
                answers += self._llm.complete_many(
                    few, system=system, max_tokens=max_tokens, temperature=temperature, max_concurrent=max_concurrent
                )
        return answers

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces; no tool reads them as they come, so it is whole before the first."""
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """How many tokens of the model a text has."""
        return self._llm.count(text)

    def model(self) -> "Model":
        """The model itself: the agent's own turns are counted where they are made."""
        return self._llm.model()
