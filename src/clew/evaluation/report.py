"""The report of a run: means, latencies, risk by coverage, and tested differences to the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from clew.core.errors import SettingsError
from clew.core.suggest import format_count, format_names
from clew.evaluation.measures import Interval, bootstrap, correct_holm, permutation_test
from clew.evaluation.types import Comparison, EvaluatedSystem, Evaluation, EvaluationRun, QuestionResult, SystemScore

Values = dict[str, dict[str, float]]  # by measure, then by question
CONTEXT_MEASURE = "context"  # the evidence in the context, or for an unanswerable question, whether it stays empty
BINS = 20  # of relevance
_MEAN_RESAMPLES = 1_000  # enough for an interval that is only displayed


def score_run(run: EvaluationRun, *, measures: Sequence[str] = ()) -> Evaluation:
    """Score the systems of a run, and compare each with the first one.

    measures: Measures to compare (default: nDCG and, if there is evidence, the evidence in the context).
    """
    run = _sort_results(run)
    values = {system.name: collect_values(run, system.name) for system in run.systems}
    known = list(dict.fromkeys(measure for each in values.values() for measure in each))
    usual = [each for each in known if each == f"nDCG@{run.k}" or each == f"evidence@{run.tokens} tokens"]
    check_measures(measures, known)
    return Evaluation(
        run,
        tuple(_score_system(run, system, values[system.name]) for system in run.systems),
        tuple(_compare(run, values, list(measures) or usual or known[:1])),
    )


def _sort_results(run: EvaluationRun) -> EvaluationRun:
    """Sort the results of a run by system and question, since resampling depends on the order."""
    systems = {system.name: number for number, system in enumerate(run.systems)}
    questions = {id_: number for number, id_ in enumerate(run.questions)}
    ordered = sorted(run.results, key=lambda each: (systems[each.system], questions[each.question]))
    return replace(run, results=tuple(ordered))


def estimate_means(run: EvaluationRun, system: str) -> dict[str, Interval]:
    """Estimate the mean of each measure of a system with its 95 % bootstrap interval."""
    return {
        name: bootstrap(list(found.values()), [0.0] * len(found), resamples=_MEAN_RESAMPLES)
        for name, found in collect_values(run, system).items()
    }


def list_measures(k: int, tokens: int, *, answers: bool) -> list[str]:
    """List the names of all possible measures of a run."""
    ranked = [f"{name}@{k}" for name in ("nDCG", "recall", "precision", "topics", "evidence")]
    shown = [f"evidence@{tokens} tokens", "left empty", CONTEXT_MEASURE] if tokens else []
    answered = ["answered", "answer precision", "citation precision", "answer F1"] if answers else []
    return [*ranked, "MRR", "MAP", *shown, *answered]


def check_measures(measures: Sequence[str], known: Sequence[str]) -> None:
    """Raise SettingsError if a measure is unknown."""
    for measure in measures:
        if measure not in known:
            raise SettingsError(f"there is no measure {measure!r} here; there are {format_names(known, max_names=20)}")


def merge_runs(runs: Sequence[EvaluationRun]) -> EvaluationRun:
    """Merge the systems of several runs into one run, over the questions that all runs have.

    Questions judged differently between runs are left out, and measures of the context if the token budgets differ. If
    runs share the name of a system, the number of the run, in the given order, is appended.
    """
    asked = [id_ for id_ in runs[0].questions if all(id_ in run.questions for run in runs)]
    if not asked:
        raise SettingsError("the runs have no question in common, so they cannot be compared")
    shared = [id_ for id_ in asked if all(run.grades.get(id_) == runs[0].grades.get(id_) for run in runs)]
    if not shared:
        raise SettingsError(
            "the runs judge each of their common questions differently, so they cannot be compared; "
            "evaluate again with the same file of questions, on the same documents"
        )
    if len({run.k for run in runs}) > 1:
        raise SettingsError("the runs have different cut-offs (-k), so they cannot be compared")
    budgets = sorted({run.tokens for run in runs})
    names = [system.name for run in runs for system in run.systems]
    systems: list[EvaluatedSystem] = []
    results: list[QuestionResult] = []
    for number, run in enumerate(runs, 1):
        renamed = {
            each.name: f"{each.name} #{number}" if names.count(each.name) > 1 else each.name for each in run.systems
        }
        systems += [replace(each, name=renamed[each.name]) for each in run.systems]
        results += [replace(each, system=renamed[each.system]) for each in run.results if each.question in shared]
    if len(budgets) > 1:
        results = [_keep_ranked(each, runs[0].k) for each in results]
    left_out = len({id_ for run in runs for id_ in run.questions}) - len(asked)
    notes = tuple(dict.fromkeys(note for run in runs for note in run.notes))
    if len(set(names)) < len(names):
        notes += (", ".join(f"#{number} is {run.id}" for number, run in enumerate(runs, 1)),)
    if left_out:
        notes += (f"{format_count(left_out, 'question')} not in all runs, so left out",)
    if len(asked) > len(shared):
        notes += (f"{format_count(len(asked) - len(shared), 'question')} judged differently in the runs, so left out",)
    if len(budgets) > 1:
        given = ", ".join(map(str, budgets))
        notes += (f"the runs have different budgets (--tokens {given}), so what depends on the context is left out",)
    return replace(
        runs[0],
        id=" + ".join(run.id for run in runs),
        systems=tuple(systems),
        questions=tuple(shared),
        grades={id_: runs[0].grades.get(id_, {}) for id_ in shared},
        tokens=budgets[0] if len(budgets) == 1 else 0,
        results=tuple(results),
        notes=notes,
        file=None,
    )


def _keep_ranked(result: QuestionResult, k: int) -> QuestionResult:
    """Return the result without measures of the context and the answer."""
    ranked = list_measures(k, 0, answers=False)
    values = {name: value for name, value in result.values.items() if name in ranked}
    return replace(result, values=values, tokens=None, confidence=None)


def measure_risk(results: Sequence[QuestionResult]) -> tuple[tuple[float, float], ...]:
    """Return points of coverage and risk: for the n most confident answers, n by all questions, and the share wrong."""
    answered = [each for each in results if each.values.get("answered")]
    answered.sort(key=lambda each: -(each.confidence or 0.0))
    points, wrong = [], 0.0
    for count, each in enumerate(answered, 1):
        wrong += 1 - each.values.get("right", 0.0)
        points.append((count / len(results), wrong / count))
    return tuple(points)


def list_worst(evaluation: Evaluation, count: int, *, measure: str = "") -> list[tuple[str, dict[str, float]]]:
    """List the questions with the lowest values of the first system, each with the values of every system.

    measure: Default: nDCG.
    """
    run = evaluation.run
    values = {system.name: collect_values(run, system.name) for system in run.systems}
    first = values[run.systems[0].name]
    measure = measure or f"nDCG@{run.k}"
    check_measures([measure], list(first))
    ordered = sorted(first[measure], key=lambda id_: first[measure][id_])
    return [
        (id_, {name: each[measure][id_] for name, each in values.items() if id_ in each.get(measure, {})})
        for id_ in ordered[:count]
    ]


def list_recall(evaluation: Evaluation, system: str) -> list[float]:
    """List the mean recall of a system after each position of the ranking."""
    run = evaluation.run
    results = [each for each in run.results if each.system == system]
    depth = max((len(each.ranking) for each in results), default=0)
    totals, counted = [0.0] * depth, 0
    for result in results:
        relevant = {name for name, grade in run.grades.get(result.question, {}).items() if grade > 0}
        if not relevant:
            continue
        counted, found = counted + 1, 0
        for place in range(depth):
            found += place < len(result.ranking) and result.ranking[place] in relevant
            totals[place] += found / len(relevant)
    return [total / counted for total in totals] if counted else []


def split_relevances(evaluation: Evaluation, system: str) -> tuple[list[float], list[float]]:
    """Return the relevances that a system gave to relevant results, and to others."""
    right: list[float] = []
    wrong: list[float] = []
    for result in evaluation.run.results:
        if result.system == system:
            grades = evaluation.run.grades.get(result.question, {})
            for name, relevance in zip(result.ranking, result.relevances, strict=True):
                (right if grades.get(name, 0) > 0 else wrong).append(relevance)
    return right, wrong


def count_relevances(evaluation: Evaluation, system: str) -> dict[str, list[int]]:
    """Count the relevant and the other results of a system in BINS equal ranges of relevance."""
    counts = {}
    for name, found in zip(("relevant", "others"), split_relevances(evaluation, system), strict=True):
        counts[name] = [0] * BINS
        for relevance in found:
            counts[name][min(max(int(relevance * BINS), 0), BINS - 1)] += 1
    return counts


def collect_values(run: EvaluationRun, system: str) -> Values:
    """Collect the values of a system by measure, then by question.

    If some questions have no answer, "context" combines the evidence in the context with whether it stays empty.
    """
    found: Values = {}
    for result in run.results:
        if result.system == system:
            for measure, value in result.values.items():
                found.setdefault(measure, {})[result.question] = value
    if "right" in found:
        found["answer precision"] = found.pop("right")
    if "left empty" in found:
        found[CONTEXT_MEASURE] = {**found.get(f"evidence@{run.tokens} tokens", {}), **found["left empty"]}
    return found


def _score_system(run: EvaluationRun, system: EvaluatedSystem, values: Values) -> SystemScore:
    results = [each for each in run.results if each.system == system.name]
    means = {measure: sum(by.values()) / len(by) for measure, by in values.items()}
    counts = {measure: len(by) for measure, by in values.items()}
    risk = measure_risk(results)
    if risk:
        means["risk"], counts["risk"] = sum(point for _, point in risk) / len(risk), len(results)
    times = [each.ms for each in results]
    tokens = [each.tokens for each in results if each.tokens is not None]
    return SystemScore(
        system,
        means,
        counts,
        latency={f"p{share}": float(np.percentile(times, share)) for share in (50, 95, 99)} if times else {},
        tokens=sum(tokens) / len(tokens) if tokens else None,
        risk=risk,
    )


def _compare(run: EvaluationRun, values: Mapping[str, Values], measures: Sequence[str]) -> list[Comparison]:
    """Compare every system with the first in each measure, on the questions for which both have it."""
    baseline, *others = (system.name for system in run.systems)
    found: list[Comparison] = []
    for measure in measures:
        old = values[baseline].get(measure, {})
        for other in others:
            new = values[other].get(measure, {})
            shared = [id_ for id_ in run.questions if id_ in old and id_ in new]
            if not shared:
                continue
            pair = [new[id_] for id_ in shared], [old[id_] for id_ in shared]
            p = permutation_test(*pair)
            found.append(Comparison(measure, other, baseline, bootstrap(*pair), len(shared), p, p))
    corrected = correct_holm([each.p for each in found])
    return [replace(each, corrected_p=p) for each, p in zip(found, corrected, strict=True)]
