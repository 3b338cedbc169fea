"""The verbs that search, answer and account for results, as requests."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from clew.client import replies as r
from clew.client.bodies import filter_to_body, query_to_body, time_to_body
from clew.client.request import Events, Request, quote_name, read_field
from clew.core.filter import EVERYTHING, Filter
from clew.core.types import Message


def search(
    query: str | Sequence[Message],
    *,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    group_by: Literal["document"] | None = None,
) -> Request[r.SearchReply]:
    """The k best chunks for a question or a conversation, best first; a reason if there are none."""
    more = {"channel": channel, "now": time_to_body(now), "group_by": group_by}
    return Request("POST", "/v1/search", {**query_to_body(query, k, strategy, where, history), **more})


def search_many(
    queries: Sequence[str], *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
) -> Request[Sequence[r.HitsReply]]:
    """The k best chunks for each of several questions, in their order."""
    body = {"queries": [*queries], "k": k, "strategy": strategy, "where": filter_to_body(where)}
    return Request("POST", "/v1/search-many", body, read=read_field("results"))


def context(
    query: str | Sequence[Message],
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    render: str | None = None,
) -> Request[r.ContextReply]:
    """The prompt text for a question: cited passages within a token budget."""
    more = {"tokens": tokens, "render": render, "channel": channel, "now": time_to_body(now)}
    return Request("POST", "/v1/context", {**query_to_body(query, k, strategy, where, history), **more})


def ask(
    question: str,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    person: str | None = None,
) -> Request[r.AnswerReply]:
    """The answer of the collection, every sentence with a checked citation."""
    body = query_to_body(question, k, strategy, where, history)
    return Request("POST", "/v1/ask", {**body, "tokens": tokens, "person": person})


def agent(
    question: str, *, strategy: str | None = None, where: Filter = EVERYTHING, history: Sequence[Message] = ()
) -> Request[r.AnswerReply]:
    """The answer of a language model that searches by itself."""
    return Request("POST", "/v1/ask", {**query_to_body(question, None, strategy, where, history), "agent": True})


def ask_stream(
    question: str,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    person: str | None = None,
) -> Events:
    """The events of an answer as they happen, each by name: token, sentence, verdict, citation; last, answer.

    After an answer that is incomplete its fault is raised. Closing the iterator ends the work of the server.
    """
    body = query_to_body(question, k, strategy, where, history)
    return Events("/v1/ask", {**body, "tokens": tokens, "person": person, "stream": True})


def agent_stream(
    question: str, *, strategy: str | None = None, where: Filter = EVERYTHING, history: Sequence[Message] = ()
) -> Events:
    """The events of `agent` as those of `ask_stream`, and step_start and step for each tool that it calls."""
    body = query_to_body(question, None, strategy, where, history)
    return Events("/v1/ask", {**body, "agent": True, "stream": True})


def chat(
    session: str,
    question: str,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    person: str | None = None,
    agent: bool = False,
) -> Request[r.AnswerReply]:
    """The answer to the next question of a conversation that the server keeps under a name."""
    body = {"query": question, "k": k, "strategy": strategy, "where": filter_to_body(where)}
    return Request("POST", _session(session), {**body, "tokens": tokens, "person": person, "agent": agent})


def sessions() -> Request[Sequence[str]]:
    """The names of the conversations that are kept."""
    return Request("GET", "/v1/sessions", read=read_field("sessions"))


def session(session: str) -> Request[r.SessionReply]:
    """The messages of a conversation, and the numbers of the documents it has cited."""
    return Request("GET", _session(session))


def drop_session(session: str) -> Request[int]:
    """Forgets a conversation; how many there were."""
    return Request("DELETE", _session(session), read=read_field("dropped"))


def explain(
    query: str | Sequence[Message], *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
) -> Request[r.ExplainReply]:
    """How a search came to its hits."""
    return Request("POST", "/v1/explain", query_to_body(query, k, strategy, where))


def why_not(
    query: str | Sequence[Message],
    target: str,
    *,
    k: int | None = None,
    tokens: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
) -> Request[r.WhyNotReply]:
    """Which stage lost a document, and the smallest change that finds it."""
    body = query_to_body(query, k, strategy, where)
    return Request("POST", "/v1/why-not", {**body, "target": target, "tokens": tokens})


def check(citations: Iterable[dict[str, Any]], *, where: Filter = EVERYTHING) -> Request[r.CheckReply]:
    """Whether the citations of a past answer still match the documents."""
    return Request("POST", "/v1/check", {"citations": [*citations], "where": filter_to_body(where)})


def feedback(
    question: str,
    *,
    good: bool | None = None,
    opened: str | None = None,
    rank: int | None = None,
    comment: str = "",
    answer: str = "",
    documents: Sequence[str] = (),
) -> Request[r.FeedbackReply]:
    """Says whether an answer was good, or that the result of a document was opened, and its rank."""
    body = {"question": question, "comment": comment, "answer": answer, "documents": [*documents]}
    said = {"good": good, "opened": opened, "rank": rank}
    return Request("POST", "/v1/feedback", {**body, **{key: each for key, each in said.items() if each is not None}})


def list_feedback() -> Request[Sequence[r.FeedbackReply]]:
    """The last thousand judgements and openings of the collection, the oldest first."""
    return Request("GET", "/v1/feedback", read=read_field("feedback"))


def _session(name: str) -> str:
    return f"/v1/sessions/{quote_name(name)}"
