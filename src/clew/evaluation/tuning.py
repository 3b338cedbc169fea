"""Tuning: choose settings by the user's own judged questions, and keep them only if a test supports them.

The test uses held-out questions, which took no part in the choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from clew.core.errors import ConcurrentChange, SettingsError
from clew.core.ids import digest
from clew.core.report import OnProgress, Progress
from clew.core.settings.override import check_tunable, flatten_settings, override_settings
from clew.drivers.tuned import TunedSettings, hold_tuning, read_tuned_settings, write_tuned_settings
from clew.engine import Engine
from clew.evaluation.evaluating import evaluate
from clew.evaluation.measures import Interval, bootstrap, permutation_test
from clew.evaluation.questions.judged import JudgedQuestion, read_questions
from clew.evaluation.report import CONTEXT_MEASURE, Values, collect_values

MIN_QUESTIONS = 10  # to choose by
MIN_HELD_OUT = 20
TRAIN_SHARE = 0.2
PARTS = 8  # of the held-out questions
LEVEL = 0.05  # significance level: the share of useless settings that may be promoted
MIN_DIFFERING = 12  # differing held-out questions: fewer may miss the rare question that loses much
# Tried in this order, each with the best of the previous ones. All are search settings: nothing is added again.
CANDIDATES: Final[Mapping[str, Sequence[Any]]] = MappingProxyType(
    {
        "search.strategy": ("hybrid", "semantic", "lexical", "document_boost"),
        "search.fusion": ("confident", "convex", "rrf"),
        "search.semantic_weight": (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
        "search.document_weight": (0.1, 0.3, 0.5),
        "search.depth": (25, 50, 100, 200),
    }
)
# They select the hits to show, so they only matter for measures of the context.
CONTEXT_CANDIDATES: Final[Mapping[str, Sequence[Any]]] = MappingProxyType(
    {"context.min_relevance": (0.0, 0.01, 0.03, 0.1), "context.min_chance": (0.0, 0.3, 0.45, 0.58, 0.8)}
)
# Settings that need another setting: its name, and the values under which they have an effect.
_NEEDS = {
    "search.fusion": ("search.strategy", ("hybrid",)),
    "search.semantic_weight": ("search.strategy", ("hybrid",)),
    "search.document_weight": ("search.strategy", ("document_boost",)),
}


@dataclass(frozen=True, slots=True)
class TriedSetting:
    """A tried value of a setting, with the mean of the measure."""

    setting: str
    value: Any
    mean: float
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class Promotion:
    """The result of the test on the held-out questions: difference, one-sided p-value, and whether it is promoted."""

    difference: Interval
    p: float
    questions: int
    is_promoted: bool
    differing: int = 0  # questions with another value than before


@dataclass(frozen=True, slots=True)
class Tuning:
    """The tried settings, the best ones, and the test on the held-out questions.

    `settings` are the changes by dotted name, empty if nothing was better. `is_promoted` is True if the test supports
    them, `is_kept` if they were written into the collection.
    """

    measure: str
    settings: Mapping[str, Any]
    train_questions: int
    promotion: Promotion
    tried: tuple[TriedSetting, ...] = ()
    is_kept: bool = False
    reason: str = ""
    notes: tuple[str, ...] = ()  # cautions about the questions

    @property
    def is_promoted(self) -> bool:
        """Whether the settings are also better on the held-out questions."""
        return self.promotion.is_promoted


@dataclass(frozen=True, slots=True)
class _Trial:
    """The measurement of settings on all questions, each measured once."""

    engine: Engine
    questions: Sequence[JudgedQuestion]
    measure: str
    k: int
    tokens: int
    on_progress: OnProgress | None = field(default=None, compare=False)
    measured: dict[str, dict[str, float]] = field(default_factory=dict, compare=False)

    def measure_values(self, changes: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
        """Return the value of each question, by its id, under each of the changes."""
        trees = [override_settings(self.engine.settings, each) for each in changes]
        new = {str(at): tree for at, tree in enumerate(trees) if repr(tree) not in self.measured}
        if new:
            made = evaluate(self.engine, self.questions, settings=new, k=self.k, tokens=self.tokens, keep=False)
            for tree, system in zip(new.values(), made.run.systems, strict=True):
                values = collect_values(made.run, system.name)
                self.measured[repr(tree)] = self._pick(values)
                if not self.measured[repr(tree)]:
                    known = ", ".join(sorted(values))
                    raise SettingsError(f"the questions do not tell {self.measure}; they tell {known}")
        return [self.measured[repr(tree)] for tree in trees]

    def _pick(self, values: Values) -> dict[str, float]:
        name = f"evidence@{self.tokens} tokens" if self.measure == CONTEXT_MEASURE else self.measure
        return values.get(self.measure) or values.get(name, {})


# Every surface has these parameters.
def tune(
    engine: Engine,
    questions: str | Path | Sequence[JudgedQuestion],
    *,
    measure: str = "",
    candidates: Mapping[str, Sequence[Any]] | None = None,
    k: int = 10,
    tokens: int | None = None,
    train_share: float = TRAIN_SHARE,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> Tuning:
    """Find the settings that serve these questions best, and keep them if held-out questions support them.

    Each candidate value is tried, one setting after another. So that the choice is not tested on its own questions, it
    is also made with a first part of the questions only (`train_share`), then with more and more of them, each time
    tested on the next ones. A single test over these decides whether the choice beats the present settings; at most 5 %
    of useless settings pass. The choice by all questions is kept and applies when the collection is opened next, until
    `rollback_tuning`. Only one tuning of a collection may run: raise ConcurrentChange if another one runs, or has kept
    settings meanwhile.

    measure: Default: nDCG at `k`. "context" is the evidence in the context, or for an unanswerable question, whether
        the context stays empty; the relevance floors of the context are then tried too.
    candidates: Values to try, by the dotted name of a setting.
    dry_run: Keep nothing.
    """
    engine.opened.check_unbounded()
    asked = read_questions(questions) if isinstance(questions, (str, Path)) else list(questions)
    if not asked:
        raise SettingsError("there are no questions; `clew evaluate make` writes some")
    first, *parts = split_questions(asked, train_share=train_share, min_train=MIN_QUESTIONS)
    known, held_out = (len({fold_question(each) for each in side}) for side in (first, [q for p in parts for q in p]))
    if known < MIN_QUESTIONS or held_out < MIN_HELD_OUT:
        raise SettingsError(
            f"{known} questions to choose by and {held_out} held out are too few; it needs at least "
            f"{MIN_QUESTIONS} and {MIN_HELD_OUT} that ask different things, "
            "and a hundred or more find small gains (`clew evaluate make` writes some)"
        )
    measure = measure or f"nDCG@{k}"
    needs_context = measure == CONTEXT_MEASURE or "token" in measure
    budget = engine.settings.context.tokens if tokens is None else tokens
    notes = tuple(_describe_made(asked))
    trial = _Trial(engine, asked, measure, k, budget if needs_context else 0, on_progress)
    chosen = dict(candidates or {**CANDIDATES, **(CONTEXT_CANDIDATES if needs_context else {})})
    check_candidates(engine, chosen)
    with nullcontext() if dry_run else hold_tuning(engine.opened.folder):
        before = read_tuned_settings(engine.opened.records)
        best, tried = _choose(trial, asked, chosen)
        if not best:
            none = Promotion(Interval(0.0, 0.0, 0.0), 1.0, held_out, is_promoted=False)
            return Tuning(measure, {}, len(first), none, tried, reason="nothing that was tried is better", notes=notes)
        promotion = decide_promotion(*_hold_out(trial, first, parts, chosen))
        made = Tuning(measure, best, len(first), promotion, tried, notes=notes)
        if not promotion.is_promoted:
            return replace(made, reason=_explain_refusal(promotion))
        if dry_run:
            return replace(made, reason="a dry run keeps nothing")
        _keep(engine, made, before)
        return replace(made, is_kept=True)


def decide_promotion(new: Sequence[float], old: Sequence[float], *, seed: int = 0) -> Promotion:
    """Decide on a setting by its values and those of the present one, paired by question.

    A one-sided permutation test must pass at LEVEL. That test assumes gains and losses of similar size; if many
    questions win a little and few lose much, it promotes too often. So the bootstrap interval of the difference must
    also be above 0, and at least MIN_DIFFERING questions must differ.
    """
    p, difference = permutation_test(new, old, one_sided=True, seed=seed), bootstrap(new, old, seed=seed)
    differing = sum(a != b for a, b in zip(new, old, strict=True))
    is_promoted = p <= LEVEL and difference.low > 0 and differing >= MIN_DIFFERING
    return Promotion(difference, p, len(new), is_promoted, differing)


def fold_question(question: JudgedQuestion) -> str:
    """Fold case and white space of a question; questions with the same folded text ask the same."""
    return " ".join(question.question.casefold().split())


def split_questions(
    questions: Sequence[JudgedQuestion], *, train_share: float, min_train: int = 1
) -> list[list[JudgedQuestion]]:
    """Split the questions, in the order of hashes, into those to choose by and `PARTS` held-out parts.

    Each held-out part tests the choice of the parts before it, and then takes part in the next choice. So every
    question but the first ones is a test, and later choices use more questions, but never their own test. In
    cross-validation, where all questions change sides, more useless settings would pass. Questions that ask the same
    are in one part.
    """
    groups: dict[str, list[JudgedQuestion]] = {}
    for question in questions:
        groups.setdefault(digest("split", fold_question(question)), []).append(question)
    ordered = [groups[key] for key in sorted(groups)]
    count = min(len(ordered), max(min_train, round(train_share * len(ordered))))
    rest = ordered[count:]
    edges = [round(at * len(rest) / PARTS) for at in range(PARTS + 1)]
    parts = [ordered[:count], *(rest[start:end] for start, end in pairwise(edges))]
    return [[question for group in part for question in group] for part in parts if part]


def _explain_refusal(promotion: Promotion) -> str:
    """Explain why the choice is not kept."""
    if promotion.p <= LEVEL and promotion.differing < MIN_DIFFERING:
        return f"only {promotion.differing} held-out questions differ, and a gain is told by {MIN_DIFFERING} or more"
    interval = f"{promotion.difference}, p = {promotion.p:.3g}"
    return f"the gain on the held-out questions may be chance ({interval})"


def _describe_made(questions: Sequence[JudgedQuestion]) -> Iterator[str]:
    """Yield a caution if questions were made from the words of the collection itself."""
    made = sum(question.made in ("headings", "titles", "replies") for question in questions)
    if made:
        yield (
            f"{made} of {len(questions)} questions were made from the collection's own words, which speaks for a "
            "search by words; check the settings on questions that people asked"
        )


def rollback_tuning(engine: Engine) -> TunedSettings | None:
    """Undo the last tuning and return it; None if there is none. Applies when the collection is opened next."""
    engine.opened.check_unbounded()
    records = engine.opened.store.records
    kept = read_tuned_settings(records)
    if not kept:
        return None
    write_tuned_settings(records, kept[:-1])
    return kept[-1]


def list_tunings(engine: Engine) -> list[TunedSettings]:
    """List the tunings kept for the collection, oldest first; the last one is in use."""
    return read_tuned_settings(engine.opened.records)


def _hold_out(
    trial: _Trial,
    first: Sequence[JudgedQuestion],
    parts: Sequence[Sequence[JudgedQuestion]],
    candidates: Mapping[str, Sequence[Any]],
) -> tuple[list[float], list[float]]:
    """Measure each held-out question under the choice by earlier questions, and under the present settings."""
    known, new, old = list(first), list[float](), list[float]()
    for place, part in enumerate(parts, 1):
        best, _ = _choose(replace(trial, on_progress=None), known, candidates)
        chosen, present = trial.measure_values([best, {}])
        asked: dict[str, list[str]] = {}  # questions of the same text count as one in the test
        for question in part:
            if question.id in chosen and question.id in present:
                asked.setdefault(fold_question(question), []).append(question.id)
        new += [sum(chosen[id_] for id_ in same) / len(same) for same in asked.values()]
        old += [sum(present[id_] for id_ in same) / len(same) for same in asked.values()]
        known += part
        if trial.on_progress:
            trial.on_progress(Progress("testing", place, len(parts), "parts"))
    return new, old


def _choose(
    trial: _Trial, known: Sequence[JudgedQuestion], candidates: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, Any], tuple[TriedSetting, ...]]:
    """Choose the best value of one setting after another by these questions; return also all tried values."""
    now = dict(flatten_settings(trial.engine.settings))
    best: dict[str, Any] = {}
    tried: list[TriedSetting] = []
    for place, (name, values) in enumerate(candidates.items(), 1):
        other, needed = _NEEDS.get(name, (name, ()))
        if needed and best.get(other, now[other]) not in needed:
            continue
        current = best.get(name, now[name])
        options = [current, *(value for value in values if value != current)]
        measured = trial.measure_values([{**best, name: value} for value in options])
        means = [_average(each, known) for each in measured]
        top = max(range(len(options)), key=lambda at: (means[at], -at))  # on a tie, the one in use
        tried += [TriedSetting(name, value, means[at], at == top) for at, value in enumerate(options)]
        if top:
            best[name] = options[top]
        if trial.on_progress:
            trial.on_progress(Progress("tuning", place, len(candidates), "settings"))
    return best, tuple(tried)


def _average(values: Mapping[str, float], questions: Sequence[JudgedQuestion]) -> float:
    """Return the mean of the values of these questions; 0 if none has a value."""
    found = [values[question.id] for question in questions if question.id in values]
    return sum(found) / len(found) if found else 0.0


def _keep(engine: Engine, tuning: Tuning, before_it: Sequence[TunedSettings]) -> None:
    """Keep tuned settings; raise ConcurrentChange if others were kept or rolled back since the tuning began."""
    records = engine.opened.store.records
    kept = read_tuned_settings(records)
    if kept != before_it:
        raise ConcurrentChange(
            "other settings were tuned or taken back while this tuning ran, so what it measured is not what is in use; "
            "nothing was kept; tune again"
        )
    name = engine.opened.embedder.name
    before = kept[-1].settings if kept and kept[-1].embedder == name else {}
    new = TunedSettings(
        {**before, **tuning.settings},
        embedder=name,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        measure=tuning.measure,
        difference=tuning.promotion.difference.mean,
        p=tuning.promotion.p,
        questions=tuning.promotion.questions,
    )
    write_tuned_settings(records, [*kept, new])


def check_candidates(engine: Engine, candidates: Mapping[str, Sequence[Any]]) -> None:
    """Raise SettingsError unless each candidate is a tunable setting with valid values."""
    for name, values in candidates.items():
        check_tunable(name, values)
        for value in values:
            override_settings(engine.settings, {name: value})
