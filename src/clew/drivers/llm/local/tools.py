"""Tool calls for models that know of none: the tools are told in words, and a grammar holds the answer to JSON.

A turn is `{"tool": NAME, "arguments": {…}}` or `{"answer": TEXT}`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from clew.core.errors import DriverFailed

Message = dict[str, Any]
LONGEST = 200  # characters of a text argument: small models do not find their end
TOLD = 'Call a tool with {"tool": NAME, "arguments": {…}}, or say what you know with {"answer": TEXT}. The tools:'


def told(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages in words alone: calls and their results written out, the tools in front."""
    names: dict[str, str] = {}
    made: list[Message] = []
    for message in messages:
        text = _text(message.get("content"))
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
            text += json.dumps({"tool": call["function"]["name"], "arguments": _loaded(call["function"]["arguments"])})
        if message["role"] == "tool":
            text = f"Result of {names.get(message.get('tool_call_id', ''), 'the tool')}:\n{text}"
        role = {"tool": "user", "developer": "system"}.get(message["role"], message["role"])
        made.append({"role": role, "content": text})
    if tools:
        lines = [f"- {each['name']}: {each.get('description', '')} {_arguments(each)}" for each in tools]
        words = "\n".join([TOLD, *lines])
        if made and made[0]["role"] == "system":
            made[0] = {"role": "system", "content": f"{made[0]['content']}\n\n{words}"}
        else:
            made.insert(0, {"role": "system", "content": words})
    return made


def turn(tools: Sequence[Mapping[str, Any]], *, answer: bool) -> dict[str, Any]:
    """What a turn must look like, as a JSON schema; without `answer` a tool must be called."""
    shapes = [_object({"tool": {"const": each["name"]}, "arguments": _closed(each)}) for each in tools]
    if answer:
        shapes.append(_object({"answer": {"type": "string"}}))
    return {"anyOf": shapes}


def heard(text: str) -> Message:
    """The message that a turn amounts to."""
    said = _loaded(text)
    if isinstance(said, dict) and "tool" in said:
        function = {"name": said["tool"], "arguments": json.dumps(said["arguments"])}
        call = {"index": 0, "id": f"call-{uuid4().hex[:12]}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if isinstance(said, dict) and "answer" in said:
        return {"role": "assistant", "content": str(said["answer"])}
    _, begun, rest = text.partition('"answer"')
    if begun and "{" in text[: -len(rest)] and '"tool"' not in text:  # an answer that reached its limit is one
        return {"role": "assistant", "content": rest.lstrip(' :\n"')}
    raise DriverFailed("the model's call of a tool was not finished; allow more tokens")


def _closed(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(tool.get("parameters") or {})
    if "$defs" in schema or not schema.get("properties"):
        return {"type": "object"}
    properties = {
        name: {"maxLength": LONGEST, **each} if each.get("type") == "string" and "enum" not in each else each
        for name, each in schema["properties"].items()
    }
    return _object(properties, schema.get("required", []))


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    needed = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _arguments(tool: Mapping[str, Any]) -> str:
    return json.dumps(list((tool.get("parameters") or {}).get("properties", {})))


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(part.get("text", "") for part in content)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None
