"""Measuring a collection on the user's own judged questions, making such questions, and tuning settings by them.

Functions over an open Engine: questions in, measures of each strategy and setting out, with tests of the differences.
"""

from typing import TYPE_CHECKING, Any

from clew.core.lazy import import_name, list_names

if TYPE_CHECKING:
    from clew.drivers.tuned import TunedSettings as TunedSettings
    from clew.evaluation.evaluating import enqueue_evaluation as enqueue_evaluation
    from clew.evaluation.evaluating import evaluate as evaluate
    from clew.evaluation.measures import Interval as Interval
    from clew.evaluation.questions.judged import Evidence as Evidence
    from clew.evaluation.questions.judged import JudgedQuestion as JudgedQuestion
    from clew.evaluation.questions.judged import read_beir_documents as read_beir_documents
    from clew.evaluation.questions.judged import read_questions as read_questions
    from clew.evaluation.questions.judged import write_questions as write_questions
    from clew.evaluation.questions.make import QuestionSource as QuestionSource
    from clew.evaluation.questions.make import make_questions as make_questions
    from clew.evaluation.report import merge_runs as merge_runs
    from clew.evaluation.report import score_run as score_run
    from clew.evaluation.runs import export_trec as export_trec
    from clew.evaluation.runs import find_grade_factor as find_grade_factor
    from clew.evaluation.runs import list_runs as list_runs
    from clew.evaluation.runs import read_run as read_run
    from clew.evaluation.tuning import Promotion as Promotion
    from clew.evaluation.tuning import TriedSetting as TriedSetting
    from clew.evaluation.tuning import Tuning as Tuning
    from clew.evaluation.tuning import list_tunings as list_tunings
    from clew.evaluation.tuning import rollback_tuning as rollback_tuning
    from clew.evaluation.tuning import tune as tune
    from clew.evaluation.types import Comparison as Comparison
    from clew.evaluation.types import EvaluatedSystem as EvaluatedSystem
    from clew.evaluation.types import Evaluation as Evaluation
    from clew.evaluation.types import EvaluationRun as EvaluationRun
    from clew.evaluation.types import QuestionResult as QuestionResult
    from clew.evaluation.types import SystemScore as SystemScore

# The module of each public name; the imports above are for type checkers.
_HOMES = {
    "clew.drivers.tuned": "TunedSettings",
    "clew.evaluation.evaluating": "enqueue_evaluation evaluate",
    "clew.evaluation.measures": "Interval",
    "clew.evaluation.questions.judged": "Evidence JudgedQuestion read_beir_documents read_questions write_questions",
    "clew.evaluation.questions.make": "QuestionSource make_questions",
    "clew.evaluation.report": "merge_runs score_run",
    "clew.evaluation.runs": "export_trec find_grade_factor list_runs read_run",
    "clew.evaluation.tuning": "Promotion TriedSetting Tuning list_tunings rollback_tuning tune",
    "clew.evaluation.types": "Comparison EvaluatedSystem Evaluation EvaluationRun QuestionResult SystemScore",
}
__all__ = list_names(_HOMES)


def __getattr__(name: str) -> Any:
    return import_name(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return __all__
