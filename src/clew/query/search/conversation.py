"""A whole conversation as the query: rows → messages → markdown → queries → hits.

One vector of a long conversation is the mean of its topics and near none of them, so each part asks for itself. What
the parts find is joined by chunk, then by the chosen policy, then put in order; the engine cuts it to `k`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clew.core.errors import SettingsError
from clew.core.parallel import run_parallel
from clew.core.protocols import Step, Strategy
from clew.core.text import sentences
from clew.core.trace import step
from clew.core.types import Hit, Message, Query
from clew.query.rank.dedupe import by_chunk, by_document, log_kept
from clew.query.rank.diversify import THRESHOLD, Vectors, by_meaning, coverage, mmr
from clew.query.search.compose import Embed
from clew.query.search.tables import Row, Table, rows_of

Dedup = Literal["document", "none", "semantic"]
Order = Literal["score", "coverage"]
Cut = Callable[[str], list[str]]  # the storage chunker
Topics = Callable[[Sequence[Message]], Sequence[Sequence[Message]]]

CHUNKS_PER_QUERY = 5
SINGLE_BELOW = 100
WIDER = 4  # how much deeper a search goes when one document fills it, at most twice
_LABELS = re.compile(r"^## Message \d+\n\*\*Author:\*\*[^\n]*\n\*\*Timestamp:\*\*[^\n]*(?:\n+|\Z)", re.MULTILINE)

log = logging.getLogger("clew")


def messages_of(table: Table) -> tuple[Message, ...]:
    """The messages of an Arrow table, of rows or of messages, by their times and then their ids.

    A row has a timestamp (or ts), an author (or author_uuid) and a message (or text), and may have an id (msg_id,
    message_id), a role and a channel. One without a time that can be read stays behind the row it was given after.
    """
    return tuple(row.message for row in rows_of(table))


def consolidate_messages_to_markdown(table: Table) -> str:
    """The conversation as markdown: each message under its number, author and timestamp, oldest first."""
    return _markdown(rows_of(table))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The queries that a conversation makes: their texts, topic by topic."""

    messages: int
    topics: tuple[tuple[str, ...], ...]

    @property
    def texts(self) -> list[str]:
        return [text for topic in self.topics for text in topic]


def chunked(
    strategy: Strategy,
    *,
    chunk: Cut,
    embed: Embed | None,
    topics: Topics | None = None,
    vectors: Vectors | None = None,
    chunks_per_query: int = CHUNKS_PER_QUERY,
    dedup: Dedup = "document",
    max_per_doc: int = 1,
    threshold: float = THRESHOLD,
    order: Order = "coverage",
    mmr: float | None = None,
    global_query: bool = False,
    single_below: int = SINGLE_BELOW,
    labels: bool = False,
) -> Strategy:
    """A strategy that asks another for each part of the query's conversation, all embedded in one call.

    The conversation is `query.history`, and the query's text is asked beside it; without a history it is the sentences
    of the text. Up to `single_below` messages it is one query; beyond, `chunk` cuts it, within each of the `topics` if
    they are given. Each query takes its best `chunks_per_query` after the policy, so that one document cannot fill it.

    `dedup` is the policy over all that was found: the `max_per_doc` best of a document, none, or nothing whose cosine
    to a better hit reaches the `threshold`. `order` is by score, or by coverage: the best document of each topic first.
    `mmr`, if set, orders by marginal relevance instead of by score. `global_query` also asks the whole at once.
    `labels` leaves the number, author and timestamp of each message in the queries.
    """
    policy = _policy(dedup, max_per_doc, vectors, threshold)
    arrange = _arrangement(order, mmr, vectors)
    for name, value, least in (("chunks_per_query", chunks_per_query, 1), ("single_below", single_below, 0)):
        if value < least:
            raise SettingsError(f"{name} is {value}; it must be at least {least}")

    def asked(query: Query) -> _Asked:
        messages = messages_of(query.history)
        history = bool(messages)
        if not history:
            messages = tuple(Message(query.text[start:end], author="user") for start, end in sentences(query.text))
        write = _writer(labels=labels) if history else _plain
        beside = [query.text] if history and query.text.strip() not in ("", *(m.text.strip() for m in messages)) else []
        if not any(message.text.strip() for message in messages):
            return _Asked(len(messages), tuple((text,) for text in beside))
        whole = query.text if not history else "\n\n".join([write(_markdown(rows_of(messages))).strip(), *beside])
        if len(messages) <= single_below:
            return _Asked(len(messages), ((whole.strip(),),))
        parts: list[tuple[str, ...]]
        if topics is None:
            parts = [(text,) for text in _cut(messages, chunk, write, history=history)]
        else:
            parts = [tuple(_cut(topic, chunk, write, history=history)) for topic in topics(messages)]
        parts += [(text,) for text in (*beside, *([whole.strip()] if global_query else []))]
        return _Asked(len(messages), tuple(filter(None, parts)))

    def ask(query: Query, number: int, count: int, wanted: int | None) -> list[Hit]:
        log.debug("Querying for chunk %d/%d", number, count)
        with step("query") as trace:
            taken = _widened(strategy, policy, query, wanted or query.k)[: wanted or None]
            trace.set_output(taken)
            return taken

    def search(query: Query) -> list[Hit]:
        with step("chunked") as trace:
            parts = asked(query)
            texts = parts.texts
            trace.notes.update(messages=parts.messages, topics=len(parts.topics), chunks=len(texts))
            log.info("Chunked conversation into %d chunks", len(texts))
            if not texts:
                trace.out = 0
                return []
            queries = [replace(query, text=text, history=(), vector=None) for text in texts]
            if query.vector is not None and texts == [query.text]:
                queries = [query]
            elif embed is not None:
                with step("embed") as embedding:
                    rows = embed(texts)
                    embedding.out = len(texts)
                queries = [replace(each, vector=row) for each, row in zip(queries, rows, strict=True)]
            wanted = None if len(texts) == 1 else chunks_per_query  # a single one leaves the cut to the engine
            found = run_parallel(
                [
                    lambda each=each, number=number: ask(each, number, len(queries), wanted)  # type: ignore[misc]
                    for number, each in enumerate(queries, 1)
                ]
            )
            collected = [hit for hits in found for hit in hits]
            log.info("Collected %d total results from %d chunks", len(collected), len(texts))
            kept = policy(query, by_chunk(collected))
            documents = len({hit.chunk.doc_id for hit in kept})
            log_kept(len(collected), len(kept), documents, max_per_doc)
            hits = arrange(query, kept, list(_by_topic(found, parts.topics)))
            final = min(query.k, len(hits))
            log.info("%d chunks → %d results → %d deduped → %d final", len(texts), len(collected), len(kept), final)
            trace.notes.update(results=len(collected), rows=len(kept), documents=documents, final=final)
            trace.set_output(hits)
            return hits

    return search


