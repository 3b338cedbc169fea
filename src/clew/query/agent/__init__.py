"""An agent over a collection: its tools, instructions and limits; `loop` runs a model with them."""

from clew.core.errors import LimitReached
from clew.query.agent.limits import AgentBudget
from clew.query.agent.reader import DocumentQuotes, extract_quotes
from clew.query.agent.tools import ToolBackend, Toolbox, ToolResult, build_instructions, choose_first_tools

__all__ = [
    "AgentBudget",
    "DocumentQuotes",
    "LimitReached",
    "ToolBackend",
    "ToolResult",
    "Toolbox",
    "build_instructions",
    "choose_first_tools",
    "extract_quotes",
]
