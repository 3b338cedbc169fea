"""The paths of the page that search with other settings than the server's: what its panel previews and a fix tries.

Only the settings that `why_not` may name can be given, and the weights of the two rankings; nothing is kept.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from clew.core import requests as q
from clew.core.errors import SettingsError
from clew.core.settings import Settings
from clew.engine import Engine
from clew.query.why.fix import KNOBS, replace_setting
from clew.surface.bodies import ShortText
from clew.surface.search_reply import search_with_reason
from clew.surface.server.call import Build, Caller, reply_json, serve
from clew.surface.server.routes.search import explain_missing, make_context
from clew.surface.verbs import call_verb

router = APIRouter(include_in_schema=False)
MAX_COUNT: Final = 10_000
Value = bool | int | float | str | None


def list_tunable_values() -> dict[str, tuple[Any, ...]]:
    """The settings that a request may give, each with values of the types that it takes."""
    found: dict[str, tuple[Any, ...]] = {"flow.semantic_weight": (0.0, 1.0)}
    for knob in (knob for knobs in KNOBS.values() for knob in knobs if knob.setting != "k"):
        found[knob.setting] = found.get(knob.setting, ()) + knob.values
    return found


TUNABLE: Final = list_tunable_values()
Given = Annotated[dict[ShortText, Value], Field(max_length=len(TUNABLE))]


def replace_settings(settings: Settings, given: Mapping[str, Value]) -> Settings:
    """The settings with the given ones in their place; SettingsError where one may not be given, or not so."""
    for name, value in given.items():
        known = TUNABLE.get(name)
        if known is None:
            raise SettingsError(f"{name!r} cannot be set here; known are {', '.join(sorted(TUNABLE))}")
        types = {type(each) for each in known}
        if type(value) not in types and not (type(value) is int and float in types):
            raise SettingsError(f"{name} is {value!r}; it takes values such as {known[0]!r}")
        if type(value) is int and value > max([MAX_COUNT, *(each for each in known if type(each) is int)]):
            raise SettingsError(f"{name} is {value}; that is more than can be tried here")
        settings = replace_setting(settings, name, value)
    return settings


async def answer_with(
    run: Callable[..., Any], caller: Caller, build: Build[Any], *, settings: Mapping[str, Value]
) -> Response:
    """The reply of a verb with settings of the request's own, by their dotted names."""

    def call(engine: Engine) -> Any:
        return run(engine, build(engine), settings=replace_settings(engine.settings, settings))

    return reply_json(await caller.call(call))


RUNS: Final[Mapping[type[q.Request[Any]], Callable[..., Any]]] = {
    q.Search: search_with_reason,
    q.Explain: call_verb,
    q.Context: make_context,
    q.WhyNot: explain_missing,
}
for _request, _run in RUNS.items():
    serve(
        router,
        _request,
        partial(answer_with, _run),
        path=_request.path.replace("/v1/", "/v1/page/"),
        own={"settings": (Given, Field(default_factory=dict))},
    )
