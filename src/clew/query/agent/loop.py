"""The loop of a model with tools, on pydantic-ai: imported only when an agent is run."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from pydantic_ai import Agent, RunContext, Tool, ToolDefinition
from pydantic_ai.exceptions import ToolFailed, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from clew.core.cost import CostLimit
from clew.core.errors import ClewError, DriverFailed
from clew.core.trace import Trace
from clew.core.types import Message
from clew.query.agent.lookup import name_of
from clew.query.agent.spending import LimitReached, Spending
from clew.query.agent.steps import watched
from clew.query.agent.tools import MOST, Result, Toolbox

P = ParamSpec("P")
T = TypeVar("T")
TICK = 0.2  # seconds; a wait without an end cannot be interrupted everywhere
RETRIES = 3  # wrong calls of one tool in a row
NOTE = 200  # characters of an argument that the trace keeps


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model said last, or why it said nothing, and what its tools had shown by then.

    A `failure` is the model's own.
    """

    text: str
    reason: str
    results: tuple[Result, ...]
    failure: DriverFailed | None = None


class Paying(WrapperModel):
    """A model whose turns are counted, and not taken where a limit could be passed.

    In its first turns it must call the tools of a chain, whose arguments it chooses; then it is free until its calls
    are used up.
    """

    def __init__(self, model: Model, spending: Spending, *, output: int, chain: Sequence[str] = ()) -> None:
        super().__init__(model)
        self._spending = spending
        self._output = output
        self._chain = list(chain)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The model's turn."""
        text = "".join(map(_words, messages))
        settings = ModelSettings(**model_settings) if model_settings else ModelSettings()
        if self._chain:
            settings["tool_choice"] = [self._chain.pop(0)]
        elif not self._spending.calls_left:
            settings["tool_choice"] = "none"  # a call would be refused, and its turn paid for
        with self._spending.asking(text, output=self._output):
            return await super().request(messages, settings, model_request_parameters)


def run(
    question: str,
    toolbox: Toolbox,
    model: Model,
    *,
    instructions: str,
    history: Sequence[Message],
    spending: Spending,
    max_calls: int,
    max_tokens: int,
    chain: Sequence[str] = (),
    watch: Callable[[Trace], None] | None = None,
) -> Outcome:
    """What an agent makes of a question; tools that fail are told to the model, and `watch` is told of every call."""
    results: list[Result] = []
    methods: list[Callable[..., Result]] = [
        toolbox.search_knowledge_base,
        toolbox.search_with_multi_query,
        toolbox.search_with_reranking,
        toolbox.search_with_self_reflection,
        toolbox.search_conversations,
        toolbox.retrieve_full_document,
        toolbox.read_document,
    ]
    agent = Agent(
        Paying(model, spending, output=max_tokens, chain=chain),
        instructions=instructions,
        tools=[
            Tool(
                _guarded(method, spending, results, watch),
                takes_ctx=False,
                prepare=_narrowed(results) if chain else None,
            )
            for method in methods
        ],
        retries=RETRIES,
        model_settings=ModelSettings(max_tokens=max_tokens, temperature=0.0),
    )
    # A turn for each call, one in which a call too many is refused, and one to answer in.
    limits = UsageLimits(request_limit=max_calls + 2)

    async def work() -> str:
        async with agent:
            return (await agent.run(question, message_history=_turns(history), usage_limits=limits)).output

    try:
        return Outcome(_apart(work), "", tuple(results))
    except (LimitReached, CostLimit) as limit:
        reason = str(limit)
    except UsageLimitExceeded:
        reason = f"stopped after {max_calls + 2} turns without an answer (agent.max_calls)"
    except UnexpectedModelBehavior as error:
        reason = f"the model went astray: {' '.join(str(error).split())}"
    except DriverFailed as failure:
        return Outcome("", str(failure), tuple(results), failure)
    return Outcome("", reason, tuple(results))


def _narrowed(results: list[Result]) -> Callable[[RunContext[None], ToolDefinition], Awaitable[ToolDefinition]]:
    """Tells what a tool takes, for models that need to be told: titles that were shown, limits that may be."""

    async def prepared(_: RunContext[None], tool: ToolDefinition) -> ToolDefinition:
        titles = list(dict.fromkeys(name_of(each.record) for result in results for each in result.shown))
        narrow: dict[str, dict[str, Any]] = {"limit": {"minimum": 1, "maximum": MOST}}
        if titles:
            narrow["title"] = {"enum": titles}
        given = tool.parameters_json_schema.get("properties", {})
        held = {name: {**shape, **narrow.get(name, {})} for name, shape in given.items()}
        return replace(tool, parameters_json_schema={**tool.parameters_json_schema, "properties": held})

    return prepared


def _guarded(
    method: Callable[P, Result],
    spending: Spending,
    results: list[Result],
    watch: Callable[[Trace], None] | None,
) -> Callable[P, str]:
    """The tool as a model may call it: counted, traced, and failing in a way that is no content."""
    name = method.__name__

    @wraps(method)
    def tool(*args: P.args, **kwargs: P.kwargs) -> str:
        seen: list[Trace] = []
        try:
            with watched(name) as trace:
                seen.append(trace)
                result = called(trace, *args, **kwargs)
        finally:
            if watch is not None:
                for each in seen:
                    watch(each)
        results.append(result)
        return result.text

    def called(trace: Trace, *args: P.args, **kwargs: P.kwargs) -> Result:
        given = signature(method).bind(*args, **kwargs)
        given.apply_defaults()
        trace.notes.update({key: _note(value) for key, value in given.arguments.items()})
        try:
            spending.call()
            result = method(*args, **kwargs)
        except Exception as error:  # whatever happens in a tool, the model is told and may go on
            said = str(error) if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"
            trace.notes["error"] = _note(" ".join(said.split()))
            trace.out = 0
            raise ToolFailed(f"Error: {said}") from error
        trace.out = result.count
        return result

    tool.__annotations__ = {**method.__annotations__, "return": str}
    return tool


def _note(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)[:NOTE]


def _turns(history: Sequence[Message]) -> list[ModelMessage]:
    return [
        ModelResponse([TextPart(message.text)])
        if message.role == "assistant"
        else ModelRequest([UserPromptPart(f"{message.author}: {message.text}" if message.author else message.text)])
        for message in history
    ]


def _words(message: ModelMessage) -> str:
    """All that a message makes a model read."""
    said = [str(getattr(part, "content", "") or getattr(part, "args", "") or "") for part in message.parts]
    return "".join([*said, getattr(message, "instructions", None) or ""])


def _apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives, in an event loop and a thread of its own: the caller may have a loop already.

    The trace is carried over, and an interrupt cancels the work.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def main() -> T:
        loops.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work()

    def body() -> None:
        try:
            done.append(asyncio.run(main()))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=copy_context().run, args=(body,), name="clew-agent", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(TICK)
    except BaseException:
        for loop, task in loops:
            if task is not None and not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        raise
    if failed:
        raise failed[0]
    return done[0]
