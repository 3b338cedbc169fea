"""A search as every surface replies to it: the hits, the trace, and the reason where there are none."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clew.core.requests import Search
from clew.core.settings import Settings
from clew.core.trace import record
from clew.surface.to_json import search_to_json
from clew.surface.verbs import call_verb, take_settings

if TYPE_CHECKING:
    from clew.engine import Engine


def search_with_reason(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> dict[str, Any]:
    """The result of a search as JSON."""
    with record("search") as trace:
        hits = call_verb(engine, asked, settings=settings)
    reason = "" if hits else explain_empty_result(engine, asked, settings=settings)
    return search_to_json(hits, reason=reason, trace=trace)


def explain_empty_result(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> str:
    """The reason why a search found nothing: the numbers of the best hit if a minimum left it out."""
    asked, own = take_settings(asked, settings or engine.settings)
    if own.search.has_floor:
        floorless = replace(own, search=replace(own.search, min_similarity=None, min_relevance=0.0))
        for best in call_verb(engine, replace(asked, k=1), settings=floorless):
            numbers = f"a relevance of {best.relevance:.2f} and a similarity of {best.similarity:.2f}"
            return f"the best hit has {numbers}, below the minimum that is set"
    from clew.query.why.diagnose import explain_no_hits

    return explain_no_hits(engine.status(), asked.where, engine.unknown_names(asked.where))
