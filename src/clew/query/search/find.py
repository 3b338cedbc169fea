"""The read path as the engine calls it: a strategy by its name, what it may use, and what was found a moment ago."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

from clew.core.errors import DriverMissing, NotFound, SettingsError
from clew.core.ids import digest
from clew.core.lru import LRUCache, LRUEmbedder
from clew.core.parallel import run_parallel
from clew.core.protocols import LLM, Embedder, Reranker, Store
from clew.core.settings import ConversationConfig, RerankerConfig, Settings
from clew.core.trace import step
from clew.core.types import Filter, Hit, Message, Query
from clew.query.rank.dedupe import by_chunk
from clew.query.rewrite.queries import history_aware
from clew.query.search.conversation import Cut
from clew.query.search.strategies import STRATEGIES, Drivers, StrategyFactory

log = logging.getLogger("clew")
MOST = 1_000_000  # hits that can be asked for
Load = Callable[[RerankerConfig], Reranker | None]
Cutter = Callable[[ConversationConfig], Cut]  # the storage chunker at the sizes of a conversation


class Finder:
    """Finds by any strategy that has a name; keeps query vectors, results and the reranker for the next time."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        llm: LLM | None,
        load: Load,
        cutter: Cutter,
        strategies: Mapping[str, StrategyFactory],
        cache: int,
    ) -> None:
        self.strategies = dict(strategies)
        self._store = store
        self._embedder = LRUEmbedder(embedder)
        self._llm = llm
        self._load = load
        self._cutter = cutter
        self._found: LRUCache[list[Hit]] = LRUCache(cache)
        self._rerankers: dict[RerankerConfig, Reranker | None] = {}

    def with_model(self, llm: LLM) -> "Finder":
        """The same finder over another language model; what is kept is kept for both."""
        other = copy(self)
        other._llm = llm
        return other

    def find(self, query: Query, name: str, settings: Settings) -> list[Hit]:
        """The k best hits of a strategy, each chunk once; those of a built-in one are kept until something changes."""
        if name not in self.strategies:
            raise NotFound(f"there is no strategy {name!r}; there are {', '.join(self.strategies)}")
        maker = self.strategies[name]
        keep = settings.search.cache > 0 and maker is STRATEGIES.get(name)
        key = (
            digest(str(self._store.change_number()), name, repr(replace(query, vector=None)), repr(settings))
            if keep
            else ""
        )
        with step("search") as trace:
            trace.notes["strategy"] = name
            hits = self._found.get(key) if keep else None
            if hits is None:
                reranker = partial(self.reranker, settings.reranker)
                cut = self._cutter(settings.conversation)
                strategy = maker(Drivers(self._store, self._embedder, settings, reranker, self._llm, cut))
                asked = history_aware()(query) if query.history and query.text else query
                hits = by_chunk(strategy(asked))[: query.k]
                if keep:
                    self._found.put(key, hits)
            else:
                trace.notes["cached"] = True
            trace.set_output(hits)
        return list(hits)

    def find_many(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        """The hits of each query, all embedded in one call and searched at once."""
        if name != "lexical" and queries:
            vectors = self._embedder.embed([query.text for query in queries], role="query")
            queries = [replace(query, vector=vector) for query, vector in zip(queries, vectors, strict=True)]
        calls = [partial(self.find, query, name, settings) for query in queries]
        return run_parallel(calls, workers=os.cpu_count() or 1)  # more would only fight for the cores

    def reranker(self, config: RerankerConfig) -> Reranker | None:
        """The reranker of the settings, loaded once; None, and a warning, where it is not installed."""
        if config not in self._rerankers:
            try:
                self._rerankers[config] = self._load(config)
            except DriverMissing as error:
                log.warning("%s", error)
                self._rerankers[config] = None
        return self._rerankers[config]


def build_query(text: str, k: int, where: Filter, history: Sequence[Message], settings: Settings) -> Query:
    """The query that a question makes under the settings; what cannot be asked is refused."""
    if not text.strip():
        raise SettingsError("the query is empty; ask something")
    if k < 1:
        raise SettingsError(f"k is {k}; it must be at least 1")
    if k > MOST or k % 1:  # neither is 2.5; asking a range would count up to it
        raise SettingsError(f"k is {k}; it must be a whole number of at most {MOST}")
    return Query(text, k=k, depth=max(settings.search.depth, k), history=tuple(history), where=where)
