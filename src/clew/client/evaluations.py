"""The requests on evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from clew.client import replies as r
from clew.client.request import Request, quote_name, read_field

QuestionSource = Literal["headings", "titles", "replies", "model", "feedback"]


def list_runs() -> Request[Sequence[r.RunReply]]:
    """The evaluations that are kept, the oldest first."""
    return Request("GET", "/v1/evaluations", read=read_field("runs"))


def read_run(run: str) -> Request[r.EvaluationReply]:
    """One evaluation, by the id of its run, or the last one for "last"."""
    return Request("GET", f"/v1/evaluations/{quote_name(run)}")


def enqueue_evaluation(
    questions: Sequence[Mapping[str, Any]],
    *,
    strategies: Sequence[str] = (),
    k: int = 10,
    tokens: int | None = None,
    answers: bool = False,
) -> Request[r.JobReply]:
    """Measures strategies on judged questions, each as in the files of `clew evaluate`; the job that does it."""
    body = {"questions": [dict(each) for each in questions], "strategies": [*strategies], "k": k, "answers": answers}
    return Request("POST", "/v1/evaluations", {**body, **({} if tokens is None else {"tokens": tokens})})


def make_questions(*, sources: Sequence[QuestionSource] = (), count: int = 200) -> Request[Sequence[dict[str, Any]]]:
    """Judged questions from the collection or, with the source feedback, from what users said of answers."""
    body = {"sources": [*sources], "count": count}
    return Request("POST", "/v1/evaluations/questions", body, read=read_field("questions"))
