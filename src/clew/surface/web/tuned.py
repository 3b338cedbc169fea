"""The paths of the page that search with other settings than the server's: what its panel previews and a fix tries.

Only the settings that `why_not` may name can be given, and the weights of the two rankings; nothing is kept.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from clew.core.errors import SettingsError
from clew.core.settings import Settings
from clew.core.trace import record
from clew.engine import Engine
from clew.query.why.fix import KNOBS, replace_setting
from clew.surface.search_reply import search_with_reason
from clew.surface.server.bodies import Label, Name, SearchBody, Tokens
from clew.surface.server.call import Calling, reply_json
from clew.surface.server.routes.search import COLLECTION_ONLY
from clew.surface.to_json import context_to_json

router = APIRouter(prefix="/v1/page", include_in_schema=False)
MAX_COUNT: Final = 10_000
Value = bool | int | float | str | None


def list_tunable_values() -> dict[str, tuple[Any, ...]]:
    """The settings that a request may give, each with values of the types that it takes."""
    found: dict[str, tuple[Any, ...]] = {"flow.semantic_weight": (0.0, 1.0)}
    for knob in (knob for knobs in KNOBS.values() for knob in knobs if knob.setting != "k"):
        found[knob.setting] = found.get(knob.setting, ()) + knob.values
    return found


TUNABLE: Final = list_tunable_values()


class TunedBody(SearchBody):
    """A search with settings of its own, by their dotted names."""

    tokens: Tokens | None = None
    settings: dict[Label, Value] = Field(default_factory=dict, max_length=len(TUNABLE))

    def build_settings(self, engine: Engine) -> Settings:
        """The settings of the call: the engine's, with what the request sets."""
        return replace_settings(super().build_settings(engine), self.settings)


class TunedWhyNotBody(TunedBody):
    """The question why a document was not found with these settings."""

    target: Name


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


@router.post("/search")
async def search(body: TunedBody, caller: Calling) -> Response:
    """As `/v1/search`."""
    return reply_json(
        await caller.call(
            lambda engine: search_with_reason(
                engine, body.build_query(), group_by=body.group_by, **body.build_arguments(engine)
            )
        )
    )


@router.post("/explain")
async def explain(body: TunedBody, caller: Calling) -> Response:
    """As `/v1/explain`."""
    return reply_json(
        await caller.call(lambda engine: engine.explain(body.build_query(), **body.build_arguments(engine)))
    )


@router.post("/context")
async def context(body: TunedBody, caller: Calling) -> Response:
    """As `/v1/context`."""

    def call(engine: Engine) -> dict[str, Any]:
        with record("context") as trace:
            found = engine.context(body.build_query(), tokens=body.tokens, **body.build_arguments(engine))
        return context_to_json(found, trace=trace)

    return reply_json(await caller.call(call))


@router.post("/why-not")
async def why_not(body: TunedWhyNotBody, caller: Calling) -> Response:
    """As `/v1/why-not`."""

    def call(engine: Engine) -> Any:
        seen = engine.within(COLLECTION_ONLY)
        return seen.why_not(body.build_query(), body.target, tokens=body.tokens, **body.build_arguments(engine))

    return reply_json(await caller.call(call))
