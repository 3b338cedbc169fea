"""Overhead of the strategies: the time of a search over that of the model and store calls inside it.

The rest is our own work: rewriting, fusing, ordering. Concurrent calls count once, by the time they span.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar, cast

from benchmarks import Measurement, Setup, p50, time_interleaved
from benchmarks.corpus import CorpusText, load_scifact
from benchmarks.search import NO_CACHE
from clew import Document, Engine, Extensions, Message, Settings, drivers
from clew.core.protocols import Embedder, Reranker, Role, Strategy
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.store.store import Store
from clew.query.search.strategies import STRATEGIES, Drivers, StrategyFactory
from studies.measures import Span, count_characters, merge_spans

P = ParamSpec("P")
T = TypeVar("T")
MODELS = ("wordllama", "bge-small")
QUICK_QUESTIONS, SLOW_QUESTIONS = 60, 10  # fewer where a cross-encoder is used
BATCH_SIZE = 64
PLAIN = ("semantic", "lexical", "hybrid")
RERANKING = ("rerank", "self_reflective")
CONVERSATION_MESSAGES = 120  # of a conversation that is split into topics


@dataclass(frozen=True, slots=True)
class QueryEmbedder:
    """A model for queries only; passages get fast vectors of the same width, as the benchmark adds thousands."""

    model: Embedder
    quick: Embedder
    min_similarity: float = -1.0

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def dim(self) -> int:
        """The model's."""
        return self.model.dim

    @property
    def max_tokens(self) -> int:
        """The model's."""
        return self.model.max_tokens

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Queries by the model, passages by the fast embedder."""
        return (self.model if role == "query" else self.quick).embed(texts, role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Counts by the fast embedder."""
        return self.quick.count(texts)


@dataclass(slots=True)
class CallClock:
    """The time spans of calls, in nanoseconds."""

    spans: list[Span] = field(default_factory=list)

    def wrap_call(self, call: Callable[P, T]) -> Callable[P, T]:
        """The same call with its time recorded; an iterator is consumed within that time."""

        def run(*args: P.args, **named: P.kwargs) -> T:
            began = perf_counter_ns()
            try:
                result = call(*args, **named)
                return cast("T", iter(list(result))) if isinstance(result, Iterator) else result
            finally:
                self.spans.append((began, perf_counter_ns()))

        return run

    def take_seconds(self) -> float:
        """The time of all calls since the last take, overlaps counted once."""
        spans, self.spans = self.spans, []
        return count_characters(merge_spans(spans)) / 1e9


class TimedProxy:
    """A proxy of any object that records the time of its method calls."""

    def __init__(self, inner: object, clock: CallClock) -> None:
        self._inner = inner
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._clock.wrap_call(found) if callable(found) else found


def measure_overhead(setup: Setup) -> Iterator[Measurement]:
    """The p50 of each strategy over the p50 of its calls, with both models."""
    corpus, questions = load_scifact(setup)
    for model in MODELS:
        yield from _measure_overhead(model, corpus, questions)


def measure_search_many(setup: Setup) -> Iterator[Measurement]:
    """`search_many` of 64 questions over 64 searches, and the same ratio for embedding alone."""
    corpus, questions = load_scifact(setup)
    for model in MODELS:
        yield from _measure_search_many(model, corpus, questions)


def _measure_overhead(
    model: str, corpus: Sequence[CorpusText], questions: Sequence[CorpusText]
) -> Iterator[Measurement]:
    clock = CallClock()
    factories = {f"timed {name}": _time_drivers(factory, clock) for name, factory in STRATEGIES.items()}
    factories["chunked"] = factories.pop("timed chunked")  # what a conversation is searched with, whatever is named
    with _open_engine(model, corpus, strategies=factories) as engine:
        _time_relevance(engine, clock)
        for name in STRATEGIES:
            count = SLOW_QUESTIONS if name in RERANKING else QUICK_QUESTIONS
            total, inside = _time_searches(engine, name, [each.text for each in questions], count, clock)
            yield Measurement(f"{name} / its model and store calls, {model}", p50(total) / p50(inside), "≤ 1.2")


