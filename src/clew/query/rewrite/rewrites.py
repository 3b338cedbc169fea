"""Query rewriting before the search: variations, the transformer's queries, keywords of the conversation.

The `rewrite_with_…` functions make Rewrites for `compose.fan_out`; `expand_if_elliptic` changes a single query.
"""

from collections.abc import Callable
from dataclasses import replace

from clew.core.errors import DriverFailed
from clew.core.protocols import LLM, Rewrite
from clew.core.settings import HistoryConfig
from clew.core.trace import note, step
from clew.core.types import Query
from clew.query.rewrite.ellipsis import is_elliptic, is_fragment
from clew.query.rewrite.expand import ContextualExpander
from clew.query.rewrite.transformer import Transformer, dedupe_queries, expand_query_variations

Compare = Callable[[Query, Query], bool]  # of a query and its expansion


def rewrite_with_variations(llm: LLM, *, n: int = 3) -> Rewrite:
    """Return a Rewrite: the query, then up to n variations of it that the model writes."""

    def rewrite(query: Query) -> list[Query]:
        _, *others = expand_query_variations(query.text, llm, n=n)
        return [query, *(replace(query, text=text, vector=None) for text in others)]

    return rewrite


def rewrite_with_transformer(transformer: Transformer, *, max_turns: int = 3) -> Rewrite:
    """Return a Rewrite: the query, then the transformer's queries for it; the query alone where the model fails.

    The model is shown the last `max_turns` turns of the conversation, a turn being a question and its answer.
    """

    def rewrite(query: Query) -> list[Query]:
        recent = query.history[len(query.history) - min(2 * max_turns, len(query.history)) :]
        context = "\n".join(f"{message.role}: {message.text}" for message in recent)
        try:
            texts = transformer.transform_with_context(query.text, context)
        except DriverFailed as failure:
            note("transform_failed", str(failure))
            texts = []
        others = [text for text in dedupe_queries([query.text, *texts]) if text != query.text]
        return [query, *(replace(query, text=text, vector=None) for text in others)]

    return rewrite


def build_expander(config: HistoryConfig) -> ContextualExpander:
    """Build a ContextualExpander with the settings of the history."""
    return ContextualExpander(
        max_context_turns=config.max_context_turns,
        include_assistant=config.include_assistant,
        keyword_weight=config.keyword_weight,
        max_keywords=config.max_keywords,
    )


def expand_if_elliptic(query: Query, expander: ContextualExpander, is_new_topic: Compare) -> Query:
    """Expand an elliptic query by the best keywords of its history; other queries are unchanged.

    Of a fragment, `is_new_topic` says whether it is about something else, given the query and its expansion.
    """
    if not query.history or not query.text:
        return query
    elliptic = is_elliptic(query.text)
    if not elliptic and not is_fragment(query.text):
        return query
    with step("expand") as trace:
        expanded = replace(query, text=expander.expand(query.text, query.history), vector=None)
        if expanded.text == query.text:
            trace.notes["reason"] = "nothing that was said before adds a word"
            return query
        if not elliptic and is_new_topic(query, expanded):
            trace.notes["reason"] = "it finds something else by itself than what was talked of"
            return query
        reason = "it is a follow-up by its words" if elliptic else "it is short and may belong to what was talked of"
        trace.notes.update(query=expanded.text, reason=reason)
    return expanded
