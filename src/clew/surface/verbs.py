"""Requests as calls of Engine: the settings among their options, the arguments of the method, the result as JSON."""

from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar

from clew.core.requests import Request, Search, list_options
from clew.core.settings import Settings
from clew.core.settings.override import override_settings
from clew.core.trace import record

if TYPE_CHECKING:
    from clew.engine import Engine

Asked = TypeVar("Asked", bound=Request[Any])


def take_settings(asked: Asked, settings: Settings) -> tuple[Asked, Settings]:
    """Move the options of a request that are settings into the settings; return both."""
    options = [each for each in list_options(type(asked)) if each.option.setting]
    given = {each.option.setting: value for each in options if (value := getattr(asked, each.name)) is not None}
    if not given:
        return asked, settings
    return replace(asked, **{each.name: None for each in options}), override_settings(settings, given)


def list_arguments(asked: Request[Any], kind: type[Request[Any]] | None = None) -> dict[str, Any]:
    """Return the arguments of a request for a method of Engine; with a `kind`, only those that it has too."""
    options = (each for each in list_options(kind or type(asked), "python") if not each.option.setting)
    return {each.name: getattr(asked, each.name) for each in options if hasattr(asked, each.name)}


def call_verb(engine: "Engine", asked: Request[Any], *, settings: Settings | None = None, **more: Any) -> Any:
    """Run a request's verb and return its result; `more` are arguments that only Python has, such as callbacks."""
    asked, own = take_settings(asked, settings or engine.settings)
    if own is not engine.settings:
        more["settings"] = own
    method, named = getattr(engine, asked.verb), list_arguments(asked)
    taken = signature(method).parameters
    spread = [name for name in named if name in taken and taken[name].kind is Parameter.VAR_POSITIONAL]
    values = [each for name in spread for each in named.pop(name)]
    return method(*values, **named, **more)


def answer_verb(engine: "Engine", asked: Request[Any]) -> Any:
    """Run a request's verb and return the reply, under the name of its part if it has one."""
    found = call_verb(engine, asked)
    return {asked.part: found} if asked.part else found


def search_with_reason(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> dict[str, Any]:
    """Search, and return the hits as JSON, with a reason if there are none."""
    from clew.surface.to_json import search_to_json

    with record("search") as trace:
        hits = call_verb(engine, asked, settings=settings)
    reason = "" if hits else explain_empty_result(engine, asked, settings=settings)
    return search_to_json(hits, reason=reason, trace=trace)


def explain_empty_result(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> str:
    """Explain why a search found nothing; if a minimum dropped the best hit, with that hit's numbers."""
    asked, own = take_settings(asked, settings or engine.settings)
    if own.search.has_floor:
        floorless = replace(own, search=replace(own.search, min_similarity=None, min_relevance=0.0))
        for best in call_verb(engine, replace(asked, k=1), settings=floorless):
            numbers = f"a relevance of {best.relevance:.2f} and a similarity of {best.similarity:.2f}"
            return f"the best hit has {numbers}, below the minimum that is set"
    if asked.without and call_verb(engine, replace(asked, k=1, without=()), settings=own):
        return "`without` leaves out all that matches; leave out less to see the rest"
    from clew.query.why import explain_no_hits

    return explain_no_hits(engine.status(), asked.where, engine.unknown_names(asked.where))
