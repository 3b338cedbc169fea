"""The paths of evaluations: the runs that are kept, one of them, a new one as a job, and questions for one.

A run names documents of the whole collection and how they were found, so all of it needs the right to write, which a
key with a filter never has.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field
from starlette.responses import Response

from clew.client.replies import EvaluationReply, JobReply, QuestionsReply, RunsReply
from clew.evaluation.evaluate import enqueue_evaluation
from clew.evaluation.questions.judged import format_question, parse_question
from clew.evaluation.questions.make import SOURCES, QuestionSource, make_questions
from clew.evaluation.report import score_run
from clew.evaluation.runs import list_runs, read_run
from clew.surface.evaluation_json import evaluation_to_json, run_to_json
from clew.surface.server.bodies import Body
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.server.fields import WHOLE, Count, Name

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"], responses=document_replies(404, 409))
RunPath = Annotated[
    str,
    Path(min_length=1, max_length=30, description="Id of a run, or last."),
]


class EvaluationBody(Body):
    """What to measure: judged questions, as the lines of a file for `clew evaluate`, and the strategies."""

    questions: Annotated[
        list[dict[str, Any]],
        Field(min_length=1, max_length=10_000, description="Judged questions: `question`, `relevant`, `evidence` …"),
    ]
    strategies: Annotated[
        list[Name], Field(max_length=20, description="Strategies to measure; the first is the baseline.")
    ] = Field(default_factory=list)
    k: Annotated[Count, Field(description="Documents that the measures look at.")] = 10
    tokens: Annotated[
        Annotated[int, Field(ge=0, le=1_000_000), WHOLE] | None,
        Field(description="Budget of the context; 0: none is made."),
    ] = None
    answers: Annotated[bool, Field(description="Also answer each question; a model is paid for it.")] = False


class QuestionsBody(Body):
    """What to make questions of, and how many."""

    sources: Annotated[
        list[QuestionSource],
        Field(max_length=len(SOURCES), description="Default: the language model, or without one all but feedback."),
    ] = Field(default_factory=list)
    count: Annotated[Count, Field(description="At most so many questions.")] = 200


@router.get("", responses={200: {"model": RunsReply}})
async def runs(caller: Calling) -> Response:
    """The evaluations that are kept, the oldest first."""
    found = await caller.call(list_runs, write=True)
    return reply_json({"runs": [run_to_json(run) for run in found]})


@router.get("/{run}", responses={200: {"model": EvaluationReply}})
async def run(run: RunPath, caller: Calling) -> Response:
    """One evaluation: the measures of each system, and how they differ from the first."""
    found = await caller.call(lambda engine: score_run(read_run(engine, run)), write=True, pool=caller.server.answers)
    return reply_json({**evaluation_to_json(found), "file": None})  # where it lies is nobody's business here


@router.post("", status_code=202, responses={202: {"model": JobReply}})
async def evaluate(body: EvaluationBody, caller: Calling) -> Response:
    """Measure strategies on judged questions; the reply is a job, whose result names the run."""
    questions = [parse_question(each) for each in body.questions]
    job = await caller.call(
        lambda engine: enqueue_evaluation(
            engine, questions, strategies=body.strategies, k=body.k, tokens=body.tokens, answers=body.answers
        ),
        write=True,
    )
    return reply_json(job, status=202)


@router.post("/questions", responses={200: {"model": QuestionsReply}})
async def make(body: QuestionsBody, caller: Calling) -> Response:
    """Make judged questions from the collection's headings, titles and replies, by a model, or from users' feedback."""
    caller.access.check_write()
    made = await caller.call(
        lambda engine: make_questions(
            engine,
            sources=body.sources,
            count=body.count,
            feedback=engine.list_feedback() if "feedback" in body.sources else None,
        ),
        write=True,
        pool=caller.server.answers,
    )
    return reply_json({"questions": [format_question(each) for each in made]})
