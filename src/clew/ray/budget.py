"""One cost limit for many workers: an actor keeps the budget, and every priced call is reserved with it first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from clew.core.errors import CostLimit
from clew.core.usage import CostBudget, Price


class BudgetKeeper:
    """The budget of all workers, run as an actor beside the driver.

    The reservation of a worker that died stays: its call may have been made.
    """

    def __init__(self, limit: float | None) -> None:
        self._budget = CostBudget({}, limit)
        self._stopped = ""

    def reserve(self, max_cost: float, model: str) -> str:
        """Reserve an amount; return the problem if it would exceed the limit."""
        try:
            self._budget.reserve_cost(max_cost, model)
        except CostLimit as limit:
            return str(limit)
        return ""

    def settle(self, reserved: float, cost: float) -> None:
        """Release a reserved amount and add what the call has cost."""
        self._budget.settle_cost(reserved, cost)

    def get_spent(self) -> float:
        """Return the cost of all workers."""
        return self._budget.spent

    def stop(self, reason: str) -> None:
        """Begin no further share."""
        self._stopped = self._stopped or reason

    def get_stopped(self) -> str:
        """Explain why no share is to be begun; empty while they are."""
        return self._stopped


@dataclass(slots=True)
class SharedBudget(CostBudget):
    """The budget of one worker: the amounts are those of the keeper, `spent` is this worker's part."""

    keeper: Any = None

    def reserve_cost(self, max_cost: float, model: str) -> None:
        """Reserve an amount with the keeper, or raise CostLimit."""
        if refusal := ray.get(self.keeper.reserve.remote(max_cost, model)):
            raise CostLimit(refusal)

    def settle_cost(self, reserved: float, cost: float) -> None:
        """Settle with the keeper."""
        ray.get(self.keeper.settle.remote(reserved, cost))
        with self._lock:
            self.spent += cost


def start_keeper(limit: float | None) -> Any:
    """Return the actor that keeps the budget, on the driver's node: it is lost only together with the driver."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(BudgetKeeper).remote(limit)


def make_worker_budget(prices: Mapping[str, Price], keeper: Any) -> CostBudget:
    """Make the budget of one worker; without a keeper nothing has a price."""
    return CostBudget(prices) if keeper is None else SharedBudget(prices, keeper=keeper)
