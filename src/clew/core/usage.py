"""Usage and cost of model calls: token counts per piece of work, the price table, and the budget of a run.

A driver reports each call with `record_usage`, which adds it to every active UsageMeter. A CostBudget refuses a call
that could exceed the cost limit; the wrappers in `core.metered` ask it before each call.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock

from clew.core.errors import CostLimit
from clew.core.settings import LLMConfig

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls to a language model, and their input and output tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0  # answers that came from a cache and cost nothing

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached + other.cached,
        )


class UsageMeter:
    """The model usage of one piece of work, even while other work uses the same models.

    A meter can measure several blocks. Meters nest: usage inside an inner one also counts for the outer one.
    """

    def __init__(self) -> None:
        self._usage = Usage()
        self._lock = Lock()

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return self._usage

    @contextmanager
    def measure(self) -> Iterator["UsageMeter"]:
        """Add all usage recorded inside the block, also by threads and tasks started there."""
        token = _active_meters.set((*_active_meters.get(), self))
        try:
            yield self
        finally:
            _active_meters.reset(token)

    def add(self, usage: Usage) -> None:
        """Add to the sum."""
        with self._lock:
            self._usage += usage


_active_meters: ContextVar[tuple[UsageMeter, ...]] = ContextVar("clew_usage_meters", default=())


def record_usage(usage: Usage) -> None:
    """Add the usage of one call to all active meters. Every LLM driver does this once per call."""
    for meter in _active_meters.get():
        meter.add(usage)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, in the currency of the price table."""

    input: float = 0.0
    output: float = 0.0


def look_up_price(config: LLMConfig, model: str) -> Price:
    """Look up the price of a language model, with or without its address in the name; zero if the table lacks it."""
    table = {name: Price(float(read), float(written)) for name, read, written in map(str.split, config.prices)}
    return table.get(model) or table.get(model.partition("@")[0], Price())


@dataclass(slots=True)
class CostBudget:
    """The cost of model calls so far, and their limit.

    Each call first reserves its maximum cost: a token has at least one byte, so a text never has more tokens than
    bytes. The real cost is settled afterwards.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    limit: float | None = None
    spent: float = 0.0
    _reserved: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def compute_cost(self, model: str, *, input_tokens: int, output_tokens: int = 0) -> float:
        """Compute the cost of tokens; a model without a price is free."""
        price = self.prices.get(model, Price())
        return (input_tokens * price.input + output_tokens * price.output) / MILLION

    def is_free(self, model: str) -> bool:
        """Return whether the model has no price."""
        return self.prices.get(model, Price()) == Price()

    def reserve(self, model: str, texts: list[str], *, output: int = 0) -> float:
        """Reserve the maximum cost of a call, with `output` tokens per text, and return it; or raise CostLimit."""
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        max_cost = self.compute_cost(model, input_tokens=size, output_tokens=output * len(texts))
        self.reserve_cost(max_cost, model)
        return max_cost

    def settle(self, reserved: float, model: str, used: Usage) -> None:
        """Release the reservation of a call and add its real cost."""
        cost = self.compute_cost(model, input_tokens=used.input_tokens, output_tokens=used.output_tokens)
        self.settle_cost(reserved, cost)

    def reserve_cost(self, max_cost: float, model: str) -> None:
        """Reserve an amount for a call to the model, or raise CostLimit."""
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + max_cost > self.limit:
                raise CostLimit(
                    f"stopped at {self.spent:.4f} spent: the next call to {model} may cost up to {max_cost:.4f}, "
                    f"and the limit is {self.limit:.4f}"
                )
            self._reserved += max_cost

    def settle_cost(self, reserved: float, cost: float) -> None:
        """Release a reserved amount and add the real cost."""
        with self._lock:
            self._reserved -= reserved
            self.spent += cost
