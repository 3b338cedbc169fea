"""An agent over a collection: the tools, the instructions, the limits; `loop` runs a model with them."""

from clew.query.agent.prompt import chain, instructions
from clew.query.agent.reader import Reading, quotes
from clew.query.agent.spending import Counted, LimitReached, Spending
from clew.query.agent.tools import Result, Sources, Toolbox

__all__ = [
    "Counted",
    "LimitReached",
    "Reading",
    "Result",
    "Sources",
    "Spending",
    "Toolbox",
    "chain",
    "instructions",
    "quotes",
]
