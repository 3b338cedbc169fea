"""Evaluations as jobs: queued with their questions, and run by a worker, which continues one that broke off."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from clew.core.errors import SettingsError
from clew.core.jobs import Job
from clew.core.report import OnProgress
from clew.engine import Engine
from clew.engine.jobs import register_runner
from clew.engine.opened import check_positive_count
from clew.evaluation.evaluate import build_systems, check_questions, evaluate
from clew.evaluation.questions.judged import JudgedQuestion, format_question, parse_question
from clew.evaluation.questions.resolve import resolve_questions

KIND = "evaluate"


def enqueue_evaluation(
    engine: Engine,
    questions: Sequence[JudgedQuestion],
    *,
    strategies: Sequence[str] = (),
    k: int = 10,
    tokens: int | None = None,
    answers: bool = False,
) -> Job:
    """Queues what `evaluate` would do, for a worker (a server, `clew jobs work`), and returns the job.

    The questions are kept with the job, the settings are those of the worker. Its result has the id of the run and the
    measures of each strategy.
    """
    engine.opened.check_unbounded()
    check_questions(questions)
    build_systems(engine, strategies, None)  # a strategy that is not known is named now,
    resolve_questions(engine, questions)  # and so are questions about another collection
    request = {
        "questions": [format_question(each) for each in questions],
        "strategies": list(strategies),
        "k": check_positive_count("k", k),
        "tokens": tokens,
        "answers": answers,
    }
    return engine.opened.store.jobs.put(Job(uuid.uuid4().hex[:12], KIND, request))


def run_evaluation(engine: Engine, job: Job, on_progress: OnProgress) -> Mapping[str, Any]:
    """The id of the run of a job, the measures of each of its systems, and the notes."""
    request = job.request
    try:
        questions = [parse_question(each) for each in request["questions"]]
        options = {name: request[name] for name in ("strategies", "k", "tokens", "answers")}
    except KeyError as error:
        raise SettingsError(f"the job has no {error}; queue it again with this version") from error
    made = evaluate(engine, questions, **options, on_progress=on_progress)
    return {
        "run": made.run.id,
        "is_kept": made.run.is_kept,
        "systems": {score.system.name: dict(score.means) for score in made.scores},
        "notes": list(made.notes),
    }


register_runner(KIND, run_evaluation)
