"""The paths of tuning: settings chosen by judged questions as a job, those that are kept, and taking them back.

What is tuned holds for everybody who asks, so all of it needs the right to write, which a key with a filter never has.
"""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from clew.client.replies import JobReply, RollbackReply, TuningsReply
from clew.engine import Engine
from clew.engine.tuned import use_tuned_settings
from clew.evaluation.jobs import enqueue_tuning
from clew.evaluation.questions.judged import parse_question
from clew.evaluation.tune import list_tunings, rollback_tuning
from clew.surface.server.bodies import Body
from clew.surface.server.call import Calling, document_replies, reply_json
from clew.surface.server.fields import WHOLE, Count, Name

router = APIRouter(prefix="/v1/tunings", tags=["evaluations"], responses=document_replies(404, 409))


class TuningBody(Body):
    """What to tune by: judged questions, the measure that is to grow, and values to try."""

    questions: Annotated[
        list[dict[str, Any]],
        Field(min_length=1, max_length=10_000, description="Judged questions: `question`, `relevant`, `evidence` …"),
    ]
    measure: Annotated[
        str, Field(max_length=100, description="Default: nDCG at k; context: what a prompt is shown.")
    ] = ""
    candidates: Annotated[
        dict[Name, Annotated[list[str | int | float | bool], Field(min_length=1, max_length=50)]] | None,
        Field(description="Values to try by the dotted name of a setting; default: the usual ones."),
    ] = None
    k: Annotated[Count, Field(description="Documents that the measures look at.")] = 10
    tokens: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000), WHOLE] | None, Field(description="Budget of the context.")
    ] = None
    dry_run: Annotated[bool, Field(description="Keep nothing.")] = False


@router.post("", status_code=202, responses={202: {"model": JobReply}})
async def tune(body: TuningBody, caller: Calling) -> Response:
    """Choose settings by judged questions; the reply is a job. They are kept only if held-out questions agree."""
    questions = [parse_question(each) for each in body.questions]
    given = body.model_dump(exclude={"questions"})
    job = await caller.call(lambda engine: enqueue_tuning(engine, questions, **given), write=True)
    return reply_json(job, status=202)


@router.get("", responses={200: {"model": TuningsReply}})
async def tunings(caller: Calling) -> Response:
    """The settings that were tuned and kept, the oldest first; the last one is in use."""
    return reply_json({"tuned": [asdict(each) for each in await caller.call(list_tunings, write=True)]})


@router.post("/rollback", responses={200: {"model": RollbackReply}})
async def rollback(caller: Calling) -> Response:
    """Take back what was kept last, at once; null if there was nothing."""
    engines, collection = caller.server.engines, caller.choose_collection()

    def roll_back(engine: Engine) -> dict[str, Any]:
        taken = rollback_tuning(engine)
        use_tuned_settings(engines.get(collection))
        kept = [asdict(each) for each in list_tunings(engine)]
        return {"tuned": kept, "taken_back": asdict(taken) if taken else None}

    return reply_json(await caller.call(roll_back, write=True))
