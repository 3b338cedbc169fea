"""The verbs `agent`, which lets a language model search by itself, and `tools`, its tools for other agents."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.answer import Answer
from clew.core.cite import Context
from clew.core.errors import SettingsError
from clew.core.events import EventStream, OnEvent, TokenEvent, join_callbacks
from clew.core.filter import EVERYTHING, Filter
from clew.core.metered import MeteredLLM
from clew.core.settings import Settings
from clew.core.suggest import unknown_name_error
from clew.core.trace import Trace
from clew.core.types import Document, Hit, Message, Query
from clew.core.usage import look_up_price
from clew.engine.answer import FoundContext, answer_verbatim, build_model_answer, make_checker
from clew.engine.opened import Opened
from clew.engine.search import assemble_context, make_query_from_text_or_table
from clew.query.agent.limits import AgentBudget
from clew.query.agent.lookup import get_display_name
from clew.query.agent.reader import DocumentQuotes, extract_quotes
from clew.query.agent.tools import (
    ToolBackend,
    Toolbox,
    ToolResult,
    build_instructions,
    choose_first_tools,
    record_step,
)
from clew.query.answer.choose import QuestionReader, find_best_spans
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.write import write_answer
from clew.query.context.merge import as_merged_chunk
from clew.query.context.session import Sessions
from clew.query.rewrite.route import Route, route_question
from clew.query.search.find import build_query

if TYPE_CHECKING:
    from clew.engine import Engine

STOPPED = "The agent was stopped before it could answer:"
GUIDED = "local:"  # small models in this process: the tools that fit the question are run for them first
NO_SESSION = "one question"  # the private session of a question without one
Span = tuple[int, int]


def agent(
    engine: "Engine",
    question: str,
    *,
    history: Sequence[Message] = (),
    session: str | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    on_sentence: Callable[[str], None] | None = None,
    on_step: Callable[[Trace], None] | None = None,
    on_event: OnEvent | None = None,
    settings: Settings | None = None,
) -> Answer:
    """Answer with a language model that searches the collection with tools; check its sentences as in `ask`.

    The model calls tools until it can answer. If it reaches a limit of `settings.agent` or fails, the best sentences
    found so far are quoted instead, and `reason` or `fault` says why.

    history, session: As for `ask`. where, settings: As for `search`.
    strategy: The strategy of its plain searches.
    on_step, on_sentence, on_event: Called with each step, each checked sentence, and each event of `agent_stream`
        except the FinalEvent.
    """
    from clew.drivers.llm.agent_model import as_agent_model
    from clew.query.agent.loop import run_agent

    emit = join_callbacks(on_event, on_sentence, on_step)
    settings = engine.opened.resolve_settings(settings)
    opened = engine.opened.within(where).for_call(settings)
    settings = _override_strategy(opened, settings, strategy)
    if opened.llm is None:
        raise SettingsError("an agent needs a language model; name one (llm.name), or use `ask`")
    query = make_query_from_text_or_table(question, 1, where, history, settings)
    budget = AgentBudget(opened.llm, settings.agent, look_up_price(settings.llm, opened.llm.name))
    chosen = route_question(question, history_length=0)
    sessions, name = (opened.sessions, session) if session else (Sessions(), NO_SESSION)
    toolbox = _make_toolbox(opened.with_llm(MeteredLLM(opened.llm, budget)), sessions, name, where, settings, chosen)
    with record_step("agent") as trace:
        outcome = run_agent(
            question,
            toolbox,
            as_agent_model(opened.llm, on_text=None if on_event is None else lambda text: emit(TokenEvent(text))),
            instructions=build_instructions(
                chosen,
                is_requested=chosen.text != question,
                known_documents=_read_numbered_titles(opened, sessions, name),
            ),
            history=history,
            budget=budget,
            max_calls=settings.agent.max_calls,
            max_tokens=settings.answer.max_tokens,
            first_tools=choose_first_tools(chosen) if opened.llm.name.startswith(GUIDED) else (),
            on_event=emit,
        )
        trace.out = len(outcome.results)
        usage = budget.usage
        trace.notes |= {
            "calls": budget.tool_calls,
            "tokens": usage.input_tokens + usage.output_tokens,
            "cost": budget.cost,
        }
        if outcome.reason:
            trace.notes["stopped"] = outcome.reason
    numbers = sessions.get_document_numbers(name)
    context = _merge_tool_results(query, outcome.results, numbers)
    if outcome.failure is not None and not context.passages:
        raise outcome.failure
    found = FoundContext(query, context, numbers=numbers, session=name)
    if outcome.reason:
        answer = answer_verbatim(replace(opened, sessions=sessions), found, settings, on_event=emit)
        fault = str(outcome.failure or "")
        text = answer.text if answer.found else f"{STOPPED} {fault or outcome.reason}"
        return replace(answer, text=text, usage=budget.usage, reason="" if fault else outcome.reason, fault=fault)
    shown = [passage for result in reversed(outcome.results) for passage in result.citable]  # newest first
    made = write_answer(
        [outcome.text],
        make_checker(opened, shown, question, settings),
        on_event=emit,
        numbers=numbers,
        unsupported=settings.answer.unsupported,
    )
    reason = "" if made.is_answer else made.no_answer_reason if outcome.results else _explain_no_results(budget, trace)
    answer = build_model_answer(found, made, usage=budget.usage, reason=reason)
    return replace(answer, fault=answer.fault or outcome.cut_off)


def agent_stream(
    engine: "Engine",
    question: str,
    *,
    history: Sequence[Message] = (),
    session: str | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    settings: Settings | None = None,
) -> EventStream:
    """Stream the events of `agent`, ending with a FinalEvent; the options are those of `agent`.

    TokenEvents stream the model's text. Each tool call emits a StepStartEvent and a StepEvent. Once the model has
    answered, a SentenceEvent and a VerdictEvent follow for each sentence.
    """
    return EventStream(
        lambda on_event: agent(
            engine,
            question,
            history=history,
            session=session,
            strategy=strategy,
            where=where,
            on_event=on_event,
            settings=settings,
        )
    )


def tools(
    engine: "Engine",
    *,
    session: str | None = None,
    where: Filter = EVERYTHING,
    settings: Settings | None = None,
) -> Toolbox:
    """Return the agent's tools, for a program or another agent framework; documents are numbered within `session`."""
    opened = engine.opened.within(where)
    settings = opened.resolve_settings(settings)
    sessions, name = (opened.sessions, session) if session else (Sessions(), NO_SESSION)
    return _make_toolbox(opened, sessions, name, where, settings, Route(settings.search.strategy, "", ""))


