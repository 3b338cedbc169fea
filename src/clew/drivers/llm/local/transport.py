"""An HTTP transport that answers OpenAI chat completions with a model in this process, and a pydantic-ai model over it.

So local models support streams, usage, tools and agents like hosted ones. It imports httpx2 and pydantic-ai, so import
it only to make a model.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from clew.core.errors import ClewError, DriverFailed
from clew.drivers.llm.local.runtime import Runtime
from clew.drivers.llm.turns import TurnText, build_turn_schema, parse_turn, render_tools_as_text

Message = dict[str, Any]
OMISSION = "\n[… the middle was left out here, because it is too long …]\n"
MIN_KEPT_TOKENS = 32  # of a truncated message
TEMPLATE_TOKENS = 40  # added by the chat template to the conversation …
TOKENS_PER_MESSAGE = 8  # … and to each message
Event = dict[str, Any]
DEFAULT_MAX_TOKENS = 512  # of an answer, if the request sets no limit
ANSWER_SHARE = 4  # an answer gets at most 1/4 of the context, the prompt the rest
FORWARDED_OPTIONS = ("temperature", "top_p", "seed", "stop", "response_format")


def truncate_messages(messages: Sequence[Message], count: Callable[[str], int], *, max_tokens: int) -> list[Message]:
    """Fit messages into `max_tokens` by cutting the middle of the longest; DriverFailed if that is not enough."""
    fitted = list(messages)
    sizes = [count(message["content"]) for message in fitted]
    total = sum(sizes)
    while (excess := sum(sizes) + TOKENS_PER_MESSAGE * len(sizes) + TEMPLATE_TOKENS - max_tokens) > 0:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= MIN_KEPT_TOKENS:
            raise DriverFailed(
                f"the prompt has {total} tokens and the model has room for {max_tokens}; "
                "shorten the prompt, or ask for a shorter answer"
            )
        keep = max(MIN_KEPT_TOKENS, sizes[longest] - excess)
        fitted[longest] = {**fitted[longest], "content": _cut_middle(fitted[longest]["content"], count, keep)}
        sizes[longest] = min(keep, count(fitted[longest]["content"]))
    return fitted


def _cut_middle(text: str, count: Callable[[str], int], keep: int) -> str:
    share = keep / count(text)
    while True:
        half = int(len(text) * share / 2)
        cut = text[:half] + OMISSION + text[len(text) - half :]
        if not half or count(cut) <= keep:
            return cut
        share *= 0.95


def make_pydantic_model(name: str, runtime: Callable[[], Runtime]) -> Model:
    """Make the pydantic-ai model; the first request calls `runtime`."""
    client = httpx2.AsyncClient(transport=InProcessTransport(runtime), timeout=None)
    provider = OpenAIProvider(base_url="http://local/v1", api_key="none", http_client=client)
    return OpenAIChatModel(name, provider=provider, profile=OpenAIModelProfile(supports_json_schema_output=True))


class InProcessTransport(httpx2.AsyncBaseTransport):
    """A transport that answers chat completions like a server, in one body or as server-sent events."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response; status 400 with the reason if the request fails."""
        options = json.loads(await request.aread())
        try:
            runtime = await asyncio.to_thread(self._runtime)
            body, with_tools = await asyncio.to_thread(_prepare_request, options, runtime)
            events = _stream_events(runtime, body)
            if options.get("stream"):
                return _respond_with_stream(_stream_turn(events) if with_tools else events)
            return httpx2.Response(200, json=await _collect_completion(events, with_tools=with_tools))
        except ClewError as error:
            return httpx2.Response(400, json={"error": {"message": str(error)}})


class _EventStream(httpx2.AsyncByteStream):
    """Events in the format of server-sent events."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield b"data: " + json.dumps(event).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        if hasattr(self._events, "aclose"):
            await self._events.aclose()


def _respond_with_stream(events: AsyncIterator[Event]) -> httpx2.Response:
    return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=_EventStream(events))


def _prepare_request(options: dict[str, Any], runtime: Runtime) -> tuple[dict[str, Any], bool]:
    """Make the request for the runtime; also return whether it has tools."""
    choice = options.get("tool_choice", "auto")
    tools = [tool["function"] for tool in options.get("tools") or () if choice != "none"]
    if isinstance(choice, dict):
        tools = [tool for tool in tools if tool["name"] == choice["function"]["name"]]
    requested = options.get("max_completion_tokens") or options.get("max_tokens") or DEFAULT_MAX_TOKENS
    max_tokens = min(requested, runtime.context // ANSWER_SHARE)
    plain = render_tools_as_text(options["messages"], tools)
    messages = truncate_messages(plain, runtime.count, max_tokens=runtime.context - max_tokens)
    forwarded = {key: options[key] for key in FORWARDED_OPTIONS if key in options}
    body = {**forwarded, "messages": messages, "max_tokens": max_tokens}
    if tools:
        schema = build_turn_schema(tools, may_answer=choice == "auto")
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "turn", "schema": schema}}
    return body, bool(tools)


async def _stream_events(runtime: Runtime, body: dict[str, Any]) -> AsyncIterator[Event]:
    """Yield the events of an answer from a thread that stops when the iterator is closed."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
    closed = threading.Event()

    def put(item: Event | Exception | None) -> bool:
        if not closed.is_set():
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: the program is ending
                closed.set()
        return closed.is_set()

    def work() -> None:
        try:
            runtime.chat(body, put)
            put(None)
        except Exception as error:
            put(error)

    threading.Thread(target=work, name="clew-llm-local", daemon=True).start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise DriverFailed(f"the local model failed ({item}); change the request") from None
            if "error" in item:
                raise DriverFailed(f"the local model rejected the request: {item['error'].get('message', '')}")
            yield item
    finally:
        closed.set()


async def _collect_completion(events: AsyncIterator[Event], *, with_tools: bool) -> Event:
    text, finish, last = "", "stop", Event()
    async for last in events:
        for choice in last["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    message = parse_turn(text) if with_tools else {"role": "assistant", "content": text}
    if message.get("tool_calls"):
        finish = "tool_calls"
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return {**last, "object": "chat.completion", "choices": [choice]}


async def _stream_turn(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Convert the events of a turn with tools to those of a server: the answer piece by piece, or the tool call."""
    turn, text, said, last = TurnText(), "", "", Event()
    finish = "stop"
    async for last in events:
        for choice in last["choices"]:
            piece = choice["delta"].get("content") or ""
            text += piece
            finish = choice["finish_reason"] or finish
            if content := turn.feed(piece):
                said += content
                yield {**last, "choices": [{"index": 0, "finish_reason": None, "delta": {"content": content}}]}
    message = parse_turn(text)
    if message.get("tool_calls"):
        finish = "tool_calls"
    else:
        whole = message["content"]  # of a cut-off answer still in JSON escapes: then nothing is left to send
        message["content"] = whole[len(said) :] if whole.startswith(said) else ""
    yield {**last, "choices": [{"index": 0, "finish_reason": finish, "delta": message}]}
