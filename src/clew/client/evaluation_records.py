"""The replies about evaluations, as types."""

from typing import Any

from typing_extensions import TypedDict  # pydantic reads those of `typing` from Python 3.12 on only


class RunReply(TypedDict):
    """An evaluation in a list: what it asks, and how far it is."""

    id: str
    created: str
    source: str
    questions: int
    systems: list[str]
    done: int
    total: int
    is_finished: bool


class RunsReply(TypedDict):
    """The evaluations that are kept, the oldest first."""

    runs: list[RunReply]


class QuestionsReply(TypedDict):
    """Judged questions, each as in the files of `clew evaluate`."""

    questions: list[dict[str, Any]]


class EvaluationReply(TypedDict):
    """One evaluation: the measures of each system, and how they differ from the first."""

    id: str
    created: str
    source: str
    is_finished: bool
    file: None
    questions: int
    k: int
    tokens: int
    embedder: str
    systems: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    notes: list[str]
