"""The plots of an evaluation as PNG files; they need matplotlib."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from clew.core.errors import DriverMissing, SourceError
from clew.evaluation.types import Evaluation

BINS: Final = 20  # of the relevance


def write_plots(evaluation: Evaluation, folder: str | Path) -> tuple[Path, ...]:
    """Writes the plots of an evaluation into a folder; the files.

    Quality against cost, relevance of relevant and other results, recall by position and, where answers were asked for,
    risk against coverage. DriverMissing without matplotlib.
    """
    pyplot = import_pyplot()
    folder = Path(folder)
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in _PLOTS.items():
            figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
            if draw(axes, evaluation):
                files.append(folder / f"{name}.png")
                figure.savefig(files[-1], dpi=150)
            pyplot.close(figure)
    except OSError as error:
        raise SourceError(str(folder), f"cannot be written: {error.strerror}") from error
    return tuple(files)


def list_recall(evaluation: Evaluation, system: str) -> list[float]:
    """The mean recall of a system after each position of the ranking."""
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
    """The relevance that a system gave to relevant results, and to others."""
    right: list[float] = []
    wrong: list[float] = []
    for result in evaluation.run.results:
        if result.system == system:
            grades = evaluation.run.grades.get(result.question, {})
            for name, relevance in zip(result.ranking, result.relevances, strict=True):
                (right if grades.get(name, 0) > 0 else wrong).append(relevance)
    return right, wrong


def count_relevances(evaluation: Evaluation, system: str) -> dict[str, list[int]]:
    """How many relevant results of a system, and how many others, have a relevance in each of twenty equal ranges."""
    counts = {}
    for name, found in zip(("relevant", "others"), split_relevances(evaluation, system), strict=True):
        counts[name] = [0] * BINS
        for relevance in found:
            counts[name][min(max(int(relevance * BINS), 0), BINS - 1)] += 1
    return counts


def import_pyplot() -> Any:
    """The library that draws; DriverMissing where it is not installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as pyplot
    except ImportError:
        raise DriverMissing("plots need matplotlib; install it with `pip install 'clew[plots]'`") from None
    return pyplot


def _draw_quality(axes: Any, evaluation: Evaluation) -> bool:
    measure = f"nDCG@{evaluation.run.k}"
    for score in evaluation.scores:
        if measure in score.means:
            axes.scatter(score.latency["p50"], score.means[measure])
            axes.annotate(f" {score.system.name}", (score.latency["p50"], score.means[measure]))
    axes.margins(x=0.3, y=0.2)  # room for the names
    axes.set(xlabel="median time of a search, ms", ylabel=measure, title="Quality against cost")
    return any(measure in score.means for score in evaluation.scores)


def _draw_risk(axes: Any, evaluation: Evaluation) -> bool:
    for score in evaluation.scores:
        if score.risk:
            axes.plot(*zip(*score.risk, strict=True), label=score.system.name)
    axes.set(xlabel="share of the questions answered", ylabel="share of wrong answers", title="Risk against coverage")
    axes.legend() if axes.lines else None
    return any(score.risk for score in evaluation.scores)


def _draw_relevances(axes: Any, evaluation: Evaluation) -> bool:
    right, wrong = split_relevances(evaluation, evaluation.run.systems[0].name)
    axes.hist([right, wrong], bins=BINS, range=(0, 1), density=True, label=["relevant", "others"])
    axes.set(xlabel="relevance", ylabel="density", title=f"Relevance of results, {evaluation.run.systems[0].name}")
    axes.legend()
    return bool(right or wrong)


def _draw_recall(axes: Any, evaluation: Evaluation) -> bool:
    for score in evaluation.scores:
        recall = list_recall(evaluation, score.system.name)
        axes.plot(range(1, len(recall) + 1), recall, label=score.system.name)
    axes.set(xlabel="position", ylabel="recall", title="Recall by position", ylim=(0, 1.02))
    axes.legend()
    return True


_PLOTS: Final[dict[str, Callable[[Any, Evaluation], bool]]] = {
    "quality-against-cost": _draw_quality,
    "risk-against-coverage": _draw_risk,
    "relevance-of-results": _draw_relevances,
    "recall-by-position": _draw_recall,
}
