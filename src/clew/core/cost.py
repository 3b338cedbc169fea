"""Money: what calls to models cost by a table of prices, and a purse that is never overdrawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from clew.core.errors import ClewError
from clew.core.settings import LLMConfig

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in whatever money the table is in."""

    input: float = 0.0
    output: float = 0.0


def price_of(config: LLMConfig, model: str) -> Price:
    """The price of a language model: that of the settings if one is set, else its line in their table, else none.

    A line may name the model with or without its address.
    """
    if config.input_price or config.output_price:
        return Price(config.input_price, config.output_price)
    table = {name: Price(float(read), float(written)) for name, read, written in map(str.split, config.prices)}
    return table.get(model) or table.get(model.partition("@")[0], Price())


class CostLimit(ClewError):
    """Work that was stopped before it would have cost more than it may; what was done is kept."""


@dataclass(slots=True)
class CostBudget:
    """Counts what is spent, and refuses a call that could pass the limit.

    A call is reserved before it is made at the most it can take: a token is at least one byte, so a text never has
    more tokens than bytes. What it really took is settled afterwards.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    limit: float | None = None
    spent: float = 0.0
    _reserved: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def cost(self, model: str, *, input: int, output: int = 0) -> float:  # noqa: A002
        """The price of that many tokens; a model without a price is free."""
        price = self.prices.get(model, Price())
        return (input * price.input + output * price.output) / MILLION

    def is_free(self, model: str) -> bool:
        """Whether nothing is counted for a model."""
        return self.prices.get(model, Price()) == Price()

    def reserve(self, model: str, texts: list[str], *, output: int = 0) -> float:
        """Sets aside the most that a call may cost, or raises CostLimit."""
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        most = self.cost(model, input=size, output=output * len(texts))
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + most > self.limit:
                raise CostLimit(
                    f"stopped at {self.spent:.4f} spent: the next call to {model} may cost up to {most:.4f}, "
                    f"and the limit is {self.limit:.4f}"
                )
            self._reserved += most
        return most

    def settle(self, reserved: float, model: str, *, input: int, output: int = 0) -> None:  # noqa: A002
        """Gives back what was set aside and counts what was really taken."""
        with self._lock:
            self._reserved -= reserved
            self.spent += self.cost(model, input=input, output=output)
