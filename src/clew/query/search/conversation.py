"""Search with a whole conversation as the query: messages → topics → queries → hits.

One vector of a long conversation is the mean of its topics and near none of them, so each part is a query of its own.
The hits of all parts are deduplicated by chunk, then by the chosen policy, then ordered; the engine cuts to `k`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from clew.core.errors import SettingsError
from clew.core.parallel import run_parallel
from clew.core.protocols import Step, Strategy
from clew.core.sentences import split_sentences
from clew.core.settings import ConversationConfig
from clew.core.small_talk import asks_for_answer, has_content, is_question, is_small_talk
from clew.core.trace import step
from clew.core.types import Hit, Message, Query
from clew.query.messages.table import read_messages_from_table
from clew.query.rank.calibrate import ANSWER, PART, sort_by_relevance
from clew.query.rank.dedupe import (
    FetchVectors,
    dedupe_chunks,
    drop_near_duplicates,
    limit_per_document,
    log_deduplication,
    mmr,
    order_by_coverage,
)
from clew.query.search.compose import Embed, embed_queries, pipe, run_step

SplitText = Callable[[str], list[str]]  # the storage chunker
SplitTopics = Callable[[Sequence[Message]], Sequence[Sequence[Message]]]
OrderHits = Callable[[Query, list[Hit], list[list[Hit]]], list[Hit]]  # the third: one ranking per topic

MAX_QUESTIONS = 20  # last questions of a conversation that become queries of their own
DEEPEN = 4  # the factor by which a search goes deeper while one document fills it …
MAX_DEPTH = 4096  # … up to this many hits

log = logging.getLogger("clew")


def chunked(
    strategy: Strategy,
    config: ConversationConfig,
    *,
    split_text: SplitText,
    embed: Embed | None,
    split_topics: SplitTopics | None = None,
    fetch_vectors: FetchVectors | None = None,
    assess: Step | None = None,
) -> Strategy:
    """Make a strategy that runs another on each part of the query's conversation, all parts embedded in one batch.

    The conversation is `query.history`, with the query's text as one more part; without a history it is the sentences
    of the text. Each topic that `split_topics` finds is a query, a long one several: `split_text` cuts the texts of its
    messages, without author and time. A conversation of up to `single_below` messages, if that is set, is a single
    query. Each part keeps its best `chunks_per_query` hits after deduplication, so that one document cannot fill it.
    Hits of different parts are compared by the relevance that `assess` computes, because scores compare only within a
    part.
    """
    dedupe = _build_dedupe(config, fetch_vectors)
    order_hits = _build_hit_order(config, fetch_vectors)
    search_part = strategy if assess is None else pipe(strategy, assess)

    def search(query: Query) -> list[Hit]:
        with step("chunked") as trace:
            messages = read_messages_from_table(query.history) or _split_text_into_messages(query.text)
            topics = _plan_topics(query, messages, config, split_text, split_topics)
            texts = [text for topic in topics for text in topic]
            trace.notes.update(messages=len(messages), topics=len(topics), chunks=len(texts))
            log.info("Chunked conversation into %d chunks", len(texts))
            rankings = _search_parts(_build_queries(query, texts, embed), search_part, dedupe, config)
            collected = [hit for hits in rankings for hit in hits]
            log.info("Collected %d total results from %d chunks", len(collected), len(texts))
            kept = _apply_dedupe(dedupe, query, dedupe_chunks(collected))
            documents = len({hit.chunk.doc_id for hit in kept})
            log_deduplication(len(collected), len(kept), documents, config.dedup_max_per_doc)
            hits = order_hits(query, kept, list(_rank_per_topic(rankings, topics)))
            final = min(query.k, len(hits))
            log.info("%d chunks → %d results → %d deduped → %d final", len(texts), len(collected), len(kept), final)
            trace.notes.update(results=len(collected), rows=len(kept), documents=documents, final=final)
            trace.set_output(hits)
            return hits

    return search


def _plan_topics(
    query: Query,
    messages: Sequence[Message],
    config: ConversationConfig,
    split_text: SplitText,
    split: SplitTopics | None,
) -> list[tuple[str, ...]]:
    """Plan the query texts of a conversation, by topic.

    One text for a short conversation; else the parts of each topic, the question, and with `global_query` the whole.
    """
    spoken = {message.text.strip() for message in messages}
    question = [query.text] if query.history and query.text.strip() not in ("", *spoken) else []
    if not any(spoken):
        return [(text,) for text in question]
    whole = "\n\n".join([_join_texts(messages) if query.history else query.text, *question]).strip()
    if config.single_below is not None and len(messages) <= config.single_below:
        return [(whole,)]
    worded = [message for message in messages if not is_small_talk(message.text)] or list(messages)
    parts = _split_by_topic(worded, split_text, split)
    parts += [(text,) for text in (*question, *([whole] if config.global_query else []))]
    return [part for part in parts if part]


def _split_by_topic(
    messages: Sequence[Message], split_text: SplitText, split: SplitTopics | None
) -> list[tuple[str, ...]]:
    """Split into the parts of each topic, or else each part by itself; a question within a topic is one more part."""

    def split_into_texts(messages: Sequence[Message]) -> tuple[str, ...]:
        return tuple(piece.strip() for piece in split_text(_join_texts(messages)) if piece.strip())

    if split is None:
        return [(text,) for text in split_into_texts(messages)]
    topics = split(messages)
    among = [message for topic in topics if len(topic) > 1 for message in topic if message.role == "user"]
    asked = dict.fromkeys([message.text for message in among if _asks_by_itself(message.text)][-MAX_QUESTIONS:])
    return [*map(split_into_texts, topics), *((text.strip(),) for text in asked)]


def _asks_by_itself(text: str) -> bool:
    """Return whether a message is a question that can be answered without the messages around it."""
    from clew.query.rewrite.rewrites import is_elliptic  # many patterns, which other searches do not need

    return is_question(text) and has_content(text) and not is_elliptic(text)


def _build_queries(query: Query, texts: Sequence[str], embed: Embed | None) -> list[Query]:
    """Build one query per text, without history, embedded in one batch unless a single one has its vector already."""
    if query.vector is not None and texts == [query.text]:
        return [query]
    queries = [replace(query, text=text, history=(), vector=None) for text in texts]
    return embed_queries(queries, embed) if queries and embed is not None else queries


def _search_parts(
    queries: Sequence[Query], strategy: Strategy, dedupe: Step | None, config: ConversationConfig
) -> list[list[Hit]]:
    """Search each query, in parallel; a single query leaves the cut to the engine."""
    limit = None if len(queries) == 1 else config.chunks_per_query

    def search_part(query: Query, number: int) -> list[Hit]:
        log.debug("Querying for chunk %d/%d", number, len(queries))
        with step("query") as trace:
            hits = _search_deep_enough(strategy, dedupe, query, limit or query.k)[:limit]
            if limit:
                asks = asks_for_answer(query.text)  # else only what stands out may be shown
                parts = ({PART: float(number)} | ({} if asks else {ANSWER: hit.relevance}) for hit in hits)
                hits = [replace(hit, scores={**hit.scores, **part}) for hit, part in zip(hits, parts, strict=True)]
            trace.set_output(hits)
            return hits

    return run_parallel([partial(search_part, query, number) for number, query in enumerate(queries, 1)])


def _search_deep_enough(strategy: Strategy, dedupe: Step | None, query: Query, wanted: int) -> list[Hit]:
    """Search, deduplicate, and search deeper while hits are fewer than wanted and there may be more."""
    k, depth, before = max(query.k, wanted), query.depth, 0
    while True:
        found = dedupe_chunks(strategy(replace(query, k=k, depth=max(depth, k))))
        kept = _apply_dedupe(dedupe, query, found)
        if len(kept) >= wanted or len(found) < max(k, before + 1) or k >= MAX_DEPTH:
            return kept
        k, depth, before = DEEPEN * k, DEEPEN * depth, len(found)


def _apply_dedupe(dedupe: Step | None, query: Query, hits: list[Hit]) -> list[Hit]:
    return hits if dedupe is None else run_step(dedupe, query, hits)


def _build_dedupe(config: ConversationConfig, fetch_vectors: FetchVectors | None) -> Step | None:
    """Build the deduplication step of the settings; None keeps every chunk."""
    if config.dedup_strategy == "none":
        return None
    if config.dedup_strategy == "document":
        return limit_per_document(config.dedup_max_per_doc)
    if fetch_vectors is None:
        raise SettingsError("dedup is 'semantic'; it needs the vectors of the store")
    return drop_near_duplicates(fetch_vectors, threshold=config.dedup_threshold)


def _build_hit_order(config: ConversationConfig, fetch_vectors: FetchVectors | None) -> OrderHits:
    """Build the function that orders the hits, given the ranking of each topic."""
    if config.mmr is None:
        by_coverage = config.order == "coverage"
        return lambda _, hits, topics: order_by_coverage(hits, topics) if by_coverage else sort_by_relevance(hits)
    if config.order == "coverage":
        raise SettingsError("mmr cannot be combined with the order 'coverage'; set order to 'score' or leave mmr out")
    if fetch_vectors is None:
        raise SettingsError("mmr needs the vectors of the store")
    diversify = mmr(fetch_vectors, balance=config.mmr)
    return lambda query, hits, _: run_step(diversify, query, sort_by_relevance(hits))


def _rank_per_topic(rankings: Sequence[list[Hit]], topics: Sequence[Sequence[str]]) -> Iterator[list[Hit]]:
    """Yield one ranking per topic: the best hit of each of its queries, then their other hits."""
    remaining = iter(rankings)
    for topic in topics:
        own = [next(remaining) for _ in topic]
        yield own[0] if len(own) == 1 else order_by_coverage(dedupe_chunks([hit for hits in own for hit in hits]), own)


def _split_text_into_messages(text: str) -> tuple[Message, ...]:
    return tuple(Message(text[start:end], author="user") for start, end in split_sentences(text))


def _join_texts(messages: Sequence[Message]) -> str:
    return "\n\n".join(message.text.strip() for message in messages if message.text.strip())
