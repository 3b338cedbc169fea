"""The paths that search: search, search-many, context, explain, why-not."""

from typing import Any

from fastapi import APIRouter

from clew.core import requests as q
from clew.core.filter import Filter
from clew.core.settings import Settings
from clew.core.trace import record
from clew.engine import Engine
from clew.surface.server.call import document_replies, serve
from clew.surface.to_json import context_to_json, hits_to_json
from clew.surface.verbs import call_verb, search_with_reason

router = APIRouter(tags=["search"], responses=document_replies(404))
# Admits everything, yet is a filter: with a filter, an engine looks at the collection, not at files of this machine.
COLLECTION_ONLY = Filter(any_of=(Filter(),))


def search_many(engine: Engine, asked: q.SearchMany) -> dict[str, Any]:
    """Return the hits of each question."""
    return {"results": [{"hits": hits_to_json(hits)} for hits in call_verb(engine, asked)]}


def make_context(engine: Engine, asked: q.Context, *, settings: Settings | None = None) -> dict[str, Any]:
    """Make a context with its trace."""
    with record("context") as trace:
        found = call_verb(engine, asked, settings=settings)
    return context_to_json(found, trace=trace)


def explain_missing(engine: Engine, asked: q.WhyNot, *, settings: Settings | None = None) -> Any:
    """Explain why a document was not found, without a look at the files of this machine."""
    return call_verb(engine.within(COLLECTION_ONLY), asked, settings=settings)


serve(router, q.Search, run=search_with_reason)
serve(router, q.SearchMany, run=search_many, pool="answers")
serve(router, q.Context, run=make_context)
serve(router, q.Explain)
serve(router, q.WhyNot, run=explain_missing)