def _time_searches(
    engine: Engine, name: str, texts: Sequence[str], count: int, clock: CallClock
) -> tuple[list[float], list[float]]:
    """The seconds of each search, and those of the calls inside it."""
    total, inside = [], []
    for at in range(-3, count):  # the first three warm up
        query: Any = (
            [Message(text) for text in texts[at % 50 :][:CONVERSATION_MESSAGES]] if name == "chunked" else texts[at]
        )
        clock.take_seconds()
        began = perf_counter_ns()
        engine.search(query, k=10, strategy=_name_timed(name))
        took = (perf_counter_ns() - began) / 1e9
        if at >= 0:
            total.append(took)
            inside.append(clock.take_seconds())
    return total, inside


def _name_timed(name: str) -> str | None:
    """The strategy whose calls are timed; a plain one by its own name, as only then it takes the short way."""
    return None if name == "chunked" else name if name in PLAIN else f"timed {name}"


def _time_relevance(engine: Engine, clock: CallClock) -> None:
    """Times the calls of the engine's own step after a strategy, too: those for similarity and relevance."""
    finder = engine.opened.finder
    build = finder.build_drivers

    def build_timed(settings: Settings) -> Drivers:
        made = build(settings)
        store, embedder = TimedProxy(made.store, clock), TimedProxy(made.embedder, clock)
        return replace(made, store=cast("Store", store), embedder=cast("Embedder", embedder))

    finder.build_drivers = build_timed  # type: ignore[method-assign]


def _time_drivers(factory: StrategyFactory, clock: CallClock) -> StrategyFactory:
    """The same factory with drivers whose calls are timed."""

    def make(given: Drivers) -> Strategy:
        def reranker() -> Reranker | None:
            found = given.reranker()
            return cast("Reranker", TimedProxy(found, clock)) if found else None

        store, embedder = (
            cast("Store", TimedProxy(given.store, clock)),
            cast("Embedder", TimedProxy(given.embedder, clock)),
        )
        return factory(replace(given, store=store, embedder=embedder, reranker=reranker))

    return make


def _measure_search_many(
    model: str, corpus: Sequence[CorpusText], questions: Sequence[CorpusText]
) -> Iterator[Measurement]:
    with _open_engine(model, corpus) as engine:
        embedder = engine.opened.embedder

        def fresh(round_: int) -> tuple[Engine, list[str]]:
            """An engine over the same store without cached queries, and 64 questions."""
            some = questions[BATCH_SIZE * (round_ % 5) :][:BATCH_SIZE]
            opened = replace(engine.opened, settings=NO_CACHE).with_store(engine.opened.store, embedder)
            return Engine(opened), [each.text for each in some]

        def single(round_: int, strategy: str) -> None:
            uncached, texts = fresh(round_)
            for text in texts:
                uncached.search(text, k=10, strategy=strategy)

        def many(round_: int, strategy: str) -> None:
            uncached, texts = fresh(round_)
            uncached.search_many(texts, k=10, strategy=strategy)

        def embedded(round_: int, at_once: int) -> None:
            _, texts = fresh(round_)
            for start in range(0, BATCH_SIZE, at_once):
                embedder.embed(texts[start : start + at_once], role="query")

        one, all_ = time_interleaved(partial(embedded, at_once=1), partial(embedded, at_once=BATCH_SIZE), rounds=7)
        yield Measurement(
            f"embedding {BATCH_SIZE} questions in one call / in {BATCH_SIZE} calls, {model}", p50(all_) / p50(one)
        )
        for strategy in ("hybrid", "semantic"):
            calls = (partial(many, strategy=strategy), partial(single, strategy=strategy))
            ours, alone = time_interleaved(*calls, rounds=7)
            yield Measurement(
                f"search_many of {BATCH_SIZE} / {BATCH_SIZE} searches, {strategy}, {model}",
                p50(ours) / p50(alone),
                "≤ 0.4",
            )


def _open_engine(
    model: str, corpus: Sequence[CorpusText], strategies: dict[str, StrategyFactory] | None = None
) -> Engine:
    query_model = drivers.make_embedder(EmbedderConfig(name=model))
    quick = drivers.make_embedder(EmbedderConfig(name=f"hashed:{query_model.dim}"))
    engine = Engine.open(
        ":memory:",
        embedder=QueryEmbedder(query_model, quick),
        settings=NO_CACHE,
        extensions=Extensions(strategies=strategies or {}),
    )
    engine.add_documents(Document(each.id, each.text) for each in corpus)
    return engine
