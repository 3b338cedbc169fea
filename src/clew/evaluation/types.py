"""The values of an evaluation (systems, results of questions, runs, scores, differences), and their text."""

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
    """The results of one system for one question: documents in order, each with its relevance, and the measures.

    No text is kept, neither of the question nor of the results. `confidence` is that of an answer.
    """

    system: str
    question: str  # its id
    ranking: tuple[str, ...]
    relevances: tuple[float, ...]
    values: Mapping[str, float]
    ms: float
    tokens: int | None = None  # of the context, and of a model's answer; None where neither was made
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One run over judged questions, whole or broken off, as it is kept."""

    id: str
    key: str  # of everything that a result depends on: a run of the same key is continued
    created: datetime
    systems: tuple[EvaluatedSystem, ...]
    questions: tuple[str, ...]  # ids
    grades: Mapping[str, Mapping[str, float]]  # by question, then by the id of the document
    k: int
    tokens: int
    embedder: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""  # the name of the file or folder of the questions
    results: tuple[QuestionResult, ...] = ()
    file: Path | None = None  # None where it is not kept in one
    is_kept: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether every system was asked every question."""
        return len(self.results) >= len(self.systems) * len(self.questions)


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The measures of a system: means over the questions that have the measure, latencies and risk.

    `risk` has points of coverage (the share of questions answered, the most confident first) and risk (the share of
    these answers that are wrong); it is empty unless answers were asked for.
    """

    system: EvaluatedSystem
    means: Mapping[str, float]
    counts: Mapping[str, int]  # of the questions behind each mean
    latency: Mapping[str, float]  # p50, p95 and p99 of one search, in milliseconds; empty if none was made
    tokens: float | None  # of a context, and of a model's answer; None where none was made
    risk: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of a system to the baseline in one measure, paired by question.

    `p` is of a two-sided permutation test, `corrected_p` after Holm's correction for all comparisons of the run.
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
        """Whether the difference is more than chance, at 5 % for all comparisons together."""
        return self.corrected_p <= 0.05


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of a run: the scores of each system, and how they differ from the first one, the baseline."""

    run: EvaluationRun
    scores: tuple[SystemScore, ...]
    comparisons: tuple[Comparison, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes: documents and quotes that are not in the collection, and how far a run came that broke off."""
        done, total = len(self.run.results), len(self.run.systems) * len(self.run.questions)
        unfinished = f"the run broke off after {done} of {total} questions; the same command finishes it"
        return self.run.notes if self.run.is_finished else (*self.run.notes, unfinished)

    def __str__(self) -> str:
        return draw_evaluation(self)


def draw_evaluation(evaluation: Evaluation) -> str:
    """Return the evaluation as text: a table of the scores, then the differences."""
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
    """Return how many questions the means are over, in a line, since not every question has every measure."""
    total = len(evaluation.run.questions)
    fewer: dict[int, list[str]] = {}
    for measure in dict.fromkeys(name for score in evaluation.scores for name in score.counts):
        count = max(score.counts.get(measure, 0) for score in evaluation.scores)
        if count < total:
            fewer.setdefault(count, []).append(measure)
    parts = [f"over {count}: {', '.join(names)}" for count, names in sorted(fewer.items(), reverse=True)]
    return "; ".join([f"means in percent over {format_count(total, 'question')}", *parts])


def format_number(value: float | None, digits: int = 0) -> str:
    """Format a number, empty where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


def format_mean(value: float | None) -> str:
    """Format a mean in percent, empty where there is none."""
    return "" if value is None else f"{100 * value:.1f}"


def format_comparison(comparison: Comparison) -> str:
    """Format a difference in a line: "lexical − hybrid, nDCG@10: -2.3 [-4.1, -0.5], p = 0.012 (corrected 0.036) *"."""
    star = " *" if comparison.is_significant else ""
    return (
        f"{comparison.system} − {comparison.baseline}, {comparison.measure}: {comparison.difference}, "
        f"p = {comparison.p:.3g} (corrected {comparison.corrected_p:.3g}){star}"
    )
