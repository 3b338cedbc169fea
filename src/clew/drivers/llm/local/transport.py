"""A pydantic-ai model whose requests reach a model in this process: what would be sent is answered here.

So the local model has all that the others have: pieces, counts, tools, an agent. It speaks OpenAI's protocol without a
connection. Imports httpx and pydantic-ai, so it is itself imported only when a model is made.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from clew.core.errors import ClewError, DriverFailed
from clew.drivers.llm.local.fit import fitted
from clew.drivers.llm.local.runtime import Runtime
from clew.drivers.llm.local.tools import heard, told, turn

Event = dict[str, Any]
MOST = 512  # tokens of an answer where nobody sets a limit
SHARE = 4  # an answer has at most this part of the context, the prompt the rest
PASSED = ("temperature", "top_p", "seed", "stop", "response_format")


def model(name: str, runtime: Callable[[], Runtime]) -> Model:
    """The model; `runtime` is called when it is first asked."""
    client = httpx2.AsyncClient(transport=InProcess(runtime), timeout=None)
    provider = OpenAIProvider(base_url="http://local/v1", api_key="none", http_client=client)
    return OpenAIChatModel(name, provider=provider, profile=OpenAIModelProfile(supports_json_schema_output=True))


class InProcess(httpx2.AsyncBaseTransport):
    """Answers chat completions as a server would, whole or as server-sent events."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response; what cannot be asked is a 400 in our own words."""
        asked = json.loads(await request.aread())
        try:
            runtime = await asyncio.to_thread(self._runtime)
            body, by_tools = await asyncio.to_thread(_prepared, asked, runtime)
            events = _events(runtime, body)
            if asked.get("stream") and not by_tools:
                return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=_Sent(events))
            whole = await _whole(events, by_tools=by_tools)
        except ClewError as error:
            return httpx2.Response(400, json={"error": {"message": str(error)}})
        if not asked.get("stream"):
            return httpx2.Response(200, json=whole)
        choice = whole["choices"][0]
        once = {**whole, "object": "chat.completion.chunk", "choices": [{**choice, "delta": choice["message"]}]}
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=_Sent(_only(once)))


class _Sent(httpx2.AsyncByteStream):
    """Events as a server sends them."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield b"data: " + json.dumps(event).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        if hasattr(self._events, "aclose"):
            await self._events.aclose()


def _prepared(asked: dict[str, Any], runtime: Runtime) -> tuple[dict[str, Any], bool]:
    """What the runtime is asked, and whether the answer is a turn with tools."""
    choice = asked.get("tool_choice", "auto")
    tools = [each["function"] for each in asked.get("tools") or () if choice != "none"]
    if isinstance(choice, dict):
        tools = [each for each in tools if each["name"] == choice["function"]["name"]]
    most = min(asked.get("max_completion_tokens") or asked.get("max_tokens") or MOST, runtime.context // SHARE)
    messages = fitted(told(asked["messages"], tools), runtime.count, room=runtime.context - most)
    body = {**{key: asked[key] for key in PASSED if key in asked}, "messages": messages, "max_tokens": most}
    if tools:
        schema = turn(tools, answer=choice == "auto")
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "turn", "schema": schema}}
    return body, bool(tools)


async def _events(runtime: Runtime, body: dict[str, Any]) -> AsyncIterator[Event]:
    """The events of an answer, from a thread that stops when nobody listens."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
    gone = threading.Event()

    def say(item: Event | Exception | None) -> bool:
        if not gone.is_set():
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: the program ends
                gone.set()
        return gone.is_set()

    def work() -> None:
        try:
            runtime.chat(body, say)
            say(None)
        except Exception as error:
            say(error)

    threading.Thread(target=work, name="clew-llm-local", daemon=True).start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise DriverFailed(f"the local model failed ({item}); ask another way") from None
            if "error" in item:
                raise DriverFailed(f"the local model cannot be asked that: {item['error'].get('message', '')}")
            yield item
    finally:
        gone.set()


async def _whole(events: AsyncIterator[Event], *, by_tools: bool) -> Event:
    """One completion from all its pieces."""
    text, finish, last = "", "stop", Event()
    async for last in events:
        for choice in last["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    message = heard(text) if by_tools else {"role": "assistant", "content": text}
    if message.get("tool_calls"):
        finish = "tool_calls"
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return {**last, "object": "chat.completion", "choices": [choice]}


async def _only(event: Event) -> AsyncIterator[Event]:
    yield event
