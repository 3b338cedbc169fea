"""The paths of evaluations: list the runs, read one, queue one, make questions.

A run names documents of the whole collection and how they were found, so every path needs the right to write, which a
key with a filter never has.
"""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from clew.core import requests as q
from clew.engine import Engine
from clew.evaluation.evaluating import enqueue_evaluation
from clew.evaluation.questions.judged import format_question, parse_question
from clew.evaluation.questions.make import make_questions
from clew.evaluation.report import score_run
from clew.evaluation.runs import list_runs, read_run
from clew.surface.server.call import document_replies, serve
from clew.surface.to_json import evaluation_to_json, run_to_json

router = APIRouter(tags=["evaluations"], responses=document_replies(404, 409))


def read(engine: Engine, asked: q.ReadRun) -> dict[str, Any]:
    """Return one evaluation, without the path of its file."""
    return {**evaluation_to_json(score_run(read_run(engine, asked.run))), "file": None}


def enqueue(engine: Engine, asked: q.EnqueueEvaluation) -> Any:
    """Queue an evaluation."""
    return enqueue_evaluation(
        engine, **asdict(asked) | {"questions": [parse_question(each) for each in asked.questions]}
    )


def make(engine: Engine, asked: q.MakeQuestions) -> dict[str, Any]:
    """Make judged questions."""
    feedback = engine.list_feedback() if "feedback" in asked.sources else None
    made = make_questions(engine, sources=asked.sources, count=asked.count, feedback=feedback)
    return {"questions": [format_question(each) for each in made]}


serve(router, q.ListRuns, run=lambda engine, _: {"runs": [run_to_json(run) for run in list_runs(engine)]}, write=True)
serve(router, q.ReadRun, run=read, write=True, pool="answers")
serve(router, q.EnqueueEvaluation, run=enqueue, status=202, write=True)
serve(router, q.MakeQuestions, run=make, write=True, pool="answers")
