"""The entry point of the read path: runs a strategy by its name, with an LRU cache of results."""

import logging
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np

from clew.core.calibration import Calibration
from clew.core.candidates import Gone
from clew.core.errors import DriverFailed, DriverMissing, SettingsError
from clew.core.facets import expand_filter
from clew.core.filter import EVERYTHING, Filter, Meta
from clew.core.lru import LRUCache, LRUEmbedder
from clew.core.parallel import run_parallel
from clew.core.protocols import LLM, Embedder, Reranker, SearchableStore, Step, Strategy
from clew.core.settings import ConversationConfig, RerankerConfig, SearchConfig, Settings
from clew.core.small_talk import is_small_talk
from clew.core.thread import THREAD_KIND
from clew.core.trace import Trace, step
from clew.core.types import Chunk, DocumentRecord, Hit, Message, Query
from clew.query.messages.score import boost_messages
from clew.query.rank.dedupe import dedupe_chunks
from clew.query.search import rank
from clew.query.search.analyse import find_query_language
from clew.query.search.compose import check_hits, deepen, run_step
from clew.query.search.conversation import SplitText
from clew.query.search.evidence import assess
from clew.query.search.strategies import STRATEGIES, Drivers, StrategyFactory

log = logging.getLogger("clew")
MAX_K = 1_000_000
MAX_QUERY_CHARS = 100_000  # a long conversation; beyond it is a mistake, or an attack
MAX_FILTERS = 64  # filters for which to cache whether they admit messages
BATCH_SIZE = 64  # queries to search in one pass
PLAIN = frozenset({rank.SEMANTIC, rank.LEXICAL, rank.HYBRID})
_STORE_ONLY = PLAIN | {"document_boost"}  # built-in strategies that ask no model
MAX_ATTEMPTS = 50  # at a search whose chunks are removed before they are read
_MESSAGES = Filter(kinds=frozenset({THREAD_KIND}))
LoadReranker = Callable[[RerankerConfig], Reranker | None]
MakeSplitter = Callable[[ConversationConfig], SplitText]  # the storage chunker at the sizes of a conversation


