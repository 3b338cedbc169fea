"""The agent loop on pydantic-ai: a model calls tools until it answers. Imported only when an agent is run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

from pydantic_ai import Agent, RunContext, Tool, ToolDefinition
from pydantic_ai.exceptions import ToolFailed, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from clew.core.answer import explain_cut_off
from clew.core.errors import ClewError, CostLimit, DriverFailed, LimitReached
from clew.core.event_loop import run_coroutine
from clew.core.events import OnEvent, StepEvent, StepStartEvent
from clew.core.metered import reserve_call
from clew.core.parallel import is_cancelled
from clew.core.trace import Trace
from clew.core.types import Message
from clew.query.agent.limits import AgentBudget
from clew.query.agent.lookup import get_display_name
from clew.query.agent.tools import MAX_HITS, Toolbox, ToolResult, record_step

P = ParamSpec("P")
MAX_TOOL_RETRIES = 3  # invalid calls of one tool in a row
MAX_NOTE_CHARS = 200  # of an argument or error, in the trace


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """The model's answer, or the reason why there is none, and the tool results so far.

    `failure`: the error, if the model itself failed. `cut_off`: the reason, if the answer is incomplete.
    """

    text: str
    reason: str
    results: tuple[ToolResult, ...]
    failure: DriverFailed | None = None
    cut_off: str = ""


class BudgetedModel(WrapperModel):
    """A model whose turns are charged to the agent's budget; a turn that could exceed a limit is refused.

    Its first turns must call `first_tools`, with any arguments. Later turns are free until the tool calls are used up.
    """

    def __init__(self, model: Model, budget: AgentBudget, *, max_tokens: int, first_tools: Sequence[str] = ()) -> None:
        super().__init__(model)
        self._budget = budget
        self._max_tokens = max_tokens
        self._first_tools = list(first_tools)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Run one model turn within the budget: require the first tools in turn, forbid tools if no calls are left."""
        text = "".join(map(_collect_message_text, messages))
        settings = ModelSettings(**model_settings) if model_settings else ModelSettings()
        if self._first_tools:
            settings["tool_choice"] = [self._first_tools.pop(0)]
        elif not self._budget.tool_calls_left:
            settings["tool_choice"] = "none"  # a call would be refused, and its turn paid for
        with reserve_call(self._budget, self._budget.model, [text], output=self._max_tokens):
            return await super().request(messages, settings, model_request_parameters)


# The parameters are the question, the model and the limits of `Engine.agent`; nothing groups them.
def run_agent(
    question: str,
    toolbox: Toolbox,
    model: Model,
    *,
    instructions: str,
    history: Sequence[Message],
    budget: AgentBudget,
    max_calls: int,
    max_tokens: int,
    first_tools: Sequence[str] = (),
    on_event: OnEvent,
) -> AgentOutcome:
    """Run the agent on a question. The model sees tool errors; `on_event` receives every tool call."""
    results: list[ToolResult] = []
    agent = Agent(
        BudgetedModel(model, budget, max_tokens=max_tokens, first_tools=first_tools),
        instructions=instructions,
        tools=[
            Tool(
                _wrap_tool_for_model(method, budget, results, on_event),
                takes_ctx=False,
                prepare=_make_schema_narrower(results) if first_tools else None,
            )
            for method in toolbox.list_tools()
        ],
        retries=MAX_TOOL_RETRIES,
        model_settings=ModelSettings(max_tokens=max_tokens, temperature=0.0),
    )
    # One turn per call, one for a refused extra call, one for the answer.
    limits = UsageLimits(request_limit=max_calls + 2)

    async def work() -> AgentOutcome:
        async with agent:
            run = await agent.run(question, message_history=_to_model_messages(history), usage_limits=limits)
        cut_off = explain_cut_off(run.response.finish_reason or "", max_tokens)
        return AgentOutcome(run.output, "", tuple(results), cut_off=cut_off)

    try:
        return run_coroutine(work(), is_cancelled=is_cancelled)
    except (LimitReached, CostLimit) as limit:
        reason = str(limit)
    except UsageLimitExceeded:
        reason = f"stopped after {max_calls + 2} turns without an answer (agent.max_calls)"
    except UnexpectedModelBehavior as error:
        reason = f"the model's reply could not be used: {' '.join(str(error).split())}"
    except DriverFailed as failure:
        return AgentOutcome("", str(failure), tuple(results), failure)
    return AgentOutcome("", reason, tuple(results))


def _make_schema_narrower(
    results: list[ToolResult],
) -> Callable[[RunContext[None], ToolDefinition], Awaitable[ToolDefinition]]:
    """Make a callback that narrows a tool's JSON schema: `title` to the titles shown so far, `limit` to its range."""

    async def prepare(_: RunContext[None], tool: ToolDefinition) -> ToolDefinition:
        titles = list(dict.fromkeys(get_display_name(each.record) for result in results for each in result.citable))
        narrow: dict[str, dict[str, Any]] = {"limit": {"minimum": 1, "maximum": MAX_HITS}}
        if titles:
            narrow["title"] = {"enum": titles}
        given = tool.parameters_json_schema.get("properties", {})
        properties = {name: {**schema, **narrow.get(name, {})} for name, schema in given.items()}
        return replace(tool, parameters_json_schema={**tool.parameters_json_schema, "properties": properties})

    return prepare


def _wrap_tool_for_model(
    method: Callable[P, ToolResult],
    budget: AgentBudget,
    results: list[ToolResult],
    on_event: OnEvent,
) -> Callable[P, str]:
    """Wrap a tool for the model: count and trace its calls, and mark its errors as errors."""
    name = method.__name__

    @wraps(method)
    def tool(*args: P.args, **kwargs: P.kwargs) -> str:
        steps: list[Trace] = []
        try:
            with record_step(name) as trace:
                steps.append(trace)
                result = call(trace, *args, **kwargs)
        finally:
            for step in steps:
                on_event(StepEvent(step))
        results.append(result)
        return result.text

    def call(trace: Trace, *args: P.args, **kwargs: P.kwargs) -> ToolResult:
        bound = signature(method).bind(*args, **kwargs)
        bound.apply_defaults()
        trace.notes.update({key: _to_trace_note(value) for key, value in bound.arguments.items()})
        on_event(StepStartEvent(name, dict(trace.notes)))
        try:
            budget.count_tool_call()
            result = method(*args, **kwargs)
        except Exception as error:  # whatever happens in a tool, the model sees it and may go on
            message = str(error) if isinstance(error, ClewError) else f"{type(error).__name__}: {error}"
            trace.notes["error"] = _to_trace_note(" ".join(message.split()))
            trace.out = 0
            raise ToolFailed(f"Error: {message}") from error
        trace.out = result.count
        return result

    tool.__annotations__ = {**method.__annotations__, "return": str}
    return tool


def _to_trace_note(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)[:MAX_NOTE_CHARS]


def _to_model_messages(history: Sequence[Message]) -> list[ModelMessage]:
    return [
        ModelResponse([TextPart(message.text)])
        if message.role == "assistant"
        else ModelRequest([UserPromptPart(f"{message.author}: {message.text}" if message.author else message.text)])
        for message in history
    ]


def _collect_message_text(message: ModelMessage) -> str:
    """Collect all text of a message that the model reads, to estimate its tokens."""
    texts = [str(getattr(part, "content", "") or getattr(part, "args", "") or "") for part in message.parts]
    return "".join([*texts, getattr(message, "instructions", None) or ""])
