"""The verb that lets a model choose its own searches, and the tools it does so with."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from clew.core.answer import Answer
from clew.core.cost import price_of
from clew.core.errors import NotFound, SettingsError
from clew.core.protocols import LLM
from clew.core.settings import Settings
from clew.core.trace import Trace
from clew.core.types import EVERYTHING, Context, Document, Filter, Hit, Message, Query
from clew.engine.answering import Answering
from clew.query.agent import Counted, Reading, Result, Sources, Spending, Toolbox, chain, instructions, quotes
from clew.query.agent.lookup import name_of
from clew.query.agent.steps import watched
from clew.query.answer import Shown, extracted, written
from clew.query.context.session import Sessions
from clew.query.rewrite.route import Route, route
from clew.query.search.find import build_query

ALONE = "one question"  # the session of a question that belongs to none
Span = tuple[int, int]


class Agentic(Answering):
    """Asking an agent, and its tools for other agents."""

    def agent(
        self,
        question: str,
        *,
        history: Sequence[Message] = (),
        session: str | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        hear: Callable[[str], None] | None = None,
        watch: Callable[[Trace], None] | None = None,
        settings: Settings | None = None,
    ) -> Answer:
        """What a language model answers that searches the collection itself, its sentences checked as `ask` does.

        It calls tools until it can answer, a limit of `settings.agent` is reached, or the model fails; then the best
        sentences of what it found stand in, and `reason`, or `fault`, says so. Its steps are in the trace, and `watch`
        gets each when it is taken. `hear` gets each sentence when it is checked. A `strategy` is that of its plain
        searches.
        """
        settings = settings or self._settings
        if strategy is not None:
            if strategy not in self.strategies:
                raise NotFound(f"there is no strategy {strategy!r}; there are {', '.join(self.strategies)}")
            settings = replace(settings, search=replace(settings.search, strategy=strategy))
        if self._llm is None:
            raise SettingsError(
                "an agent needs a language model and none is set; name one (llm.name, --llm), or use `ask`"
            )
        build_query(question, 1, where, history, settings)  # refuses what cannot be asked
        guided = self._llm.name.startswith("local:") if settings.agent.guided is None else settings.agent.guided
        spending = Spending(self._llm, settings.agent, price_of(settings.llm, self._llm.name))
        metered = self._with_model(Counted(self._llm, spending))
        found = route(question, turns=0)
        sessions, name = (self.sessions, session) if session else (Sessions(), ALONE)
        toolbox = metered._toolbox(sessions, name, where, settings, found)
        from clew.query.agent.loop import run

        with watched("agent") as trace:
            outcome = run(
                question,
                toolbox,
                self._llm.model(),
                instructions=instructions(found, named=found.text != question, known=self._titles(sessions, name)),
                history=history,
                spending=spending,
                max_calls=settings.agent.max_calls,
                max_tokens=settings.answer.max_tokens,
                chain=chain(found) if guided else (),
                watch=watch,
            )
            trace.out = len(outcome.results)
            trace.notes |= {"calls": spending.calls, "tokens": sum(_tokens(spending)), "cost": spending.cost}
            if outcome.reason:
                trace.notes["stopped"] = outcome.reason
        numbers = sessions.numbers(name)
        context = _joined(build_query(question, 1, where, history, settings), outcome.results, numbers)
        if outcome.failure is not None and not context.passages:
            raise outcome.failure
        if outcome.reason:
            hits = sorted((hit for each in context.passages for hit in each.chunks), key=lambda hit: -hit.score)
            answer = self._extracted(question, hits, context, settings, numbers=numbers, hear=hear)
            fault = str(outcome.failure or "")
            return replace(answer, usage=spending.usage, reason="" if fault else outcome.reason, fault=fault)
        shown = _newest_first(outcome.results)
        made = written([outcome.text], shown, question=question, hear=hear, numbers=numbers)
        wanting = made.wanting if outcome.results else "the model called no tool"
        return Answer(
            question=question,
            text=made.shown,
            citations=made.citations,
            context=context,
            found=bool(made.citations),
            confidence=1.0 if made.citations else 0.0,
            removed=made.removed,
            usage=spending.usage,
            reason="" if made.citations else wanting,
            numbers={each.document: numbers[each.document] for each in made.citations},
        )

    def tools(
        self, *, session: str | None = None, where: Filter = EVERYTHING, settings: Settings | None = None
    ) -> Toolbox:
        """The agent's tools for a program, or for an agent of another make; documents are numbered by session."""
        settings = settings or self._settings
        sessions, name = (self.sessions, session) if session else (Sessions(), ALONE)
        return self._toolbox(sessions, name, where, settings, Route(settings.search.strategy, "", ""))

    # -- inside

    def _with_model(self, llm: LLM) -> Self:
        """The same engine over another language model."""
        other = copy(self)
        other._llm = llm
        other._finder = self._finder.with_model(llm)
        return other

    def _toolbox(self, sessions: Sessions, session: str, where: Filter, settings: Settings, found: Route) -> Toolbox:
        shape = replace(settings, context=replace(settings.context, wrap="xml", tag="knowledge_base"))
        engine = self
        if sessions is not self.sessions:
            engine = copy(self)
            engine.sessions = sessions

        def search(query: str, limit: int, strategy: str, only: Filter) -> Context:
            return engine.context(
                query,
                k=limit,
                strategy=strategy,
                where=only,
                session=session,
                render="knowledge_base",
                settings=shape,
            )

        def sentences(document: Document, query: str) -> Sequence[Span]:
            return self._best_sentences(document, query, settings)

        def read(document: Document, query: str) -> Reading:
            return quotes(
                document,
                query,
                self._llm,
                sentences,
                window=settings.llm.window,
                max_tokens=settings.answer.max_tokens,
                max_concurrent=settings.ingestion.max_concurrent,
            )

        plain = found.strategy if found.strategy in ("semantic", "lexical") else settings.search.strategy
        return Toolbox(
            Sources(
                search=search,
                records=self._store.documents,
                read=self._store.document,
                chunks=self._store.chunks,
                quotes=read,
                channels=lambda channel: bool(self._store.latest_chunks(channel, 1)),
                sessions=sessions,
                session=session,
                where=where,
                plain=plain,
                window=settings.llm.window,
            )
        )

    def _best_sentences(self, document: Document, query: str, settings: Settings) -> Sequence[Span]:
        """The places of the sentences of one document that answer best."""
        asked = build_query(query, settings.search.k, Filter(documents=frozenset({document.id})), (), settings)
        hits = self._finder.find(asked, "hybrid", settings)
        most = settings.answer.sentences
        found = extracted(query, hits, self.records(hits), self._judge(settings), most=most, least=0.0)
        return [(each.start, each.end) for each in found.citations]

    def _titles(self, sessions: Sessions, session: str) -> dict[int, str]:
        """What the documents of a conversation are called, by number."""
        numbers = sessions.numbers(session)
        known = self._store.documents(Filter(documents=frozenset(numbers))) if numbers else ()
        return dict(sorted((numbers[record.id], name_of(record)) for record in known))


def _newest_first(results: Sequence[Result]) -> list[Shown]:
    return [shown for result in reversed(results) for shown in result.shown]


def _joined(query: Query, results: Sequence[Result], numbers: dict[str, int]) -> Context:
    """All that the tools showed as one context, each stretch once."""
    shown = {(each.record.id, each.pieces): each for result in results for each in result.shown}
    contexts = [result.context for result in results if result.context is not None]
    hits: dict[str, Hit] = {hit.chunk.id: hit for each in shown.values() for hit in each.passage.chunks}
    records = {each.record.id: each.record for each in shown.values()}
    return Context(
        query=query,
        passages=tuple(each.passage for each in shown.values()),
        text="\n\n".join(result.text for result in results),
        tokens=sum(each.tokens for each in contexts),
        documents=tuple(records.values()),
        reason="" if hits else "the tools showed nothing",
        citations=tuple(dict.fromkeys(cited for each in contexts for cited in each.citations)),
        numbers={doc_id: numbers[doc_id] for doc_id in records},
    )


def _tokens(spending: Spending) -> tuple[int, int]:
    return spending.usage.input_tokens, spending.usage.output_tokens
