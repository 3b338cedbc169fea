"""The floor of a context: which hits are too unlikely to answer to be shown, and when none of them is shown."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from clew.core.passages import Context, DroppedPassage
from clew.core.settings import ContextConfig
from clew.core.types import Hit
from clew.query.context.budget import Count
from clew.query.context.merge import as_merged_chunk
from clew.query.rank.calibrate import estimate_answer_chances, get_part

IRRELEVANT = "relevance"  # the reason of a hit that is left out


def split_by_relevance(
    hits: Sequence[Hit], config: ContextConfig, find_anywhere: Callable[[], Sequence[Hit]] | None = None
) -> tuple[list[Hit], list[Hit]]:
    """Split the hits into shown ones and ones left out.

    Of a query of a conversation all are left out if not even all together are likely enough to answer it.

    find_anywhere: Finds the hits without the filter: whether a question has an answer does not depend on a filter.
    """
    answered = _list_answered(hits, config)
    if find_anywhere is not None and any(get_part(hit) not in answered for hit in hits):
        answered |= _list_answered(find_anywhere(), config)
    shown = [hit for hit in hits if get_part(hit) in answered and hit.relevance >= config.min_relevance]
    chosen = {id(hit) for hit in shown}
    return shown, [hit for hit in hits if id(hit) not in chosen]


def _list_answered(hits: Sequence[Hit], config: ContextConfig) -> set[float]:
    """List the queries, by number, of which some hit is likely enough to answer."""
    return {part for part, chance in estimate_answer_chances(hits).items() if chance >= config.min_chance}


def note_irrelevant_hits(context: Context, left_out: Sequence[Hit], count: Count, config: ContextConfig) -> Context:
    """Return the context with the hits that were left out in its ledger, and a reason if nothing else was found."""
    dropped = [DroppedPassage(as_merged_chunk(hit), IRRELEVANT, count(hit.chunk.text)) for hit in left_out]
    nothing_else = not context.passages and not context.dropped
    reason = explain_floor(left_out, config) if nothing_else else context.reason
    return replace(context, dropped=(*context.dropped, *dropped), reason=reason)


def explain_floor(left_out: Sequence[Hit], config: ContextConfig) -> str:
    """Return the reason why nothing is shown although something was found."""
    chance = max(estimate_answer_chances(left_out).values(), default=0.0)
    if chance < config.min_chance:
        return (
            f"nothing relevant was found: the chance that any of {len(left_out)} hits answers is {chance:.2f}, below "
            f"context.min_chance = {config.min_chance}"
        )
    return f"nothing relevant was found: no hit reaches context.min_relevance = {config.min_relevance}"
