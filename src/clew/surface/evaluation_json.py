"""Evaluations and their runs as JSON, the same on the command line and over HTTP."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.evaluation.types import Evaluation, EvaluationRun

Json = dict[str, Any]


def evaluation_to_json(evaluation: "Evaluation") -> Json:
    """The evaluation as JSON: the run, the scores of each system and what its plots show, the differences."""
    from clew.evaluation.report import count_relevances, estimate_means, list_recall

    run = evaluation.run
    return {
        "id": run.id,
        "created": run.created,
        "source": run.source,
        "is_finished": run.is_finished,
        "file": str(run.file) if run.file else None,
        "questions": len(run.questions),
        "k": run.k,
        "tokens": run.tokens,
        "embedder": run.embedder,
        "systems": [
            {
                "name": score.system.name,
                "strategy": score.system.strategy,
                "settings": score.system.settings,
                "measures": score.means,
                "intervals": {
                    name: [each.low, each.high] for name, each in estimate_means(run, score.system.name).items()
                },
                "counts": score.counts,
                "ms": score.latency,
                "tokens": score.tokens,
                "risk": score.risk,
                "recall": list_recall(evaluation, score.system.name),
                "relevances": count_relevances(evaluation, score.system.name),
            }
            for score in evaluation.scores
        ],
        "comparisons": [{**asdict(each), "is_significant": each.is_significant} for each in evaluation.comparisons],
        "notes": evaluation.notes,
    }


def run_to_json(run: "EvaluationRun") -> Json:
    """A run in a list: what it asks, and how far it is."""
    return {
        "id": run.id,
        "created": run.created,
        "source": run.source,
        "questions": len(run.questions),
        "systems": [system.name for system in run.systems],
        "done": len(run.results),
        "total": len(run.systems) * len(run.questions),
        "is_finished": run.is_finished,
    }
