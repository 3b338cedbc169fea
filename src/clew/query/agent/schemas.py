"""The tools of an agent for others: their JSON schemas, the check of arguments that are JSON, and results as JSON."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from clew.core.errors import NotFound, SettingsError
from clew.core.suggest import format_suggestion
from clew.core.time import to_iso
from clew.core.types import Hit
from clew.query.agent.lookup import get_display_name

if TYPE_CHECKING:
    from clew.query.agent.tools import ToolResult

Json = dict[str, Any]
SchemaFormat = Literal["json", "openai", "anthropic"]
SCHEMA_FORMATS = ("json", "openai", "anthropic")
MAX_HITS = 50  # of one search

_PARAMETERS: Mapping[str, Json] = {
    "query": {"type": "string", "description": "The question or keywords, complete in itself."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "description": "Number of results."},
    "channel": {"type": ["string", "null"], "description": "Name of the channel; leave it out to search all of them."},
    "title": {"type": "string", "description": "Title, address or file name of the document."},
    "documentIndex": {
        "type": "integer",
        "minimum": 1,
        "description": "Number of the document, as shown in brackets before its title.",
    },
}
_TYPES: Mapping[str, str] = {"string": "a text", "integer": "a whole number", "null": "null"}


def build_tool_schemas(tools: Sequence[Callable[..., Any]], form: SchemaFormat) -> list[Json]:
    """Build the schemas of tools: plain JSON Schema, or in the format of OpenAI or Anthropic."""
    if form not in SCHEMA_FORMATS:
        raise SettingsError(f"the format of the tools is {form!r}; it must be one of {', '.join(SCHEMA_FORMATS)}")
    made: list[Json] = []
    for tool in tools:
        name, description, parameters = tool.__name__, inspect.getdoc(tool) or "", _build_parameter_schema(tool)
        if form == "openai":
            function = {"name": name, "description": description, "parameters": parameters}
            made.append({"type": "function", "function": function})
        elif form == "anthropic":
            made.append({"name": name, "description": description, "input_schema": parameters})
        else:
            head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
            made.append({**head, "description": description, **parameters})
    return made


def find_tool(name: str, tools: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Find the tool of that name; NotFound names the nearest, or all of them."""
    names = {tool.__name__: tool for tool in tools}
    if name in names:
        return names[name]
    hint = format_suggestion(name, names) or f"there are {', '.join(names)}"
    raise NotFound(f"there is no tool {name!r}; {hint}")


def parse_arguments(tool: Callable[..., Any], arguments: Mapping[str, Any] | str) -> Json:
    """Parse the arguments of a tool, given as an object or as its JSON; SettingsError names the problem."""
    name, given = tool.__name__, arguments
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError as error:
            raise SettingsError(f"the arguments of {name} are not JSON: {error}") from error
    if not isinstance(given, Mapping):
        raise SettingsError(f"the arguments of {name} are {type(given).__name__}; they must be an object")
    schema = _build_parameter_schema(tool)
    known = schema["properties"]
    if unknown := [str(key) for key in given if key not in known]:
        raise SettingsError(f"{name} has no argument {', '.join(map(repr, unknown))}; it takes {', '.join(known)}")
    if missing := [key for key in schema["required"] if key not in given]:
        raise SettingsError(f"{name} lacks the argument {', '.join(map(repr, missing))}; it takes {', '.join(known)}")
    return {key: _check_type(name, key, value, known[key]["type"]) for key, value in given.items()}


def result_to_json(result: "ToolResult") -> Json:
    """Return a tool's result as JSON: the text for a model, the number of hits, its own data, and the passages."""
    passages = [
        {
            "documentIndex": each.number,
            "documentName": get_display_name(each.record),
            "documentId": each.record.id,
            "uri": each.record.uri,
            "headings": list(each.passage.heading_path),
            "text": each.text,
            "messages": [_message_to_json(hit) for hit in each.passage.chunks if hit.chunk.meta.get("author")],
        }
        for each in result.citable
    ]
    return {"text": result.text, "count": result.count, **result.data, "passages": passages}


def _message_to_json(hit: Hit) -> Json:
    return {"author": str(hit.chunk.meta["author"]), "at": to_iso(hit.chunk.at), "text": hit.chunk.text}


def _build_parameter_schema(tool: Callable[..., Any]) -> Json:
    """Build the JSON schema of a tool's arguments: an object that has no others."""
    properties, required = Json(), list[str]()
    for name, parameter in inspect.signature(tool).parameters.items():
        if name == "self":
            continue
        properties[name] = dict(_PARAMETERS[name])
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _check_type(tool: str, name: str, value: Any, types: str | list[str]) -> Any:
    """Return the value, whose type must be one of those of JSON; 3.0 is a whole number."""
    allowed = [types] if isinstance(types, str) else types
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    kind = {str: "string", int: "integer", type(None): "null"}.get(type(value))
    if kind not in allowed:
        raise SettingsError(
            f"{name} of {tool} is {value!r}; it must be {' or '.join(_TYPES[each] for each in allowed)}"
        )
    return value
