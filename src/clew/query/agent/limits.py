"""The limits of one agent run: tool calls, tokens and cost, counted for one question alone."""

from threading import Lock

from clew.core.errors import LimitReached
from clew.core.protocols import LLM
from clew.core.settings import AgentConfig
from clew.core.usage import CostBudget, Price, Usage, UsageMeter


class AgentBudget:
    """The budget of one agent run: counts tool and model calls, and refuses calls beyond the limits. Thread-safe.

    Serves as the `core.metered.Budget` of the agent's own turns and of the model calls inside its tools.
    """

    def __init__(self, llm: LLM, config: AgentConfig, price: Price) -> None:
        self.model = llm.name
        self._count_tokens = llm.count
        self._config = config
        self._cost = CostBudget({llm.name: price}, limit=config.max_cost)
        self._lock = Lock()
        self._meter = UsageMeter()
        self._tool_calls = 0

    @property
    def usage(self) -> Usage:
        """The usage of the model calls."""
        return self._meter.usage

    @property
    def tool_calls(self) -> int:
        """The number of tool calls so far."""
        return self._tool_calls

    @property
    def tool_calls_left(self) -> int:
        """The number of tool calls that are left."""
        return max(0, self._config.max_calls - self._tool_calls)

    @property
    def cost(self) -> float:
        """The cost of the model calls."""
        return self._cost.spent

    def count_tool_call(self) -> None:
        """Count a tool call, or raise LimitReached."""
        with self._lock:
            if self._tool_calls >= self._config.max_calls:
                raise LimitReached(
                    f"all {self._config.max_calls} calls are used up (agent.max_calls); answer with what you have"
                )
            self._tool_calls += 1

    def reserve(self, model: str, texts: list[str], *, output: int = 0) -> float:
        """Reserve a model call, or raise LimitReached (tokens) or CostLimit."""
        size = sum(map(self._count_tokens, texts))
        used = self.usage.input_tokens + self.usage.output_tokens
        if used + size > self._config.max_tokens:
            raise LimitReached(
                f"stopped at {used} tokens: the next call would read about {size}, "
                f"and the limit is {self._config.max_tokens} (agent.max_tokens)"
            )
        return self._cost.reserve(model, texts, output=output)

    def settle(self, reserved: float, model: str, used: Usage) -> None:
        """Release the reservation of a model call and add its actual usage."""
        self._meter.add(used)
        self._cost.settle(reserved, model, used)
