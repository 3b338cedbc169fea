"""The smallest change of one setting that brings a target back: found by trying, never guessed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clew.core.errors import SettingsError
from clew.core.settings import Settings
from clew.core.types import Filter
from clew.core.why import Fix, Stage

Back = Callable[[Settings], bool]  # whether the target is found under these settings

COUNTS = tuple(range(1, 10)) + tuple(int(10 * 1.1**n) for n in range(73))  # up to 9,555, each a tenth more
COSINES = tuple(round(1 - n / 100, 2) for n in range(201))  # from 1 down to -1


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that may be turned one way: the values to try, the gentlest first."""

    setting: str
    values: tuple[Any, ...]
    up: bool | None = None  # only values above (True) or below (False) the one that is set

    def turned(self, now: Any) -> Sequence[Any]:
        """The values beyond the one that is set."""
        if self.up is None or now is None:
            return [value for value in self.values if value != now]
        return [value for value in self.values if (value > now if self.up else value < now)]


def _more(*settings: str) -> tuple[Knob, ...]:
    return tuple(Knob(setting, COUNTS, up=True) for setting in settings)


_WEIGHTS = (
    Knob("search.semantic_weight", tuple(n / 20 for n in range(21)), up=True),
    Knob("search.semantic_weight", tuple(1 - n / 20 for n in range(21)), up=False),
    Knob("search.fusion", ("convex", "rrf", "round_robin")),
)
_DEEPER = _more("search.depth", "search.candidates", "conversation.chunks_per_query")
KNOBS: dict[Stage, tuple[Knob, ...]] = {
    "threshold": (Knob("search.min_similarity", COSINES, up=False),),
    "depth": (*_more("k"), *_DEEPER, Knob("search.mode", ("exact",))),
    "fusion": (*_more("k"), *_WEIGHTS, *_DEEPER),
    "rerank": (*_more("k"), Knob("search.strategy", ("hybrid",))),
    "dedup": (
        *_more("conversation.dedup_max_per_doc"),
        Knob("conversation.dedup_threshold", tuple(n / 100 for n in range(50, 101)), up=True),
        Knob("conversation.dedup_strategy", ("document", "none")),
    ),
    "diversity": (*_more("k"), Knob("conversation.mmr", (1.0, None)), Knob("conversation.order", ("score",))),
    "merge": (
        Knob("merger.max_merged_size", tuple(int(100_000 / 1.1**n) for n in range(100)), up=False),
        Knob("merger.require_adjacent", (True,)),
        Knob("context.render", ("numbered",)),
    ),
    "budget": (
        Knob("context.tokens", tuple(int(10 * 1.05**n) for n in range(240)), up=True),
        Knob("context.cut", (True,)),
    ),
}


def smallest(stage: Stage, settings: Settings, back: Back, *, k: str) -> Fix | None:
    """The first knob of the stage that brings the target back, turned as little as does it; `k` names the cut."""
    for knob in KNOBS.get(stage, ()):
        name = k if knob.setting == "k" else knob.setting
        now = value_of(settings, name)
        value = _least(knob.turned(now), lambda value, name=name: _tried(settings, name, value, back))  # type: ignore[misc]
        if value is not None:
            return Fix(name, value[0], now)
    return None


def without_conditions(where: Filter) -> Iterator[tuple[str, Filter]]:
    """The filter without one of its conditions, for each that it has."""
    blank = Filter()
    for name in ("documents", "kinds", "channels", "authors", "since", "until", "meta"):
        if getattr(where, name) != getattr(blank, name):
            yield name, replace(where, **{name: getattr(blank, name)})


def value_of(settings: Settings, name: str) -> Any:
    """The value of a setting by its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(settings, group), field)


def changed(settings: Settings, name: str, value: Any) -> Settings:
    """The settings with another value at a dotted name."""
    group, _, field = name.partition(".")
    return replace(settings, **{group: replace(getattr(settings, group), **{field: value})})


def _tried(settings: Settings, name: str, value: Any, back: Back) -> bool:
    try:
        return back(changed(settings, name, value))
    except SettingsError:  # it does not go together with another setting
        return False


def _least(values: Sequence[Any], works: Callable[[Any], bool]) -> tuple[Any] | None:
    """The gentlest value that works, in a tuple, where the harder ones do too; None where the hardest does not.

    Whole numbers are tried in between, too.
    """
    if not values or not works(values[-1]):
        return None
    at = _first(len(values) - 1, lambda place: works(values[place]))
    value = values[at]
    if at and type(value) is int and type(values[at - 1]) is int:
        low, high = sorted((values[at - 1], value))
        if value > values[at - 1]:
            value = low + 1 + _first(high - low - 1, lambda more: works(low + 1 + more))
    return (value,)


def _first(last: int, works: Callable[[int], bool]) -> int:
    """The first number up to the last, which works, from which on all do."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high
