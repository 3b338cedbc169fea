"""The values of an evaluation (systems, results, runs, scores, comparisons), and their formatting as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from clew.core.suggest import format_count
from clew.evaluation.measures import Interval


@dataclass(frozen=True, slots=True)
class EvaluatedSystem:
    """A measured system: a strategy, and its differences from the engine's settings by dotted name."""

    name: str
    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of one system for one question: ranked documents, their relevances, and the measures.

    No text of the question or the results is kept.
    """

    system: str
    question: str  # its id
    ranking: tuple[str, ...]  # document ids, best first
    relevances: tuple[float, ...]
    values: Mapping[str, float]  # by measure
    ms: float  # of the search
    tokens: int | None = None  # of the context and of a model's answer; None if neither was made
    confidence: float | None = None  # of the answer


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """A finished or interrupted run over judged questions."""

    id: str
    key: str  # a digest of everything that a result depends on: a run with the same key is continued
    created: datetime
    systems: tuple[EvaluatedSystem, ...]
    questions: tuple[str, ...]  # ids
    grades: Mapping[str, Mapping[str, float]]  # by question id, then by document id
    k: int
    tokens: int
    embedder: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""  # the name of the file or folder of the questions
    results: tuple[QuestionResult, ...] = ()
    file: Path | None = None  # None if it is not kept in a file
    is_kept: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether every system was asked every question."""
        return len(self.results) >= len(self.systems) * len(self.questions)


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The measures of a system: means over the questions that have the measure, latencies and risk.

    `risk` has points of coverage (the share of questions answered, most confident first) and risk (the share of these
    answers that are wrong). It is empty unless questions were answered.
    """

    system: EvaluatedSystem
    means: Mapping[str, float]
    counts: Mapping[str, int]  # number of questions behind each mean
    latency: Mapping[str, float]  # p50, p95 and p99 of a search, in milliseconds; empty without results
    tokens: float | None  # mean of the context and a model's answer; None if neither was made
    risk: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of a system to the baseline in one measure, paired by question.

    `p` is that of a two-sided permutation test, `corrected_p` with Holm's correction for all comparisons of the run.
    """

    measure: str
    system: str
    baseline: str
    difference: Interval
    questions: int
    p: float
    corrected_p: float

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at 5 %, for all comparisons together."""
        return self.corrected_p <= 0.05


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of a run: the score of each system, and its comparison with the first system, the baseline."""

    run: EvaluationRun
    scores: tuple[SystemScore, ...]
    comparisons: tuple[Comparison, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on documents and quotes missing in the collection, and on the progress of an interrupted run."""
        done, total = len(self.run.results), len(self.run.systems) * len(self.run.questions)
        unfinished = f"the run broke off after {done} of {total} questions; the same command finishes it"
        return self.run.notes if self.run.is_finished else (*self.run.notes, unfinished)

    def __str__(self) -> str:
        return draw_evaluation(self)


def draw_evaluation(evaluation: Evaluation) -> str:
    """Format an evaluation as text: a table of the scores, then the comparisons."""
    names = list(dict.fromkeys(name for score in evaluation.scores for name in score.means))
    width = max((len(score.system.name) for score in evaluation.scores), default=0)
    lines = [" " * width + "  " + "  ".join(f"{name:>8}" for name in (*names, "p50 ms", "p95 ms"))]
    for score in evaluation.scores:
        cells = [format_mean(score.means.get(name)) for name in names]
        cells += [format_number(score.latency.get(name), 1) for name in ("p50", "p95")]
        widths = [max(8, len(name)) for name in (*names, "p50 ms", "p95 ms")]
        row = "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        lines.append(f"{score.system.name:<{width}}  {row}")
    lines.append(describe_counts(evaluation))
    lines += [format_comparison(each) for each in evaluation.comparisons]
    return "\n".join([*lines, *evaluation.notes])


def describe_counts(evaluation: Evaluation) -> str:
    """Describe in a line how many questions each mean is over, since not every question has every measure."""
    total = len(evaluation.run.questions)
    fewer: dict[int, list[str]] = {}
    for measure in dict.fromkeys(name for score in evaluation.scores for name in score.counts):
        count = max(score.counts.get(measure, 0) for score in evaluation.scores)
        if count < total:
            fewer.setdefault(count, []).append(measure)
    parts = [f"over {count}: {', '.join(names)}" for count, names in sorted(fewer.items(), reverse=True)]
    return "; ".join([f"means in percent over {format_count(total, 'question')}", *parts])


def format_number(value: float | None, digits: int = 0) -> str:
    """Format a number; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"


def format_mean(value: float | None) -> str:
    """Format a mean in percent; empty for None."""
    return "" if value is None else f"{100 * value:.1f}"


def format_comparison(comparison: Comparison) -> str:
    """Format a comparison as "lexical − hybrid, nDCG@10: -2.3 [-4.1, -0.5], p = 0.012 (corrected 0.036) *"."""
    star = " *" if comparison.is_significant else ""
    return (
        f"{comparison.system} − {comparison.baseline}, {comparison.measure}: {comparison.difference}, "
        f"p = {comparison.p:.3g} (corrected {comparison.corrected_p:.3g}){star}"
    )