Arrange = Callable[[Query, list[Hit], list[list[Hit]]], list[Hit]]


def _policy(dedup: str, max_per_doc: int, vectors: Vectors | None, threshold: float) -> Step:
    """The step that a name of a policy stands for."""
    if max_per_doc < 1:
        raise SettingsError(f"max_per_doc is {max_per_doc}; it must be at least 1")
    if dedup == "document":
        return by_document(max_per_doc)
    if dedup == "none":
        return lambda _, hits: hits
    if dedup != "semantic":
        raise SettingsError(f"dedup is {dedup!r}; it may be document, none, semantic")
    if vectors is None:
        raise SettingsError("dedup is 'semantic'; it needs the vectors of the store")
    return by_meaning(vectors, threshold=threshold)


def _arrangement(order: str, balance: float | None, vectors: Vectors | None) -> Arrange:
    """What puts the hits in order, given what each topic found."""
    if order not in ("score", "coverage"):
        raise SettingsError(f"order is {order!r}; it may be score, coverage")
    if balance is None:
        return (lambda _, hits, topics: coverage(hits, topics)) if order == "coverage" else _by_score
    if order == "coverage":
        raise SettingsError("mmr orders hits in another way than coverage; set order to 'score' or leave mmr out")
    if vectors is None:
        raise SettingsError("mmr needs the vectors of the store")
    diverse = mmr(vectors, balance=balance)
    return lambda query, hits, topics: diverse(query, _by_score(query, hits, topics))


def _by_score(_: Query, hits: list[Hit], __: list[list[Hit]]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


def _by_topic(found: Sequence[list[Hit]], topics: Sequence[Sequence[str]]) -> Iterator[list[Hit]]:
    """One ranking a topic: what its queries found, each one's best before any one's second."""
    rankings = iter(found)
    for topic in topics:
        own = [next(rankings) for _ in topic]
        yield own[0] if len(own) == 1 else coverage(by_chunk([hit for hits in own for hit in hits]), own)


def _widened(strategy: Strategy, policy: Step, query: Query, wanted: int) -> list[Hit]:
    """The hits that the policy leaves; searched deeper while they are fewer than wanted and there may be more."""
    k, depth, before = max(query.k, wanted), query.depth, 0
    while True:
        found = by_chunk(strategy(replace(query, k=k, depth=max(depth, k))))
        kept = policy(query, found)
        if len(kept) >= wanted or len(found) < max(k, before + 1) or k >= WIDER**2 * max(query.k, wanted):
            return kept
        k, depth, before = WIDER * k, WIDER * depth, len(found)


def _cut(messages: Sequence[Message], chunk: Cut, write: Callable[[str], str], *, history: bool) -> Iterator[str]:
    """The texts of the queries that messages make, the blank ones left out."""
    text = _markdown(rows_of(messages)) if history else "\n\n".join(message.text for message in messages)
    return (piece for piece in (write(each).strip() for each in chunk(text)) if piece)


def _writer(*, labels: bool) -> Callable[[str], str]:
    return _plain if labels else lambda markdown: _LABELS.sub("", markdown)


def _plain(text: str) -> str:
    return text


def _markdown(rows: Iterable[Row]) -> str:
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        lines += (f"## Message {number}", f"**Author:** {row.message.author}", f"**Timestamp:** {row.shown}")
        lines += ("", row.message.text, "")
    return "\n".join(lines)
