"""The floor of a context: which hits are too unlikely to answer to be shown, and when none of them is shown."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from clew.core.cite import Context, DroppedPassage
from clew.core.settings import ContextConfig
from clew.core.types import Hit
from clew.query.context.budget import Count
from clew.query.context.merge import as_merged_chunk
from clew.query.rank.calibrate import estimate_answer_chance

IRRELEVANT = "relevance"  # the reason of a hit that is left out
NEVER = 2.0  # above every relevance


def find_relevance_floor(
    hits: Sequence[Hit], config: ContextConfig, find_anywhere: Callable[[], Sequence[Hit]] | None = None
) -> float:
    """Find the relevance that a hit must reach; above 1 if not even all hits together are likely enough to answer.

    find_anywhere: Finds the hits without the filter: whether a question has an answer does not depend on a filter.
    """
    is_likely = estimate_answer_chance(hits) >= config.min_chance or (
        find_anywhere is not None and estimate_answer_chance(find_anywhere()) >= config.min_chance
    )
    return config.min_relevance if is_likely else NEVER


def split_by_relevance(
    hits: Sequence[Hit], config: ContextConfig, find_anywhere: Callable[[], Sequence[Hit]] | None = None
) -> tuple[list[Hit], list[Hit]]:
    """Split the hits into shown ones and ones left out."""
    floor = find_relevance_floor(hits, config, find_anywhere)
    return [hit for hit in hits if hit.relevance >= floor], [hit for hit in hits if not hit.relevance >= floor]


def note_irrelevant_hits(context: Context, left_out: Sequence[Hit], count: Count, config: ContextConfig) -> Context:
    """Return the context with the hits that were left out in its ledger, and a reason if nothing else was found."""
    dropped = [DroppedPassage(as_merged_chunk(hit), IRRELEVANT, count(hit.chunk.text)) for hit in left_out]
    nothing_else = not context.passages and not context.dropped
    reason = explain_floor(left_out, config) if nothing_else else context.reason
    return replace(context, dropped=(*context.dropped, *dropped), reason=reason)


def explain_floor(left_out: Sequence[Hit], config: ContextConfig) -> str:
    """Return the reason why nothing is shown although something was found."""
    chance = estimate_answer_chance(left_out)
    if chance < config.min_chance:
        return (
            f"nothing relevant was found: the chance that any of {len(left_out)} hits answers is {chance:.2f}, below "
            f"context.min_chance = {config.min_chance}"
        )
    return f"nothing relevant was found: no hit reaches context.min_relevance = {config.min_relevance}"
