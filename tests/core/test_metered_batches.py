"""A metered model near its limit of cost: smaller batches, down to the call that could exceed it."""

import pytest

from clew.core.errors import CostLimit
from clew.core.metered import MeteredLLM
from clew.core.usage import CostBudget, Price
from clew.drivers.llm.scripted import ScriptedLLM

PROMPT = "word " * 20


def test_the_limit_stops_at_the_call_that_could_exceed_it() -> None:
    llm = ScriptedLLM("yes")
    budget = CostBudget({llm.name: Price(1_000_000.0)}, limit=250.0)  # a token costs 1; a prompt may have 100
    model = MeteredLLM(llm, budget)
    answers = model.complete_many([PROMPT, PROMPT], max_tokens=1, max_concurrent=5)  # both at once may cost 200
    assert answers == ["yes", "yes"]
    spent = budget.spent
    assert 0 < spent < 100
    with pytest.raises(CostLimit, match="the next call"):
        model.complete_many([PROMPT] * 40, max_tokens=1, max_concurrent=40)
    assert budget.spent <= 250.0 < budget.spent + 100.0  # all forty at once may cost 4000, so none would be asked
