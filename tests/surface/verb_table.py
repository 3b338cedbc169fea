"""Which surface offers which verb, under the same name everywhere (hyphens on the command line)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from clew.core.requests import Surface, list_requests

# What HTTP has is added below.
_SURFACES: Final[Mapping[str, str]] = {
    "add": "python cli mcp",
    "add_distributed": "python",  # `clew add --ray`
    "add_documents": "python",
    "add_messages": "python",
    "plan": "python cli",
    "drop": "python cli",
    "drop_messages": "python",
    "erase": "python cli",
    "list": "python cli mcp",
    "read": "python cli mcp",
    "message": "python",  # `clew read` with the id of a message
    "status": "python cli mcp",
    "search": "python cli mcp",
    "search_many": "python",
    "context": "python cli mcp",
    "ask": "python cli mcp",
    "ask_stream": "python http",  # the command line streams by itself
    "chat": "python cli",
    "agent": "python",  # `clew ask --agent`, `clew chat --agent`
    "agent_stream": "python http",
    "tools": "python cli",
    "explain": "python cli",
    "why_not": "python cli",
    "check": "python cli",
    "feedback": "python",  # the page sends it
    "list_feedback": "python",  # `clew evaluate make --source feedback`
    "window": "python cli",
    "channels": "python",
    "unknown_names": "python",  # the command line says so by itself
    "profile": "python cli",
    "style_prompt": "python cli",
    "links": "python cli",
    "backfill": "python cli",
    "calibrate": "python cli",
    "export": "python cli",
    "restore": "python cli",
    "reembed": "python cli",
    "evaluate": "python cli",  # this and the seven below are functions of `clew`, not methods of Engine
    "make_questions": "python",  # `clew evaluate make`
    "list_runs": "python",  # `clew evaluate list`
    "read_run": "python",  # `clew evaluate show`
    "enqueue_evaluation": "python",  # the command line waits for it
    "tune": "python cli",
    "rollback_tuning": "python",  # `clew tune --rollback`
    "list_tunings": "python",  # `clew tune --show`
    "doctor": "python cli",
    "accept_missing_changes": "python",  # `clew doctor --repair`
    "within": "python",  # the filter options of each command
    "enqueue_add": "python http",  # `clew add --background`
    "enqueue_maintenance": "python",  # `clew jobs maintain`
    "jobs": "python cli",
    "job": "python",  # `clew jobs show`
    "cancel_job": "python",  # `clew jobs cancel`
    "run_jobs": "python",  # `clew jobs work`
    "collections": "python cli",
    "drop_collection": "python",  # `clew collections drop`
    "models": "cli",
    "serve": "cli",
    "keys": "cli",
    "mcp": "cli",
    "config": "cli",  # in Python the settings are a value: `Settings`
}
_HTTP: Final = {each.verb for each in list_requests()}
VERBS: Final[Mapping[str, frozenset[Surface]]] = MappingProxyType(
    {
        verb: frozenset([*surfaces.split(), *(["http"] if verb in _HTTP else [])])  # type: ignore[list-item]
        for verb, surfaces in _SURFACES.items()
    }
)
