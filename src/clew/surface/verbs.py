"""The table of verbs: which surface offers which, under the same name everywhere (hyphens on the command line)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Surface = Literal["python", "cli", "http", "mcp"]

_BOTH: Final[frozenset[Surface]] = frozenset({"python", "cli"})
_PYTHON: Final[frozenset[Surface]] = frozenset({"python"})
_CLI: Final[frozenset[Surface]] = frozenset({"cli"})
_HTTP: Final[frozenset[Surface]] = frozenset({"http"})  # and the client of it
_MCP: Final[frozenset[Surface]] = frozenset({"http", "mcp"})

VERBS: Final[Mapping[str, frozenset[Surface]]] = MappingProxyType(
    {
        "add": _BOTH | _MCP,
        "add_distributed": _PYTHON,  # `clew add --ray`
        "add_documents": _PYTHON | _HTTP,
        "add_messages": _PYTHON | _HTTP,
        "plan": _BOTH | _HTTP,
        "drop": _BOTH | _HTTP,
        "drop_messages": _PYTHON | _HTTP,
        "erase": _BOTH | _HTTP,
        "list": _BOTH | _MCP,
        "read": _BOTH | _MCP,
        "message": _PYTHON | _HTTP,  # `clew read` with the id of a message
        "status": _BOTH | _MCP,
        "search": _BOTH | _MCP,
        "search_many": _PYTHON | _HTTP,
        "context": _BOTH | _MCP,
        "ask": _BOTH | _MCP,
        "ask_stream": _PYTHON | _HTTP,  # the command line streams by itself
        "chat": _BOTH | _HTTP,
        "agent": _PYTHON | _HTTP,  # `clew ask --agent`, `clew chat --agent`
        "agent_stream": _PYTHON | _HTTP,
        "tools": _BOTH,
        "explain": _BOTH | _HTTP,
        "why_not": _BOTH | _HTTP,
        "check": _BOTH | _HTTP,
        "feedback": _PYTHON | _HTTP,  # the page sends it
        "list_feedback": _PYTHON | _HTTP,  # `clew evaluate make --source feedback`
        "window": _BOTH | _HTTP,
        "channels": _PYTHON | _HTTP,
        "unknown_names": _PYTHON,  # the command line says so by itself
        "profile": _BOTH | _HTTP,
        "style_prompt": _BOTH | _HTTP,
        "links": _BOTH | _HTTP,
        "backfill": _BOTH,
        "calibrate": _BOTH,
        "export": _BOTH,
        "restore": _BOTH,
        "reembed": _BOTH,
        "evaluate": _BOTH,  # this and the seven below are functions of `clew`, not methods of Engine
        "make_questions": _PYTHON | _HTTP,  # `clew evaluate make`
        "list_runs": _PYTHON | _HTTP,  # `clew evaluate list`
        "read_run": _PYTHON | _HTTP,  # `clew evaluate show`
        "enqueue_evaluation": _PYTHON | _HTTP,  # the command line waits for it
        "tune": _BOTH,
        "rollback_tuning": _PYTHON,  # `clew tune --rollback`
        "list_tunings": _PYTHON,  # `clew tune --show`
        "doctor": _BOTH | _HTTP,
        "accept_missing_changes": _PYTHON,  # `clew doctor --repair`
        "within": _PYTHON,  # the filter options of each command
        "enqueue_add": _PYTHON | _HTTP,  # `clew add --background`
        "enqueue_maintenance": _PYTHON,  # `clew jobs maintain`
        "jobs": _BOTH | _HTTP,
        "job": _PYTHON | _HTTP,  # `clew jobs show`
        "cancel_job": _PYTHON | _HTTP,  # `clew jobs cancel`
        "run_jobs": _PYTHON,  # `clew jobs work`
        "collections": _BOTH | _HTTP,
        "drop_collection": _PYTHON | _HTTP,  # `clew collections drop`
        "models": _CLI,
        "serve": _CLI,
        "keys": _CLI,
        "mcp": _CLI,
        "config": _CLI,  # in Python the settings are a value: `Settings`
    }
)
