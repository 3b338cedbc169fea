"""The table of verbs: which surface offers which, under the same name everywhere (hyphens on the command line).

Those that HTTP and its clients have are the requests of `core.requests`, with all their options; here is what else
the other surfaces have.
"""

from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter, signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from clew.core.requests import Request, Surface, list_options, list_requests
from clew.core.settings import Settings
from clew.core.settings.override import override_settings

if TYPE_CHECKING:
    from clew.engine import Engine

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


Asked = TypeVar("Asked", bound=Request[Any])


def take_settings(asked: Asked, settings: Settings) -> tuple[Asked, Settings]:
    """The request without the options that are settings, and the settings with them in their place."""
    options = [each for each in list_options(type(asked)) if each.option.setting]
    given = {each.option.setting: value for each in options if (value := getattr(asked, each.name)) is not None}
    if not given:
        return asked, settings
    return replace(asked, **{each.name: None for each in options}), override_settings(settings, given)


def list_arguments(asked: Request[Any], kind: type[Request[Any]] | None = None) -> dict[str, Any]:
    """The arguments of a request for a method of Engine; with a `kind`, those that this one has too."""
    options = (each for each in list_options(kind or type(asked), "python") if not each.option.setting)
    return {each.name: getattr(asked, each.name) for each in options if hasattr(asked, each.name)}


def call_verb(engine: "Engine", asked: Request[Any], *, settings: Settings | None = None, **more: Any) -> Any:
    """The result of a request's verb; `more` are arguments that only Python has, such as callbacks."""
    asked, own = take_settings(asked, settings or engine.settings)
    if own is not engine.settings:
        more["settings"] = own
    method, named = getattr(engine, asked.verb), list_arguments(asked)
    taken = signature(method).parameters
    spread = [name for name in named if name in taken and taken[name].kind is Parameter.VAR_POSITIONAL]
    values = [each for name in spread for each in named.pop(name)]
    return method(*values, **named, **more)


def answer_verb(engine: "Engine", asked: Request[Any]) -> Any:
    """The reply to a request, as JSON has it."""
    found = call_verb(engine, asked)
    return {asked.part: found} if asked.part else found
