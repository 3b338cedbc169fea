"""The pydantic-ai model with which an agent uses an LLM: the LLM's own, or a wrapper around its `complete`."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from clew.core.protocols import LLM
from clew.core.usage import Usage, UsageMeter, record_usage
from clew.drivers.llm.turns import TurnText, render_tools_as_text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model
    from pydantic_ai.models.function import AgentInfo

DEFAULT_MAX_TOKENS = 1000  # of an answer, if the agent sets no limit
OnText = Callable[[str], None]
JSON_OBJECT = re.compile(r"\{.*\}", re.DOTALL)  # models often put text or a code fence around it


@runtime_checkable
class HasAgentModel(Protocol):
    """An LLM with its own pydantic-ai model and native tool calls."""

    def as_agent_model(self, *, on_text: OnText | None = None) -> "Model":
        """Return a pydantic-ai model that retries, reports usage and raises DriverFailed like the LLM.

        `on_text` is called with each piece of text as the model writes it.
        """


@runtime_checkable
class WrapsLLM(Protocol):
    """An LLM around another one, such as a cache or a meter."""

    @property
    def wrapped(self) -> LLM:
        """The inner LLM, which agents use directly."""


def as_agent_model(llm: LLM, *, on_text: OnText | None = None) -> "Model":
    """Return a pydantic-ai model for any LLM: its own, that of the LLM it wraps, or one around its `complete`.

    `on_text` is called with each piece of text as the model writes it.
    """
    if isinstance(llm, HasAgentModel):
        return llm.as_agent_model(on_text=on_text)
    if isinstance(llm, WrapsLLM):
        return as_agent_model(llm.wrapped, on_text=on_text)
    return wrap_as_agent_model(llm, on_text=on_text)


def wrap_as_agent_model(llm: LLM, *, on_text: OnText | None = None) -> "Model":
    """Return a pydantic-ai model around `llm.complete`, or around `llm.stream` with `on_text`.

    The prompt describes the tools. A JSON reply calls one; any other reply is the answer.
    """
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    async def respond(messages: "list[ModelMessage]", info: "AgentInfo") -> "ModelResponse":
        settings = info.model_settings or {}
        tools = _select_tools(info, settings.get("tool_choice"))
        system, prompt = _write_prompt(messages, info.instructions or "", tools)
        max_tokens = settings.get("max_tokens") or DEFAULT_MAX_TOKENS
        with UsageMeter().measure() as meter:
            if on_text is None:
                text = await asyncio.to_thread(llm.complete, prompt, system=system, max_tokens=max_tokens)
            else:
                text = await asyncio.to_thread(_stream_turn, llm, prompt, system, max_tokens, on_text)
            estimate = Usage(1, llm.count(system + prompt), llm.count(text))
            if meter.usage == Usage():  # the model does not report its usage
                record_usage(estimate)
        usage = RequestUsage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)
        return ModelResponse([_parse_reply(text, {tool["name"] for tool in tools})], usage=usage)

    return FunctionModel(respond, model_name=llm.name)


def _stream_turn(llm: LLM, prompt: str, system: str, max_tokens: int, on_text: OnText) -> str:
    """Return the whole turn, passing each piece of its answer to `on_text`."""
    turn, text = TurnText(), ""
    for piece in llm.stream(prompt, system=system, max_tokens=max_tokens):
        text += piece
        if said := turn.feed(piece):
            on_text(said)
    return text


def _select_tools(info: "AgentInfo", choice: object) -> list[dict[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
        for tool in info.function_tools
        if choice != "none" and (not isinstance(choice, list) or tool.name in choice)
    ]


def _write_prompt(messages: "list[ModelMessage]", instructions: str, tools: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the system prompt and the prompt: the text of a single message, or a transcript of several."""
    first = [{"role": "system", "content": instructions}] if instructions else []
    plain = render_tools_as_text([*first, *_to_openai_messages(messages)], tools)
    system = "\n\n".join(message["content"] for message in plain if message["role"] == "system")
    turns = [message for message in plain if message["role"] != "system"]
    if len(turns) == 1:
        return system, turns[0]["content"]
    return system, "\n\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _to_openai_messages(messages: "list[ModelMessage]") -> list[dict[str, Any]]:
    from pydantic_ai.messages import RetryPromptPart, ToolCallPart, ToolReturnPart

    converted: list[dict[str, Any]] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart):
            function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            calls = [{"id": part.tool_call_id, "function": function}]
            converted.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif isinstance(part, ToolReturnPart):
            text = part.model_response_str()
            converted.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": text})
        elif isinstance(part, RetryPromptPart):
            converted.append({"role": "user", "content": part.model_response()})
        elif isinstance(content := getattr(part, "content", None), str):
            roles = {"system-prompt": "system", "text": "assistant"}
            converted.append({"role": roles.get(part.part_kind, "user"), "content": content})
    return converted


def _parse_reply(text: str, tools: set[str]) -> "ModelResponsePart":
    from pydantic_ai.messages import TextPart, ToolCallPart

    found = JSON_OBJECT.search(text) if tools else None
    try:
        turn = json.loads(found.group()) if found else None
    except ValueError:
        turn = None
    if isinstance(turn, dict) and turn.get("tool") in tools and isinstance(turn.get("arguments", {}), dict):
        return ToolCallPart(turn["tool"], turn.get("arguments", {}))
    return TextPart(str(turn["answer"]) if isinstance(turn, dict) and "answer" in turn else text)
