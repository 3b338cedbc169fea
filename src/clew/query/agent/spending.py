"""What an agent has used of what it may: calls of tools, tokens and money, counted for one question alone."""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from clew.core.agent import AgentConfig
from clew.core.cost import Price, Purse
from clew.core.errors import ClewError
from clew.core.protocols import LLM, LLMFailure, Usage

if TYPE_CHECKING:
    from pydantic_ai.models import Model


class LimitReached(ClewError):
    """A call that was not made because a limit of the agent would have been passed."""


class Spending:
    """Counts calls and refuses those beyond the limits. Tools may run at the same time."""

    def __init__(self, llm: LLM, config: AgentConfig, price: Price) -> None:
        self._llm = llm
        self._config = config
        self._purse = Purse({llm.name: price}, limit=config.max_cost)
        self._lock = Lock()
        self._usage = Usage()
        self._calls = 0

    @property
    def usage(self) -> Usage:
        """What the calls to the model took."""
        return self._usage

    @property
    def calls(self) -> int:
        """How many tools were called."""
        return self._calls

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

    def begin(self, text: str, *, output: int) -> float:
        """Money set aside for a call to the model; LimitReached or CostLimit where it could be too much."""
        size = self._llm.count(text)
        with self._lock:
            used = self._usage.input_tokens + self._usage.output_tokens
            if used + size > self._config.max_tokens:
                raise LimitReached(
                    f"stopped at {used} tokens: the next call would read about {size}, "
                    f"and the limit is {self._config.max_tokens} (agent.max_tokens)"
                )
        return self._purse.reserve(self._llm.name, [text], output=output)

    def end(self, reserved: float, text: str, answer: str, usage: Usage | None = None) -> None:
        """Counts what a call took: what the provider says, or else an estimate."""
        if usage is None or not (usage.input_tokens or usage.output_tokens):
            usage = Usage(1, self._llm.count(text), self._llm.count(answer) if answer else 0)
        with self._lock:
            self._usage += usage
        self._purse.settle(reserved, self._llm.name, input=usage.input_tokens, output=usage.output_tokens)


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
        reserved = self._spending.begin(system + prompt, output=max_tokens)
        answer = ""
        try:
            answer = self._llm.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)
            return answer
        finally:
            self._spending.end(reserved, system + prompt, answer)

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
            reserved = self._spending.begin(asked, output=max_tokens * len(few))
            said: list[str | LLMFailure] = []
            try:
                said = self._llm.complete_many(
                    few, system=system, max_tokens=max_tokens, temperature=temperature, max_concurrent=max_concurrent
                )
            finally:
                self._spending.end(reserved, asked, "".join(each for each in said if isinstance(each, str)))
            answers += said
        return answers

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces."""
        reserved = self._spending.begin(system + prompt, output=max_tokens)
        said: list[str] = []
        try:
            for piece in self._llm.stream(prompt, system=system, max_tokens=max_tokens, temperature=temperature):
                said.append(piece)
                yield piece
        finally:
            self._spending.end(reserved, system + prompt, "".join(said))

    def count(self, text: str) -> int:
        """How many tokens of the model a text has."""
        return self._llm.count(text)

    def model(self) -> "Model":
        """The model itself: the agent's own turns are counted where they are made."""
        return self._llm.model()
