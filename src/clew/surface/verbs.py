"""The table of verbs: which surface offers which, under the same name everywhere (hyphens on the command line)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Surface = Literal["python", "cli"]

_BOTH: Final[frozenset[Surface]] = frozenset({"python", "cli"})
_PYTHON: Final[frozenset[Surface]] = frozenset({"python"})
_CLI: Final[frozenset[Surface]] = frozenset({"cli"})

VERBS: Final[Mapping[str, frozenset[Surface]]] = MappingProxyType(
    {
        "add": _BOTH,
        "add_documents": _PYTHON,
        "add_messages": _PYTHON,
        "plan": _BOTH,
        "drop": _BOTH,
        "drop_messages": _PYTHON,
        "erase": _BOTH,
        "list": _BOTH,
        "read": _BOTH,
        "message": _PYTHON,  # `clew read` with the id of a message
        "status": _BOTH,
        "search": _BOTH,
        "search_many": _PYTHON,
        "context": _BOTH,
        "ask": _BOTH,
        "ask_stream": _PYTHON,  # the command line streams by itself
        "chat": _BOTH,
        "agent": _PYTHON,  # `clew ask --agent`, `clew chat --agent`
        "agent_stream": _PYTHON,
        "tools": _BOTH,
        "explain": _BOTH,
        "why_not": _BOTH,
        "check": _BOTH,
        "window": _BOTH,
        "channels": _PYTHON,
        "unknown_names": _PYTHON,  # the command line says so by itself
        "profile": _BOTH,
        "style_prompt": _BOTH,
        "links": _BOTH,
        "backfill": _BOTH,
        "calibrate": _BOTH,
        "export": _BOTH,
        "restore": _BOTH,
        "reembed": _BOTH,
        "doctor": _BOTH,
        "accept_missing_changes": _PYTHON,  # `clew doctor --repair`
        "within": _PYTHON,  # the filter options of each command
        "enqueue_add": _PYTHON,  # `clew add --background`
        "jobs": _BOTH,
        "job": _PYTHON,  # `clew jobs show`
        "cancel_job": _PYTHON,  # `clew jobs cancel`
        "run_jobs": _PYTHON,  # `clew jobs work`
        "collections": _BOTH,
        "drop_collection": _PYTHON,  # `clew collections drop`
        "models": _CLI,
        "serve": _CLI,
        "keys": _CLI,
        "mcp": _CLI,
        "config": _CLI,  # in Python the settings are a value: `Settings`
    }
)
