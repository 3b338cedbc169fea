"""The entry point of the read path: runs a strategy by its name, with an LRU cache of results."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np

from clew.core.calibration import Calibration
from clew.core.errors import DriverMissing, SettingsError
from clew.core.facets import expand_filter
from clew.core.filter import EVERYTHING, Filter, Meta
from clew.core.ids import digest
from clew.core.lru import LRUCache, LRUEmbedder
from clew.core.parallel import run_parallel
from clew.core.protocols import LLM, Embedder, Reranker, Step, Store, Strategy
from clew.core.settings import ConversationConfig, RerankerConfig, SearchConfig, Settings
from clew.core.small_talk import is_small_talk
from clew.core.thread import THREAD_KIND
from clew.core.trace import is_recording, step
from clew.core.types import Chunk, DocumentRecord, Hit, Message, Query
from clew.query.rank.dedupe import dedupe_chunks
from clew.query.search.analyse import find_query_language
from clew.query.search.compose import check_hits, run_step
from clew.query.search.conversation import SplitText
from clew.query.search.direct import can_search_directly, search_directly
from clew.query.search.evidence import assess
from clew.query.search.message_boost import boost_messages
from clew.query.search.new_topic import is_new_topic
from clew.query.search.strategies import STRATEGIES, Drivers, StrategyFactory

log = logging.getLogger("clew")
MAX_K = 1_000_000
MAX_FILTERS = 64  # of which is kept whether they admit messages
BATCH_SIZE = 64  # queries that are searched in one pass
_STORE_ONLY = frozenset({"semantic", "lexical", "hybrid", "document_boost"})  # built-in strategies that ask no model
_MESSAGES = Filter(kinds=frozenset({THREAD_KIND}))
Prepared = tuple[Drivers, Strategy]  # a strategy, and what it was made of
LoadReranker = Callable[[RerankerConfig], Reranker | None]
MakeSplitter = Callable[[ConversationConfig], SplitText]  # the storage chunker at the sizes of a conversation


class Finder:
    """Searches by any strategy that has a name; caches query vectors, results and rerankers."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        llm: LLM | None,
        load_reranker: LoadReranker,
        make_splitter: MakeSplitter,
        strategies: Mapping[str, StrategyFactory],
        cache_size: int,
    ) -> None:
        self.strategies = {**STRATEGIES, **strategies}
        self._is_builtin = STRATEGIES.items() <= self.strategies.items()  # none is replaced by the user's own
        self._store = store
        self._boundary = EVERYTHING
        self._embedder = LRUEmbedder(embedder)
        self._llm = llm
        self._load_reranker = load_reranker
        self._make_splitter = make_splitter
        self._results: LRUCache[list[Hit]] = LRUCache(cache_size)
        self._rerankers: dict[RerankerConfig, Reranker | None] = {}
        self._calibrations: LRUCache[tuple[Calibration | None]] = LRUCache(1)  # by change number
        self._messages: LRUCache[bool] = LRUCache(min(cache_size, MAX_FILTERS))  # whether there are any, in a filter

    def with_llm(self, llm: LLM) -> "Finder":
        """The same finder with another language model; both share the caches."""
        other = copy(self)
        other._llm = llm
        return other

    def with_reranker(self, wrap: Callable[[Reranker], Reranker]) -> "Finder":
        """The same finder with another reranker around its own; both share the other caches."""
        other = copy(self)
        other._rerankers = {}
        other._load_reranker = lambda config: wrap(own) if (own := self.get_reranker(config)) else None
        return other

    def within(self, store: Store, where: Filter) -> "Finder":
        """The same finder over a store that shows what a filter admits; both share the caches."""
        other = copy(self)
        other._store, other._boundary = store, where
        return other

    def _at_one_state(self) -> "Finder":
        """The same finder for one search, or one batch, which reads the state of the collection once."""
        other = copy(self)
        other._store = self._store.at_one_state()
        return other

    def find(self, query: Query, name: str, settings: Settings) -> list[Hit]:
        """The k best hits of a strategy, each chunk once.

        Results are cached until the collection changes, unless a strategy of the user's own takes part.
        """
        finder = self._at_one_state() if self._asks_store_only(name) else self
        return finder._find(query, name, settings)

    def _find(self, query: Query, name: str, settings: Settings, prepared: Prepared | None = None) -> list[Hit]:
        """The k best hits of a strategy; `prepared` is that strategy, for many queries."""
        with step("search") as trace:
            key = self._make_cache_key(query, name, settings)
            if trace.is_recorded:
                trace.notes["strategy"] = name
                if query.text:
                    trace.notes["language"] = find_query_language(query.text, settings.ingestion.language)
                if not trace.is_brief and (pending := self._store.describe_pending()):
                    trace.notes["pending"] = pending
            hits = self._results.get(key) if key else None
            if hits is None:
                is_stepwise = prepared or (trace.is_recorded and not trace.is_brief)
                hits = None if is_stepwise else self._find_directly([query], name, settings)[0]
                if hits is None:
                    trace.steps.clear()  # of an attempt to find them directly
                    hits = self._find_by_strategy(query, name, settings, prepared or self._prepare(name, settings))
                if key:
                    self._results.put(key, hits)
            else:
                trace.notes["cached"] = True
            trace.set_output(hits)
        return [_copy_hit(hit) for hit in hits]

    def _find_by_strategy(self, query: Query, name: str, settings: Settings, prepared: Prepared) -> list[Hit]:
        drivers, strategy = prepared
        expanded = query
        if query.history and not is_small_talk(query.text):  # "ok" needs no expansion: it asks nothing
            from clew.query.rewrite.rewrites import build_expander, expand_if_elliptic

            compare = partial(is_new_topic, drivers.evidence)
            expanded = expand_if_elliptic(query, build_expander(settings.history), compare)
        found = strategy(expanded)
        hits = dedupe_chunks(check_hits(found, f"strategy {name!r}"))
        weighs_messages = query.channel is not None or query.now is not None
        every = weighs_messages or settings.search.has_floor  # any hit may be among the k best
        hits = assess(drivers.evidence, every=every)(expanded, hits)
        if settings.search.has_floor:
            hits = run_step(drop_below_minimum(settings.search), expanded, hits)
        if weighs_messages:
            hits = run_step(boost_messages(settings.scoring), expanded, hits)
        return hits[: query.k]

    def _find_directly(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit] | None]:
        """The hits of queries whose strategy only ranks what the store finds; None where it does more."""
        if self._asks_store_only(name):
            drivers = self.build_drivers(settings)
            if can_search_directly(name, drivers, queries[0], self._has_messages):
                return search_directly(name, drivers, queries)
        return [None] * len(queries)

    def find_many(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        """The hits of each query, all embedded in one batch; searched in parallel, or in one pass if that is faster."""
        if queries:  # a search by words needs the vectors too, for the relevance of its hits
            vectors = self._embedder.embed([query.text for query in queries], role="query")
            queries = [replace(query, vector=vector) for query, vector in zip(queries, vectors, strict=True)]
        if not self._asks_store_only(name):
            return self._find_in_parallel(queries, name, settings)
        found: list[list[Hit]] = []
        for start in range(0, len(queries), BATCH_SIZE):
            some = queries[start : start + BATCH_SIZE]
            finder = self._at_one_state()
            batch = None if is_recording() else finder._find_batch(some, name, settings)
            if batch is None:
                prepared = finder._prepare(name, settings)
                if not finder._begin_searches(some, name, prepared[0]):
                    return finder._find_in_parallel(queries, name, settings)
                batch = [finder._find(query, name, settings, prepared) for query in some]
            found += batch
        return found

    def _find_batch(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]] | None:
        """The hits of queries that were not found before, in one pass; None where they are searched one by one."""
        keys = [self._make_cache_key(query, name, settings) for query in queries]
        known = [self._results.get(key) if key else None for key in keys]
        missing = [query for query, hits in zip(queries, known, strict=True) if hits is None]
        fresh = iter(self._find_directly(missing, name, settings) if missing else [])
        found = [next(fresh) if hits is None else hits for hits in known]
        whole = [hits for hits in found if hits is not None]
        if len(whole) < len(found):
            return None
        for key, hits in zip(keys, whole, strict=True):
            if key:
                self._results.put(key, hits)
        return [[_copy_hit(hit) for hit in hits] for hits in whole]

    def _find_in_parallel(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        calls = [partial(self.find, query, name, settings) for query in queries]
        return run_parallel(calls, max_concurrent=os.cpu_count() or 1)  # more would only compete for the cores

    def _prepare(self, name: str, settings: Settings) -> Prepared:
        drivers = self.build_drivers(settings)
        return drivers, drivers.build_strategy(name)

    def _asks_store_only(self, name: str) -> bool:
        """Whether a strategy is a built-in one that asks no model but the embedder: it takes milliseconds."""
        return self._is_builtin and name in _STORE_ONLY

    def _begin_searches(self, queries: Sequence[Query], name: str, drivers: Drivers) -> bool:
        """Tells the store what is searched next; False where searches are better made in parallel."""
        search = drivers.settings.search
        vectors = [query.vector for query in queries if query.vector is not None]
        if search.mode != "ann" or search.nprobe is not None:  # what is searched in one pass is searched as by default
            vectors = []
        depth = max(query.depth if name == "hybrid" else max(query.k * search.overfetch, 15) for query in queries)
        made = np.stack(vectors) if vectors else np.empty((0, self._embedder.dim), np.float32)
        evidence = drivers.evidence
        terms = [evidence.extract_terms(query) for query in queries]
        return self._store.begin_searches(made, terms, depth, queries[0].where)

    def get_reranker(self, config: RerankerConfig) -> Reranker | None:
        """The reranker of the settings, loaded once; None, and a warning, where it is not installed."""
        if config not in self._rerankers:
            try:
                self._rerankers[config] = self._load_reranker(config)
            except DriverMissing as error:
                log.warning("%s", error)
                self._rerankers[config] = None
        return self._rerankers[config]

    def build_drivers(self, settings: Settings) -> Drivers:
        """What a strategy works with under these settings."""
        return Drivers(
            self._store,
            self._embedder,
            settings,
            partial(self.get_reranker, settings.reranker),
            self._llm,
            self._make_splitter(settings.conversation),
            self.strategies,
            self._read_calibration(),
            self._has_messages,
        )

    def _read_calibration(self) -> Calibration | None:
        """The calibration of the collection; read again after every change."""
        change = str(self._store.change_number())
        known = self._calibrations.get(change)
        if known is None:
            known = (Calibration.from_json(self._store.calibration(), self._embedder.name),)
            self._calibrations.put(change, known)
        return known[0]

    def _has_messages(self) -> bool:
        """Whether there are messages to find; looked up again after every change.

        Within a filter the index is asked: to look through the channels would take as long as there are many.
        """
        key = f"{self._store.change_number()} {expand_filter(self._boundary)}"
        found = self._messages.get(key)
        if found is None:
            if self._boundary == EVERYTHING:
                found = bool(self._store.channels())
            else:
                vector = np.eye(1, self._embedder.dim, dtype=np.float32)[0]  # any would do
                found = bool(self._store.search_vectors(vector, 1, _MESSAGES))
            self._messages.put(key, found)
        return found

    def _make_cache_key(self, query: Query, name: str, settings: Settings) -> str:
        """The key of the result; empty where it is not cached: a strategy of one's own may depend on anything."""
        if settings.search.cache <= 0 or not self._is_builtin or name not in STRATEGIES:
            return ""
        seen = map(expand_filter, (self._boundary, query.where))  # filters may look alike and admit something else
        asked = f"{replace(query, vector=None)!r} {tuple(seen)}"
        return digest(str(self._store.change_number()), name, asked, repr(settings))


def build_query(
    text: str,
    k: int,
    where: Filter,
    history: Sequence[Message],
    settings: Settings,
    *,
    channel: str | None = None,
    now: datetime | None = None,
) -> Query:
    """The query for a question under the settings, or SettingsError for one that cannot be searched.

    `channel` is where it is asked and `now` when: messages of that channel and newer ones then rank higher.
    """
    if not text.strip():
        raise SettingsError("the query is empty; ask something")
    if len(text) > (limit := settings.search.max_query_chars):
        advice = "shorten it, or raise search.max_query_chars"
        raise SettingsError(f"the query has {len(text):,} characters, and the limit is {limit:,}; {advice}")
    if k < 1:
        raise SettingsError(f"k is {k}; it must be at least 1")
    if k > MAX_K or k % 1:  # neither is 2.5; asking a range would count up to it
        raise SettingsError(f"k is {k}; it must be a whole number of at most {MAX_K}")
    depth = max(settings.search.depth, k)
    return Query(text, k=k, depth=depth, history=tuple(history), where=where, channel=channel, now=now)


def drop_below_minimum(config: SearchConfig) -> Step:
    """A step that drops the hits below the minimum of similarity or relevance."""
    lowest = -1.0 if config.min_similarity is None else config.min_similarity

    def minimum(_: Query, hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if not hit.similarity < lowest and hit.relevance >= config.min_relevance]

    return minimum


def _copy_hit(hit: Hit) -> Hit:
    """The hit with dicts and lists of its own: a caller who changes them changes neither the cache nor the index."""
    of = hit.chunk  # not by `replace`, which takes more than twice as long, for every hit of every search
    head = of.id, of.doc_id, of.index, of.total, of.text, of.start, of.end, of.headings, of.context
    chunk = Chunk(*head, of.at, _copy_meta(of.meta))
    document = _copy_record(hit.document)
    return Hit(chunk, document, hit.score, dict(hit.scores), hit.similarity, hit.relevance)


def _copy_record(of: DocumentRecord) -> DocumentRecord:
    head = of.id, of.title, of.uri, of.kind, of.hash, of.stamp, of.chars, of.chunks, of.summary
    return DocumentRecord(*head, _copy_meta(of.meta), of.access, of.summary_by, of.created, of.updated, of.language)


def _copy_meta(meta: Meta) -> Meta:
    return {key: list(value) if isinstance(value, list) else value for key, value in meta.items()}
