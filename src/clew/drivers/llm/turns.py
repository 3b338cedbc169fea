"""Turns of a model: tool calls for models without native ones, and the text of a reply during streaming.

The prompt describes the tools; a turn is `{"tool": NAME, "arguments": {…}}` or `{"answer": TEXT}`. Messages and tools
are in OpenAI's format.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from clew.core.errors import DriverFailed

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import Model

_ANSWER = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"answer"\s*:\s*"')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|[^u])")
_TEXT_BEGINS = re.compile(r"\s*[^\s{`]")
Message = dict[str, Any]
MAX_ARGUMENT_CHARS = 200  # of a text argument: small models may never stop by themselves
TOOL_INSTRUCTIONS = (
    'Call a tool with {"tool": NAME, "arguments": {…}}, or say what you know with {"answer": TEXT}. The tools:'
)


def extract_event_text(event: "ModelResponseStreamEvent") -> str:
    """Return the text of a stream event; empty if it has none."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def can_stream(model: "Model") -> bool:
    """Return whether a pydantic-ai model can stream; a FunctionModel needs a `stream_function`."""
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import FunctionModel

    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


class TurnText:
    """A streaming parser that extracts the answer from a turn of a model without native tool calls.

    A turn is plain text, `{"answer": TEXT}`, or a tool call, which has no answer text.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._state = "start"  # then "text", "answer" or "silent"

    def feed(self, piece: str) -> str:
        """Take the next piece of the turn and return the answer text that it adds."""
        self._waiting += piece
        if self._state == "start":
            if begun := _ANSWER.match(self._waiting):
                self._state, self._waiting = "answer", self._waiting[begun.end() :]
            elif _TEXT_BEGINS.match(self._waiting):
                self._state = "text"
        if self._state == "answer":
            return self._decode()
        if self._state != "text":
            return ""
        said, self._waiting = self._waiting, ""
        return said

    def _decode(self) -> str:
        """Decode the complete characters of the JSON string so far; keep an unfinished escape for later."""
        said, at = "", 0
        while at < len(self._waiting):
            if self._waiting[at] == '"':
                self._state = "silent"
                break
            if self._waiting[at] != "\\":
                said, at = said + self._waiting[at], at + 1
            elif escape := _ESCAPE.match(self._waiting, at):
                text = escape.group()
                if re.fullmatch(r"\\u[dD][89abAB]..", text) and len(self._waiting) - at < 12:
                    break  # half of a surrogate pair: the other half may follow
                said, at = said + json.loads(f'"{text}"'), escape.end()
            else:
                break
        self._waiting = self._waiting[at:]
        return said


def render_tools_as_text(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Render messages as plain text, with tool calls and results written out and the tools in the system message."""
    names: dict[str, str] = {}
    plain: list[Message] = []
    for message in messages:
        text = _join_content(message.get("content"))
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
            arguments = _parse_json(call["function"]["arguments"])
            text += json.dumps({"tool": call["function"]["name"], "arguments": arguments})
        if message["role"] == "tool":
            text = f"Result of {names.get(message.get('tool_call_id', ''), 'the tool')}:\n{text}"
        role = {"tool": "user", "developer": "system"}.get(message["role"], message["role"])
        plain.append({"role": role, "content": text})
    if tools:
        lines = [f"- {tool['name']}: {tool.get('description', '')} {_list_arguments(tool)}" for tool in tools]
        description = "\n".join([TOOL_INSTRUCTIONS, *lines])
        if plain and plain[0]["role"] == "system":
            plain[0] = {"role": "system", "content": f"{plain[0]['content']}\n\n{description}"}
        else:
            plain.insert(0, {"role": "system", "content": description})
    return plain


def build_turn_schema(tools: Sequence[Mapping[str, Any]], *, may_answer: bool) -> dict[str, Any]:
    """Build the JSON schema of a turn for constrained decoding; without `may_answer` a tool must be called."""
    schemas = [
        _build_object_schema({"tool": {"const": tool["name"]}, "arguments": _build_argument_schema(tool)})
        for tool in tools
    ]
    if may_answer:
        schemas.append(_build_object_schema({"answer": {"type": "string"}}))
    return {"anyOf": schemas}


def parse_turn(text: str) -> Message:
    """Parse a turn into an assistant message: a tool call or an answer."""
    turn = _parse_json(text)
    if isinstance(turn, dict) and "tool" in turn:
        function = {"name": turn["tool"], "arguments": json.dumps(turn["arguments"])}
        call = {"index": 0, "id": f"call-{uuid4().hex[:12]}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if isinstance(turn, dict) and "answer" in turn:
        return {"role": "assistant", "content": str(turn["answer"])}
    _, key, rest = text.partition('"answer"')
    if key and "{" in text[: -len(rest)] and '"tool"' not in text:  # an answer cut off at the limit is an answer
        return {"role": "assistant", "content": rest.lstrip(' :\n"')}
    raise DriverFailed("the model's tool call was cut off; allow more tokens")


def _build_argument_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(tool.get("parameters") or {})
    if "$defs" in schema or not schema.get("properties"):
        return {"type": "object"}
    properties = {
        name: {"maxLength": MAX_ARGUMENT_CHARS, **value} if _is_free_text(value) else value
        for name, value in schema["properties"].items()
    }
    return _build_object_schema(properties, schema.get("required", []))


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and "enum" not in schema


def _build_object_schema(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    needed = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _list_arguments(tool: Mapping[str, Any]) -> str:
    return json.dumps(list((tool.get("parameters") or {}).get("properties", {})))


def _join_content(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part.get("text", "") for part in content)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None