class Finder:
    """The runner of named strategies; caches query vectors, results and rerankers."""

    def __init__(
        self,
        store: SearchableStore,
        embedder: Embedder,
        *,
        llm: LLM | None,
        load_reranker: LoadReranker,
        make_splitter: MakeSplitter,
        strategies: Mapping[str, StrategyFactory],
        cache_size: int,
    ) -> None:
        self.strategies = {**STRATEGIES, **strategies}
        self._is_builtin = STRATEGIES.items() <= self.strategies.items()  # no built-in is replaced
        self._store = store
        self._seen = store  # all that the engine may see
        self._boundary = self._limit = EVERYTHING  # the filters of `_store` and of `_seen`
        self._embedder = LRUEmbedder(embedder)
        self._llm = llm
        self._load_reranker = load_reranker
        self._make_splitter = make_splitter
        self._results: LRUCache[list[Hit]] = LRUCache(cache_size)
        self._rerankers: dict[RerankerConfig, Reranker | None] = {}
        self._calibrations: LRUCache[tuple[Calibration | None]] = LRUCache(1)  # by change number
        self._messages: LRUCache[bool] = LRUCache(MAX_FILTERS)  # whether a filter admits any

    def with_llm(self, llm: LLM) -> "Finder":
        """Return the same finder with another language model; both share the caches."""
        other = copy(self)
        other._llm = llm
        return other

    def with_reranker(self, wrap: Callable[[Reranker], Reranker]) -> "Finder":
        """Return the same finder with another reranker around its own; both share the other caches."""
        other = copy(self)
        other._rerankers = {}
        other._load_reranker = lambda config: wrap(own) if (own := self.get_reranker(config)) else None
        return other

    def with_strategy(self, name: str, strategy: Strategy) -> "Finder":
        """Return the same finder with one more strategy, which replaces any other of that name."""
        other = copy(self)
        other.strategies = {**self.strategies, name: lambda _: strategy}
        other._is_builtin = STRATEGIES.items() <= other.strategies.items()
        return other

    def within(self, store: SearchableStore, where: Filter, *, sees_more: bool = False) -> "Finder":
        """Return the same finder over a store limited to a filter; both share the caches.

        sees_more: Whether hits are still compared with all that this finder sees, as under the filter of a call.
        """
        other = copy(self)
        other._store, other._boundary = store, where
        if not sees_more:
            other._seen, other._limit = store, where
        return other

    def understand(self, query: Query, settings: Settings, llm: LLM | None = None) -> Query:
        """Return the query with a text that needs no history and its own words in `asked`; unchanged if `asked` is set.

        Search, context, ask and chat all rewrite queries here; `ask` passes the language model that will answer. The
        new words come from the conversation only, and the topic check reads only what may be seen, so nothing outside a
        filter gets in.
        """
        if not query.history or query.asked or is_small_talk(query.text):  # "ok" asks nothing
            return query
        from clew.query.rewrite.rewrites import make_standalone

        is_new_topic = self.build_drivers(settings).evidence.is_new_topic
        return replace(make_standalone(query, settings.history, is_new_topic, llm), asked=query.text)

    def find_anywhere(self, query: Query, name: str, settings: Settings) -> list[Hit]:
        """Find the k best hits in all that the engine may see, ignoring the filter of the call."""
        return self.within(self._seen, self._limit).find(replace(query, where=EVERYTHING), name, settings)

    def find(self, query: Query, name: str, settings: Settings) -> list[Hit]:
        """Find the k best hits of a strategy, each chunk once.

        Results are cached until the collection changes, unless a user's strategy takes part.
        """
        return self._search([query], name, settings)[0]

    def find_many(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        """Find hits for each query, embedded in one batch; searched together where that is faster, else in parallel."""
        if not queries:
            return []
        vectors = self._embedder.embed([query.text for query in queries], role="query")  # at least relevance needs them
        queries = [replace(query, vector=vector) for query, vector in zip(queries, vectors, strict=True)]
        if not self._is_plain(queries[0], name, settings):
            calls = [partial(self.find, query, name, settings) for query in queries]
            return run_parallel(calls, max_concurrent=os.cpu_count() or 1)  # more would only compete for the cores
        batches = (queries[start : start + BATCH_SIZE] for start in range(0, len(queries), BATCH_SIZE))
        return [hits for batch in batches for hits in self._search(batch, name, settings)]

    def _search(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        """Search one query, or several plain ones; retry if a chunk that was found is gone."""
        for _ in range(MAX_ATTEMPTS):
            finder = copy(self)
            if name in _STORE_ONLY and self._is_builtin:
                finder._store = self._store.at_one_state()
                finder._seen = finder._store if self._seen is self._store else self._seen.at_one_state()
            with suppress(Gone):
                return finder._search_once(queries, name, settings)
        raise DriverFailed("the collection changed faster than it could be searched; try again")

    def _search_once(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        with step("search") as trace:
            if trace.is_recorded:
                self._note_search(trace, queries[0], name, settings)
            keys = [self._make_cache_key(query, name, settings) for query in queries]
            known = [self._results.get(key) if key is not None else None for key in keys]
            missing = [query for query, hits in zip(queries, known, strict=True) if hits is None]
            if not missing:
                trace.notes["cached"] = True
            fresh = iter(self._search_missing(missing, name, settings) if missing else ())
            found = []
            for key, hits in zip(keys, known, strict=True):
                found.append(next(fresh) if hits is None else hits)
                if key is not None and hits is None:
                    self._results.put(key, found[-1])
            trace.set_output([hit for hits in found for hit in hits])
        return [[_copy_hit(hit) for hit in hits] for hits in found]

    def _note_search(self, trace: Trace, query: Query, name: str, settings: Settings) -> None:
        trace.notes["strategy"] = name
        if query.text:
            trace.notes["language"] = find_query_language(query.text, settings.ingestion.language)
        if pending := self._store.describe_pending():
            trace.notes["pending"] = pending

    def _search_missing(self, queries: Sequence[Query], name: str, settings: Settings) -> list[list[Hit]]:
        drivers = self.build_drivers(settings)
        if self._is_plain(queries[0], name, settings):
            return rank.search(name, drivers.evidence, queries, settings)
        strategy = drivers.build_strategy(name)
        return [self._find_by_strategy(query, name, drivers, strategy) for query in queries]

    def _find_by_strategy(self, query: Query, name: str, drivers: Drivers, strategy: Strategy) -> list[Hit]:
        settings, query = drivers.settings, self.understand(query, drivers.settings)
        weighs_messages = query.channel is not None or query.now is not None
        is_cut_later = weighs_messages or settings.search.has_floor  # any hit may be among the k best
        found = strategy(deepen(query) if is_cut_later else query)
        hits = dedupe_chunks(check_hits(found, f"strategy {name!r}"))
        hits = assess(drivers.evidence)(query, hits if is_cut_later else hits[: query.k])
        if settings.search.has_floor:
            hits = run_step(drop_below_minimum(settings.search), query, hits)
        if weighs_messages:
            hits = run_step(boost_messages(settings.scoring), query, hits)
        return hits[: query.k]

    def _is_plain(self, query: Query, name: str, settings: Settings) -> bool:
        """Return whether a search only ranks candidates: a built-in strategy without further steps."""
        search = settings.search
        is_alone = not (query.history or query.channel is not None or query.now is not None or search.has_floor)
        return is_alone and self._is_builtin and name in PLAIN

    def get_reranker(self, config: RerankerConfig) -> Reranker | None:
        """Return the reranker of the settings, loaded once; if it is not installed, log a warning and return None."""
        if config not in self._rerankers:
            try:
                self._rerankers[config] = self._load_reranker(config)
            except DriverMissing as error:
                log.warning("%s", error)
                self._rerankers[config] = None
        return self._rerankers[config]

    def build_drivers(self, settings: Settings) -> Drivers:
        """Build the drivers of a strategy under these settings."""
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
            self._seen,
            EVERYTHING if self._store is self._seen else self._boundary,
        )

    def _read_calibration(self) -> Calibration | None:
        """Return the calibration of the collection, cached until the next change."""
        change = self._store.change_number()
        known = self._calibrations.get(change)
        if known is None:
            known = (Calibration.from_json(self._store.calibration(), self._embedder.name),)
            self._calibrations.put(change, known)
        return known[0]

    def _has_messages(self) -> bool:
        """Return whether there are messages to find, cached until the next change.

        Within a filter this asks the index, because a scan of the channels takes longer the more there are.
        """
        key = self._store.change_number(), expand_filter(self._limit)
        found = self._messages.get(key)
        if found is None:
            if self._limit == EVERYTHING:
                found = bool(self._seen.channels())
            else:
                vector = np.eye(1, self._embedder.dim, dtype=np.float32)[0]  # any would do
                found = bool(self._seen.search_vectors(vector, 1, _MESSAGES))
            self._messages.put(key, found)
        return found

    def _make_cache_key(self, query: Query, name: str, settings: Settings) -> Hashable:
        """Make the cache key of a result; None if not cached: a user's strategy may depend on anything."""
        if settings.search.cache <= 0 or not self._is_builtin or name not in STRATEGIES:
            return None
        # Filters may look alike and admit something else, and may name thousands of documents.
        seen = [expand_filter(each) for each in (self._limit, self._boundary, query.where)]
        asked = replace(query, vector=None, where=EVERYTHING)
        return self._store.change_number(), name, repr(asked), repr(settings), *seen


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
    """Build the query for a question under the settings; raise SettingsError if it cannot be searched.

    channel: Where the question is asked; messages of this channel rank higher.
    now: When it is asked; recent messages rank higher.
    """
    if not text.strip():
        raise SettingsError("the query is empty; ask something")
    if len(text) > MAX_QUERY_CHARS:
        raise SettingsError(f"the query has {len(text):,} characters, and the limit is {MAX_QUERY_CHARS:,}; shorten it")
    if k < 1:
        raise SettingsError(f"k is {k}; it must be at least 1")
    if k > MAX_K or k % 1:  # 2.5 is no whole number; `k in range(…)` would count up to it
        raise SettingsError(f"k is {k}; it must be a whole number of at most {MAX_K}")
    depth = max(settings.search.depth, k)
    return Query(text, k=k, depth=depth, history=tuple(history), where=where, channel=channel, now=now)


def drop_below_minimum(config: SearchConfig) -> Step:
    """Make a step that drops the hits below the minimum of similarity or relevance."""
    lowest = -1.0 if config.min_similarity is None else config.min_similarity

    def minimum(_: Query, hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if not hit.similarity < lowest and hit.relevance >= config.min_relevance]

    return minimum


def _copy_hit(hit: Hit) -> Hit:
    """Copy a hit with its dicts and lists, so that a caller's changes reach neither the cache nor the index."""
    of = hit.chunk  # not `replace`, which takes more than twice as long, for every hit of every search
    head = of.id, of.doc_id, of.index, of.total, of.text, of.start, of.end, of.headings, of.context
    chunk = Chunk(*head, of.at, _copy_meta(of.meta))
    document = _copy_record(hit.document)
    return Hit(chunk, document, hit.score, dict(hit.scores), hit.similarity, hit.relevance)


def _copy_record(of: DocumentRecord) -> DocumentRecord:
    head = of.id, of.title, of.uri, of.kind, of.hash, of.stamp, of.chars, of.chunks, of.summary
    return DocumentRecord(*head, _copy_meta(of.meta), of.access, of.summary_by, of.created, of.updated, of.language)


def _copy_meta(meta: Meta) -> Meta:
    return {key: list(value) if isinstance(value, list) else value for key, value in meta.items()}