def _explain_no_results(budget: AgentBudget, trace: Trace) -> str:
    """Explain why an agent got no results from its tools."""
    if not budget.tool_calls:
        return "the model called no tool"
    errors = [str(step.notes["error"]) for step in trace.steps if "error" in step.notes]
    return f"every tool call of the model failed; the last: {errors[-1]}" if errors else "the tools found nothing"


def _override_strategy(opened: Opened, settings: Settings, strategy: str | None) -> Settings:
    if strategy is None:
        return settings
    if strategy not in opened.finder.strategies:
        raise unknown_name_error("strategy", strategy, opened.finder.strategies)
    return replace(settings, search=replace(settings.search, strategy=strategy))


def _make_toolbox(
    opened: Opened, sessions: Sessions, session: str, where: Filter, settings: Settings, chosen: Route
) -> Toolbox:
    within_session = replace(opened, sessions=sessions)
    shape = replace(
        settings,
        context=replace(settings.context, render="knowledge_base", wrap="xml", tag="knowledge_base"),
    )

    def search(query: str, limit: int, strategy: str, only: Filter) -> Context:
        request = make_query_from_text_or_table(query, limit, only, (), shape)
        hits = opened.finder.find(request, strategy, shape)
        return assemble_context(within_session, request, hits, session=session, settings=shape)

    def sentences(document: Document, query: str) -> Sequence[Span]:
        return _find_best_sentences(opened, document, query, settings)

    def read(document: Document, query: str) -> DocumentQuotes:
        return extract_quotes(
            document,
            query,
            opened.llm,
            sentences,
            window=settings.llm.window,
            max_tokens=settings.answer.max_tokens,
            max_concurrent=settings.ingestion.max_concurrent,
        )

    return Toolbox(
        ToolBackend(
            search=search,
            list_documents=opened.store.documents,
            load_document=opened.store.document,
            load_chunks=opened.store.chunks,
            extract_quotes=read,
            has_channel=lambda channel: bool(opened.store.latest_chunks(channel, 1)),
            sessions=sessions,
            session=session,
            where=where,
            default_strategy=chosen.strategy
            if chosen.strategy in ("semantic", "lexical")
            else settings.search.strategy,
            window=settings.llm.window,
        )
    )


def _find_best_sentences(opened: Opened, document: Document, query: str, settings: Settings) -> Sequence[Span]:
    """Find the spans of the sentences of a document that answer best."""
    inside = Filter(documents=frozenset({document.id}))
    hits = opened.finder.find(build_query(query, settings.search.k, inside, (), settings), "hybrid", settings)
    passages = [
        NumberedPassage(number, as_merged_chunk(hit), hit.document, ((hit.chunk.start, hit.chunk.text),))
        for number, hit in enumerate(hits, 1)
    ]
    reader = QuestionReader(query, opened.get_reranker_or_overlap(settings))
    return find_best_spans(reader, passages, count=settings.answer.passages)


def _read_numbered_titles(opened: Opened, sessions: Sessions, session: str) -> dict[int, str]:
    """Read the titles of the documents of a session, by number."""
    numbers = sessions.get_document_numbers(session)
    records = opened.store.documents(Filter(documents=frozenset(numbers))) if numbers else ()
    return dict(sorted((numbers[record.id], get_display_name(record)) for record in records))


def _merge_tool_results(query: Query, results: Sequence[ToolResult], numbers: dict[str, int]) -> Context:
    """Merge the results of all tools into one context, each passage once."""
    shown: dict[object, NumberedPassage] = {
        (each.record.id, each.pieces): each for result in results for each in result.citable
    }
    contexts = [result.context for result in results if result.context is not None]
    hits: dict[str, Hit] = {hit.chunk.id: hit for each in shown.values() for hit in each.passage.chunks}
    records = {each.record.id: each.record for each in shown.values()}
    return Context(
        query=query,
        passages=tuple(each.passage for each in shown.values()),
        text="\n\n".join(result.text for result in results),
        tokens=sum(context.tokens for context in contexts),
        documents=tuple(records.values()),
        reason="" if hits else "the tools found nothing",
        citations=tuple(dict.fromkeys(cited for context in contexts for cited in context.citations)),
        numbers={doc_id: numbers[doc_id] for doc_id in records},
    )
