"""The verbs that read a collection: list, read, search, context, status."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from clew import drivers
from clew.core.cite import Context
from clew.core.errors import ConcurrentChange, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Strategy
from clew.core.settings import Settings
from clew.core.suggest import unknown_name_error
from clew.core.text import estimate_tokens
from clew.core.types import Document, DocumentRecord, Hit, Message, Query, StoreStats
from clew.engine.languages import name_languages
from clew.engine.opened import Opened, check_filter, check_positive_count
from clew.query.context.assemble import NO_MATCH, build_context, cite_passages, note_irrelevant_hits, split_by_relevance
from clew.query.context.budget import Count
from clew.query.context.format.renderers import Renderer, get_document_id
from clew.query.messages.table import Table, read_messages_from_table
from clew.query.rank.calibrate import ANSWER_DEPTH
from clew.query.search.find import build_query

if TYPE_CHECKING:
    from clew.engine import Engine

T = TypeVar("T")
GROUP_OVERFETCH = 4  # hits to fetch for each wanted document; each further fetch multiplies by it again
MAX_FETCHES = 3
MAX_ATTEMPTS = 20  # to number documents in a session that other programs change at the same time


def list_documents(engine: "Engine", where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
    """List the records of the stored documents with their languages, ordered by address."""
    store = engine.opened.within(where).store
    return name_languages(store, store.documents())


def read(engine: "Engine", document: str | Path, *, where: Filter = EVERYTHING) -> Document:
    """Return the document with this id or address. Text that the filter does not admit is blank.

    For a source added in sections, return all sections joined in order.
    """
    from clew.engine.names import read_document_or_sections

    return read_document_or_sections(engine.opened.within(where), str(document))


def search(
    engine: "Engine",
    query: str | Table,
    *,
    k: int | None = None,
    strategy: str | Strategy | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    group_by: Literal["document"] | None = None,
    without: Sequence[str] = (),
    settings: Settings | None = None,
) -> list[Hit]:
    """Return the k best chunks for a query, best first, or the best chunk of each of the k best documents (`group_by`).

    query: A text, or a whole conversation (an Arrow table, rows, messages, or a request body {"messages": […]}), each
        topic of which is searched for.
    strategy: A name, or a function of your own from a Query to hits.
    where: The part of the collection to look in.
    history: The messages before the query, with which it is understood.
    channel: Where the question is asked; messages of this channel rank higher.
    now: When the question is asked; recent messages rank higher.
    without: Documents to leave out, such as those already read: ids, addresses, folders or patterns.
    settings: The settings of this call, as `dataclasses.replace(engine.settings, …)`.
    """
    opened, strategy = take_strategy(engine.opened.within(where), strategy)
    settings = opened.resolve_settings(settings)
    request = make_query_from_text_or_table(
        query, settings.search.k if k is None else k, where, history, settings, channel=channel, now=now
    )
    name, settings = choose_strategy(query, strategy, settings)
    find = partial(find_without, opened, without, lambda wanted: opened.finder.find(wanted, name, settings))
    return find(request) if group_by is None else find_best_per_document(find, request, group_by)


def find_without(opened: Opened, names: Sequence[str], find: Callable[[Query], list[Hit]], query: Query) -> list[Hit]:
    """Find the wanted number of hits outside the named documents, fetching one more for each chunk of theirs."""
    if isinstance(names, str):
        raise SettingsError("without is one text; give a list of ids or addresses")
    if not names:
        return find(query)
    from clew.engine.names import find_named_records

    records = {record.id: record for record in find_named_records(opened, names)}
    wanted = query.k + sum(record.chunks for record in records.values())
    hits = find(replace(query, k=wanted, depth=max(query.depth, wanted)))
    return [hit for hit in hits if hit.document.id not in records][: query.k]


def find_best_per_document(find: Callable[[Query], list[Hit]], query: Query, group_by: str) -> list[Hit]:
    """Find the best hit of each of the k best documents, fetching more hits while they cover too few documents."""
    if group_by != "document":
        raise SettingsError(f"group_by is {group_by!r}; it may be document")
    wanted, best = query.k, dict[str, Hit]()
    for _ in range(MAX_FETCHES):
        wanted *= GROUP_OVERFETCH
        hits = find(replace(query, k=wanted, depth=max(query.depth, wanted)))
        best = {}
        for hit in hits:
            best.setdefault(hit.chunk.doc_id, hit)
        if len(best) >= query.k or len(hits) < wanted:
            break
    return list(best.values())[: query.k]


def search_many(
    engine: "Engine",
    queries: Sequence[str],
    *,
    k: int | None = None,
    strategy: str | Strategy | None = None,
    where: Filter = EVERYTHING,
    settings: Settings | None = None,
) -> list[list[Hit]]:
    """Return the k best chunks for each query, embedding all in one batch; the options are those of `search`."""
    opened, strategy = take_strategy(engine.opened.within(where), strategy)
    settings = opened.resolve_settings(settings)
    if isinstance(queries, str):
        raise SettingsError("queries is one text; give a list of them")
    requests = [
        make_query_from_text_or_table(text, settings.search.k if k is None else k, where, (), settings)
        for text in queries
    ]
    return opened.finder.find_many(requests, strategy or settings.search.strategy, settings)


def context(
    engine: "Engine",
    query: str | Table,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | Strategy | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    render: str | None = None,
    session: str | None = None,
    settings: Settings | None = None,
) -> Context:
    """Return the prompt text for a question or a conversation: merged, cited passages within a token budget.

    If nothing relevant is found, as for small talk, the text is empty and `reason` says why. Within a `session` a
    document keeps the number it was first shown with.

    tokens: Budget of the text; `k` is the number of chunks to choose from (defaults: `settings.context`).
    render: Format of the text: numbered, knowledge_base … or one of your own.
    query, strategy, where, history, channel, now, settings: As for `search`.
    """
    opened, strategy = take_strategy(engine.opened.within(where), strategy)
    settings = opened.resolve_settings(settings)
    request = make_query_from_text_or_table(
        query, settings.context.k if k is None else k, where, history, settings, channel=channel, now=now
    )
    if tokens is not None:
        settings = replace(settings, context=replace(settings.context, tokens=check_positive_count("tokens", tokens)))
    renderer = find_renderer(opened, render or settings.context.render)  # fail before the search
    name, settings = choose_strategy(query, strategy, settings)
    request = opened.finder.understand(request, settings)
    hits, left_out = find_relevant_hits(opened, request, name, settings)
    made = assemble_context(opened, request, hits, renderer=renderer, session=session, settings=settings)
    if left_out:
        count = get_token_counter(settings.context.tokenizer)
        return note_irrelevant_hits(made, left_out, count, settings.context)
    if not hits and made.reason.startswith(NO_MATCH) and settings.search.has_floor:
        return replace(made, reason="no hit reaches search.min_similarity and search.min_relevance")
    if not hits and made.reason.startswith(NO_MATCH) and (unknown := engine.unknown_names(where)):
        return replace(made, reason="; ".join(unknown))
    return made


def find_relevant_hits(opened: Opened, query: Query, strategy: str, settings: Settings) -> tuple[list[Hit], list[Hit]]:
    """Find the hits for a context; return also the hits left out as irrelevant.

    Ten hits decide whether there is an answer at all, even if fewer are wanted.
    """
    enough = replace(query, k=max(query.k, ANSWER_DEPTH), depth=max(query.depth, ANSWER_DEPTH))
    found = opened.finder.find(enough, strategy, settings)
    anywhere = partial(opened.finder.find_anywhere, enough, strategy, settings) if query.where != EVERYTHING else None
    hits, left_out = split_by_relevance(found, settings.context, anywhere)
    asked_for = {hit.chunk.id for hit in found[: query.k]}
    return hits[: query.k], [hit for hit in left_out if hit.chunk.id in asked_for]


def status(engine: "Engine", *, where: Filter = EVERYTHING) -> StoreStats:
    """Return counts, the embedder, the index, the number of the last change, and how many documents lack derived data.

    `pending` counts the chunks without a vector, which only lexical search finds. `languages` counts the chunks of each
    language, for a whole collection only.
    """
    seen = engine.opened.within(where)
    store, records = seen.store, list(seen.store.documents())
    unsummed = sum(1 for record in records if record.chunks and not record.summary)
    stats = replace(
        store.stats(),
        without_summary=0 if engine.opened.settings.ingestion.summaries == "none" else unsummed,
        without_contexts=sum("contexts" in record.lacks for record in records),
    )
    if seen.boundary != EVERYTHING:
        return stats
    return replace(stats, languages=store.language_counts(exact=True))


def assemble_context(
    opened: Opened,
    query: Query,
    hits: Sequence[Hit],
    *,
    settings: Settings,
    renderer: Renderer | None = None,
    session: str | None = None,
) -> Context:
    """Assemble the context of hits already found, with citations and the document numbers of the session."""
    records = {hit.document.id: hit.document for hit in hits}
    renderer = renderer or find_renderer(opened, settings.context.render)

    def build() -> Context:
        with opened.sessions.lock_document_numbers(session) as numbers:
            made = build_context(
                query,
                list(hits),
                records,
                read=opened.store.document,
                chunks=opened.store.chunks,
                tokens=settings.context.tokens,
                render=renderer,
                settings=settings,
                count=get_token_counter(settings.context.tokenizer),
                numbers=numbers.known,
            )
            return replace(
                made,
                citations=cite_passages(made.passages, records),
                numbers=numbers.assign(dict.fromkeys(get_document_id(passage) for passage in made.passages)),
            )

    made = retry_concurrent_change(build)
    if not hits and opened.boundary == EVERYTHING and not opened.store.counts().chunks:
        return replace(made, reason="the collection is empty")
    if not hits and (pending := opened.store.describe_pending()):
        return replace(made, reason=f"{made.reason}; {pending}")
    return made


def retry_concurrent_change(work: Callable[[], T]) -> T:
    """Run work, retrying on ConcurrentChange."""
    for _ in range(MAX_ATTEMPTS - 1):
        with suppress(ConcurrentChange):
            return work()
    return work()


def make_query_from_text_or_table(
    query: str | Table,
    k: int,
    where: Filter,
    history: Sequence[Message],
    settings: Settings,
    *,
    channel: str | None = None,
    now: datetime | None = None,
) -> Query:
    """Make the Query for a question (text) or a conversation (table: its messages become the history)."""
    k, where = check_positive_count("k", k), check_filter(where)
    if isinstance(query, str):
        return build_query(query, k, where, history, settings, channel=channel, now=now)
    try:
        messages = read_messages_from_table(query)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"the query is neither a text nor a conversation: {error}") from error
    return replace(build_query("-", k, where, messages, settings, channel=channel, now=now), text="")


def take_strategy(opened: Opened, strategy: str | Strategy | None) -> tuple[Opened, str | None]:
    """Return the name of the strategy, adding it to the finder first if it is the caller's own function."""
    if strategy is None or isinstance(strategy, str):
        return opened, strategy
    if not callable(strategy):
        raise SettingsError(f"strategy is a {type(strategy).__name__}; give a name or a function from a Query to hits")
    name = str(getattr(strategy, "__name__", "own"))
    return replace(opened, finder=opened.finder.with_strategy(name, strategy)), name


def choose_strategy(query: str | Table, strategy: str | None, settings: Settings) -> tuple[str, Settings]:
    """Choose the strategy and its settings; a conversation uses `chunked`, with the named strategy for each part."""
    if isinstance(query, str):
        return strategy or settings.search.strategy, settings
    if strategy in (None, "auto", "chunked"):
        return "chunked", settings
    return "chunked", replace(settings, conversation=replace(settings.conversation, strategy=strategy))


def get_token_counter(tokenizer: str) -> Count:
    """Return the function that counts prompt tokens: with a tokenizer file, else by an estimate."""
    return drivers.make_token_counter(tokenizer) if tokenizer else estimate_tokens


def find_renderer(opened: Opened, name: str) -> Renderer:
    """Find the renderer of this name, built in or the user's."""
    renderers = opened.extensions.find_renderers()
    if name not in renderers:
        raise unknown_name_error("renderer", name, renderers)
    return renderers[name]
