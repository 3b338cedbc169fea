"""The names and signatures of the design documents, thin functions over an Engine; `Engine` itself has one dialect.

Where a document and `Engine` differ (`rag_query`, `min_score`, outcomes instead of errors), this module follows the
document.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Literal, cast, overload

from clew import drivers
from clew.core.cite import MergedChunk
from clew.core.errors import SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import LLM
from clew.core.report import Report
from clew.core.settings import FormatterConfig, IngestionConfig, LLMConfig, MergerConfig, Settings
from clew.core.types import Hit, Message
from clew.core.window import (
    ContextMessage,
    ContextWindow,
    Failure,
    RagContext,
    RagErrorReason,
    RagOutcome,
    RagRecord,
    Success,
)
from clew.engine import Engine
from clew.engine.conversations import find_messages
from clew.engine.opened import check_positive_count
from clew.query.context.assemble import split_by_relevance
from clew.query.context.format.formatter import ContextFormatter
from clew.query.context.merge import ChunkMerger
from clew.query.context.results import deduplicate_by_document
from clew.query.messages import related
from clew.query.messages.table import Table, consolidate_messages_to_markdown
from clew.query.rank.calibrate import ANSWER_DEPTH
from clew.query.rewrite.expand import ContextualExpander, is_ambiguous_query
from clew.query.rewrite.transformer import MakeModel, Transformer, TransformerConfig, expand_query_variations

__all__ = [
    "ChunkMerger",
    "ContextFormatter",
    "ContextualExpander",
    "Failure",
    "FormatterConfig",
    "IngestionConfig",
    "MergedChunk",
    "MergerConfig",
    "QueryTransformer",
    "RagContext",
    "RagErrorReason",
    "Success",
    "TransformerConfig",
    "add_messages",
    "consolidate_messages_to_markdown",
    "create_transformer",
    "deduplicate_by_document",
    "expand_query_variations",
    "find_similar_messages",
    "get_context_window",
    "is_ambiguous_query",
    "message_with_context",
    "query_rag_for_context",
]


def make_model(config: TransformerConfig) -> LLM:
    """Make the language model that a transformer's config names."""
    named = LLMConfig(name=f"{config.llm_provider}:{config.llm_model}")
    return cast(LLM, drivers.make_language_model(named))


class QueryTransformer(Transformer):
    """Turns an input into short search queries, by a given model or the one that its config names."""

    def __init__(
        self, config: TransformerConfig | None = None, provider: LLM | None = None, *, make: MakeModel = make_model
    ) -> None:
        super().__init__(config, provider, make=make)


def create_transformer(
    config: Mapping[str, Any], *, provider: LLM | None = None, make: MakeModel = make_model
) -> QueryTransformer:
    """Make a transformer with the settings of a plain dict; SettingsError for an unknown name."""
    known = [field.name for field in fields(TransformerConfig)]
    unknown = [str(name) for name in config if name not in known]
    if unknown:
        raise SettingsError(f"{', '.join(unknown)}: not a setting of a transformer; there are {', '.join(known)}")
    return QueryTransformer(TransformerConfig(**config), provider, make=make)


def message_with_context(
    engine: Engine,
    message: str,
    *,
    rag_query: str | None = None,
    k: int = 10,
    tokens: int | None = None,
    history: Sequence[Message] = (),
    where: Filter = EVERYTHING,
    settings: Settings | None = None,
) -> str:
    """Put the context of the collection before a user's message; return the message alone if nothing is found."""
    query = rag_query if rag_query and rag_query.strip() else message
    if not query.strip():
        return message
    settings = settings or engine.settings
    if settings.context.wrap == "none":
        settings = replace(settings, context=replace(settings.context, wrap="xml"))
    context = engine.context(query, k=k, tokens=tokens, history=history, where=where, settings=settings)
    return f"{context.text}\n\nUser: {message}" if context.passages else message


def find_similar_messages(
    engine: Engine,
    query: str,
    *,
    channel: str | None = None,
    k: int = 5,
    min_score: float | None = None,
    where: Filter = EVERYTHING,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> Sequence[ContextMessage]:
    """Find the k stored messages most similar to a text, best first, each whole and scored; `min_score` is a cosine."""
    return find_messages(
        engine, query, channel=channel, k=k, min_similarity=min_score, where=where, now=now, settings=settings
    )


def get_context_window(
    engine: Engine,
    channel: str,
    prompt: str,
    *,
    max_tokens: int | None = None,
    include_related_channels: bool = False,
    min_score: float | None = None,
    where: Filter = EVERYTHING,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> ContextWindow:
    """Return `Engine.window` under the document's names; `min_score` is a cosine and replaces the relevance floor."""
    if min_score is not None:
        given = settings or engine.opened.settings
        settings = replace(given, context=replace(given.context, min_relevance=0.0, min_chance=0.0))
    return engine.window(
        channel,
        prompt,
        tokens=max_tokens,
        include_related_channels=include_related_channels,
        min_similarity=min_score,
        where=where,
        now=now,
        settings=settings,
    )


def add_messages(engine: Engine, messages: Iterable[Message]) -> Report:
    """Add messages as `Engine.add_messages`, refusing one without a channel in the document's words."""
    messages = list(messages)
    if any(not message.channel for message in messages):
        raise SettingsError("All messages must have channelId")
    return engine.add_messages(messages)


@overload
def query_rag_for_context(
    engine: Engine,
    table: Table,
    *,
    k: int | None = None,
    where: Filter = EVERYTHING,
    return_records: Literal[False] = False,
    settings: Settings | None = None,
) -> RagOutcome: ...


@overload
def query_rag_for_context(
    engine: Engine,
    table: Table,
    *,
    k: int | None = None,
    where: Filter = EVERYTHING,
    return_records: Literal[True],
    settings: Settings | None = None,
) -> tuple[str, Sequence[RagRecord]]: ...


def query_rag_for_context(
    engine: Engine,
    table: Table,
    *,
    k: int | None = None,
    where: Filter = EVERYTHING,
    return_records: bool = False,
    settings: Settings | None = None,
) -> RagOutcome | tuple[str, Sequence[RagRecord]]:
    """Return the posts that a conversation is about: Success with text and records, or Failure: `no_hits`, `rag_error`.

    Small talk and unrelated talk have no hits: posts must reach the floor of `Engine.context`, or only the minimum of
    `settings.search` if one is set. It never raises; errors are logged. Each topic is a query, however few messages
    there are. With `return_records` it returns only text and records, both empty for either kind of failure.
    """
    given = settings or engine.opened.settings
    by_topic = replace(given, conversation=replace(given.conversation, single_below=0))

    def search(messages: Table) -> list[Hit]:
        wanted = check_positive_count("k", given.search.k if k is None else k)
        if given.search.has_floor:
            return engine.search(messages, k=wanted, where=where, settings=by_topic)
        found = engine.search(messages, k=max(wanted, ANSWER_DEPTH), where=where, settings=by_topic)
        return split_by_relevance(found, given.context)[0][:wanted]

    outcome = related.query_rag_for_context(
        table,
        search=search,
        records=lambda hits: {hit.document.id: hit.document for hit in hits},
    )
    if not return_records:
        return outcome
    return (outcome.value.text, [*outcome.value.records]) if isinstance(outcome, Success) else ("", [])
