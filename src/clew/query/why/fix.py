"""Finds the smallest change of one setting that brings a target back, by trying it."""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from clew.core.errors import SettingsError
from clew.core.explanation import Fix, Stage
from clew.core.filter import Filter
from clew.core.protocols import Reranker
from clew.core.settings import Settings
from clew.query.search.rank import score_texts

IsFound = Callable[[Settings], bool]  # whether these settings find the target

COUNTS = tuple(range(1, 10)) + tuple(int(10 * 1.1**n) for n in range(73))  # up to 9,555, each 10 % more
COSINES = tuple(round(1 - n / 100, 2) for n in range(201))  # from 1 down to -1
CHANCES = (*(round(1 - n / 100, 2) for n in range(100)), 0.005, 0.002, 0.001, 0.0)


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that may be changed, and the values to try, the smallest change first."""

    setting: str
    values: tuple[Any, ...]
    up: bool | None = None  # only values above (True) or below (False) the current one

    def list_values_beyond(self, now: Any) -> Sequence[Any]:
        """List the values to try, without the current one and those on the wrong side of it."""
        if self.up is False and now is None:
            return []  # there is no minimum
        if self.up is None or now is None:
            return [value for value in self.values if value != now]
        return [value for value in self.values if (value > now if self.up else value < now)]


def _make_increase_knobs(*settings: str) -> tuple[Knob, ...]:
    return tuple(Knob(setting, COUNTS, up=True) for setting in settings)


_WEIGHTS = (
    Knob("search.semantic_weight", tuple(n / 20 for n in range(21)), up=True),
    Knob("search.semantic_weight", tuple(1 - n / 20 for n in range(21)), up=False),
    Knob("search.fusion", ("convex", "rrf", "round_robin")),
)
_DEPTHS = _make_increase_knobs("search.depth", "search.candidates", "conversation.chunks_per_query")
KNOBS: dict[Stage, tuple[Knob, ...]] = {
    "threshold": (
        Knob("search.min_similarity", COSINES, up=False),
        Knob("search.min_relevance", CHANCES, up=False),
        Knob("context.min_relevance", CHANCES, up=False),
        Knob("context.min_chance", CHANCES, up=False),
    ),
    "depth": (*_make_increase_knobs("k"), *_DEPTHS, Knob("search.mode", ("exact",))),
    "fusion": (*_make_increase_knobs("k"), *_WEIGHTS, *_DEPTHS),
    "rerank": (*_make_increase_knobs("k"), Knob("search.strategy", ("hybrid",))),
    "step": (*_make_increase_knobs("k"), *_DEPTHS),
    "dedup": (
        *_make_increase_knobs("conversation.dedup_max_per_doc"),
        Knob("conversation.dedup_threshold", tuple(n / 100 for n in range(50, 101)), up=True),
        Knob("conversation.dedup_strategy", ("document", "none")),
    ),
    "diversity": (
        *_make_increase_knobs("k"),
        Knob("conversation.mmr", (1.0, None)),
        Knob("conversation.order", ("score",)),
    ),
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


class TrialReranker:
    """A reranker for the trials of one question, which are many, and of ever longer lists.

    No text is scored twice. Of a list longer than those of the original search, only as many and the wanted texts are
    scored; the others count as better, so that a found target would be found with their own scores, too.
    """

    def __init__(self, wanted: Set[str]) -> None:
        self.is_trial = False  # else the search that is asked about runs
        self._wanted, self._longest = wanted, 0
        self._scores: dict[tuple[str, str], float] = {}
        self._reranker: Reranker

    def wrap(self, reranker: Reranker) -> "TrialReranker":
        """Return this reranker, by the scores of another."""
        self._reranker = reranker
        return self

    @property
    def name(self) -> str:
        """The reranker's."""
        return self._reranker.name

    def calibrate(self, score: float) -> float:
        """Calibrate by the reranker."""
        return self._reranker.calibrate(score)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the scores of texts; many of a long list are only guessed."""
        if not self.is_trial:
            self._longest = max(self._longest, len(texts))
        read = [text for place, text in enumerate(texts) if place < self._longest or text in self._wanted]
        new = [text for text in dict.fromkeys(read) if (query, text) not in self._scores]
        for text, score in zip(new, score_texts(self._reranker, query, new) if new else (), strict=True):
            self._scores[query, text] = score
        best = max((self._scores[query, text] for text in read), default=0.0)
        return [self._scores.get((query, text), best + 1) for text in texts]


def find_smallest_fix(stage: Stage, settings: Settings, is_found: IsFound, *, k: str) -> Fix | None:
    """Find the first knob of the stage that brings the target back; `k` names the setting of k."""
    for knob in KNOBS.get(stage, ()):
        name = k if knob.setting == "k" else knob.setting
        now = get_setting(settings, name)
        values = knob.list_values_beyond(now)
        value = _find_smallest_working_value(values, partial(_is_found_with, settings, name, is_found=is_found))
        if value is not None:
            return Fix(name, value[0], now)
    return None


def drop_each_condition(where: Filter) -> Iterator[tuple[str, Filter]]:
    """Yield each condition of a filter by name, with the filter that lacks it."""
    blank = Filter()
    for name in ("documents", "kinds", "channels", "authors", "since", "until", "meta", "access", "any_of", "all_of"):
        if getattr(where, name) != getattr(blank, name):
            yield name, replace(where, **{name: getattr(blank, name)})


def get_setting(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its dotted name."""
    group, _, field = name.partition(".")
    return getattr(getattr(settings, group), field)


def replace_setting(settings: Settings, name: str, value: Any) -> Settings:
    """Return the settings with another value at a dotted name."""
    group, _, field = name.partition(".")
    return replace(settings, **{group: replace(getattr(settings, group), **{field: value})})


def _is_found_with(settings: Settings, name: str, value: Any, is_found: IsFound) -> bool:
    try:
        return is_found(replace_setting(settings, name, value))
    except SettingsError:  # the value conflicts with another setting
        return False


def _find_smallest_working_value(values: Sequence[Any], works: Callable[[Any], bool]) -> tuple[Any] | None:
    """Find the smallest change that works, in a tuple (it may be None itself); None where the greatest does not.

    A greater change is assumed to work where a smaller one does. Between two whole numbers all are tried.
    """
    if not values or not works(values[-1]):
        return None
    at = _bisect_first_working(len(values) - 1, lambda place: works(values[place]))
    value = values[at]
    if at and type(value) is int and type(values[at - 1]) is int:
        low, high = sorted((values[at - 1], value))
        if value > values[at - 1]:
            value = low + 1 + _bisect_first_working(high - low - 1, lambda more: works(low + 1 + more))
    return (value,)


def _bisect_first_working(last: int, works: Callable[[int], bool]) -> int:
    """Return the first number from which on all work, by bisection; the last is known to."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high
