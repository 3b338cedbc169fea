"""Requests as calls of Engine: the options that are settings, the arguments of its method, the result as JSON."""

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
    """Take the options that are settings out of a request; return it without them, and the settings with them."""
    options = [each for each in list_options(type(asked)) if each.option.setting]
    given = {each.option.setting: value for each in options if (value := getattr(asked, each.name)) is not None}
    if not given:
        return asked, settings
    return replace(asked, **{each.name: None for each in options}), override_settings(settings, given)


def list_arguments(asked: Request[Any], kind: type[Request[Any]] | None = None) -> dict[str, Any]:
    """List the arguments of a request for a method of Engine; with a `kind`, those that this one has too."""
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
    """Answer a request, as JSON has the reply."""
    found = call_verb(engine, asked)
    return {asked.part: found} if asked.part else found


def search_with_reason(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> dict[str, Any]:
    """Search, and return the result as JSON."""
    from clew.surface.to_json import search_to_json

    with record("search") as trace:
        hits = call_verb(engine, asked, settings=settings)
    reason = "" if hits else explain_empty_result(engine, asked, settings=settings)
    return search_to_json(hits, reason=reason, trace=trace)


def explain_empty_result(engine: "Engine", asked: Search, *, settings: Settings | None = None) -> str:
    """Return why a search found nothing: the numbers of the best hit if a minimum, or `without`, left it out."""
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
