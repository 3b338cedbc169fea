"""A search as every surface replies to it: the hits, the trace, and the reason where there are none."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import Settings
from clew.core.trace import record
from clew.core.types import Message
from clew.query.messages.table import Table
from clew.surface.to_json import search_to_json

if TYPE_CHECKING:
    from clew.engine import Engine


def search_with_reason(
    engine: "Engine",
    query: str | Table,
    *,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    group_by: Literal["document"] | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """The result of a search as JSON."""
    with record("search") as trace:
        hits = engine.search(
            query,
            k=k,
            strategy=strategy,
            where=where,
            history=history,
            channel=channel,
            now=now,
            group_by=group_by,
            settings=settings,
        )
    reason = ""
    if not hits:
        reason = explain_empty_result(engine, query, strategy=strategy, where=where, history=history, settings=settings)
    return search_to_json(hits, reason=reason, trace=trace)


def explain_empty_result(
    engine: "Engine",
    query: str | Table,
    *,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    settings: Settings | None = None,
) -> str:
    """The reason why a search found nothing: the numbers of the best hit if a minimum left it out."""
    own = settings or engine.settings
    if own.search.has_floor:
        floorless = replace(own, search=replace(own.search, min_similarity=None, min_relevance=0.0))
        for best in engine.search(query, k=1, strategy=strategy, where=where, history=history, settings=floorless):
            numbers = f"a relevance of {best.relevance:.2f} and a similarity of {best.similarity:.2f}"
            return f"the best hit has {numbers}, below the minimum that is set"
    from clew.query.why.diagnose import explain_no_hits

    return explain_no_hits(engine.status(), where, engine.unknown_names(where))
