"""The client: a method for each verb that the server has, by the same name and with the same options."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Any, Literal, cast
from urllib.parse import quote

from clew.client import replies as r
from clew.client.transport import Event, Transport, drop_missing, filter_to_body, messages_to_body, time_to_body
from clew.core.filter import EVERYTHING, Filter
from clew.core.jobs import FINISHED
from clew.core.types import Document, Message

POLL_SECONDS = 0.25
Query = str | Sequence[Message]
Jobs = list[r.JobReply]  # the class has a verb `list`, so its annotations cannot say it
Names = list[str]


class Client(Transport):
    """A collection on a server: search it, ask it, add to it. Threads may share it."""

    def search(
        self,
        query: Query,
        *,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        channel: str | None = None,
        now: datetime | None = None,
        group_by: Literal["document"] | None = None,
    ) -> r.SearchReply:
        """The k best chunks for a question or a conversation, best first; a reason if there are none."""
        body = _make_query(query, k, strategy, where, history)
        more = {"channel": channel, "now": time_to_body(now), "group_by": group_by}
        return cast(r.SearchReply, self._post("/v1/search", {**body, **more}))

    def context(
        self,
        query: Query,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        render: str | None = None,
    ) -> r.ContextReply:
        """The prompt text for a question: cited passages within a token budget."""
        body = _make_query(query, k, strategy, where, history)
        return cast(r.ContextReply, self._post("/v1/context", {**body, "tokens": tokens, "render": render}))

    def ask(
        self,
        question: str,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        person: str | None = None,
    ) -> r.AnswerReply:
        """The answer of the collection, every sentence with a checked citation."""
        body = _make_query(question, k, strategy, where, history)
        return cast(r.AnswerReply, self._post("/v1/ask", {**body, "tokens": tokens, "person": person}))

    def agent(
        self,
        question: str,
        *,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
    ) -> r.AnswerReply:
        """The answer of a language model that searches by itself."""
        body = _make_query(question, None, strategy, where, history)
        return cast(r.AnswerReply, self._post("/v1/ask", {**body, "agent": True}))

    def ask_stream(
        self,
        question: str,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        person: str | None = None,
    ) -> Iterator[Event]:
        """The events of an answer as they happen, each by name: token, sentence, verdict, citation; last, answer.

        After an answer that is incomplete its fault is raised. Closing the iterator ends the work of the server.
        """
        body = _make_query(question, k, strategy, where, history)
        return self._stream("/v1/ask", {**body, "tokens": tokens, "person": person, "stream": True})

    def agent_stream(
        self,
        question: str,
        *,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
    ) -> Iterator[Event]:
        """The events of `agent` as those of `ask_stream`, and step_start and step for each tool that it calls."""
        body = _make_query(question, None, strategy, where, history)
        return self._stream("/v1/ask", {**body, "agent": True, "stream": True})

    def explain(
        self, query: Query, *, k: int | None = None, strategy: str | None = None, where: Filter = EVERYTHING
    ) -> r.ExplainReply:
        """How a search came to its hits."""
        return cast(r.ExplainReply, self._post("/v1/explain", _make_query(query, k, strategy, where, ())))

    def why_not(
        self,
        query: Query,
        target: str,
        *,
        k: int | None = None,
        tokens: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
    ) -> r.WhyNotReply:
        """Which stage lost a document, and the smallest change that finds it."""
        body = {**_make_query(query, k, strategy, where, ()), "target": target, "tokens": tokens}
        return cast(r.WhyNotReply, self._post("/v1/why-not", body))

    def check(self, citations: Iterable[dict[str, Any]], *, where: Filter = EVERYTHING) -> r.CheckReply:
        """Whether the citations of a past answer still match the documents."""
        return cast(r.CheckReply, self._post("/v1/check", {"citations": [*citations], "where": filter_to_body(where)}))

    def enqueue_add(self, *sources: str | Path) -> Jobs:
        """Uploads files and names web addresses to the server; the jobs that add them."""
        urls = [str(each) for each in sources if _is_url(each)]
        files = [Path(each) for each in sources if not _is_url(each)]
        jobs = [self._post("/v1/add", {"sources": urls})] if urls else []
        if files:
            with ExitStack() as stack:
                parts = [("files", (each.name, stack.enter_context(each.open("rb")))) for each in files]
                jobs.append(self._send("POST", "/v1/documents", files=parts))
        return jobs

    def add(self, *sources: str | Path) -> Jobs:
        """Adds files and web addresses, and waits until it is done; the jobs as they ended."""
        jobs = self.enqueue_add(*sources)
        return [self._wait(job) for job in jobs]

    def plan(self, *sources: str) -> r.PlanReply:
        """What adding web addresses would do and cost."""
        return cast(r.PlanReply, self._post("/v1/plan", {"sources": [*sources]}))

    def add_documents(self, documents: Iterable[Document]) -> r.ReportReply:
        """Adds documents made by a program."""
        rows = [
            drop_missing(
                {
                    **{name: getattr(each, name) for name in ("id", "text", "title", "uri", "kind")},
                    "meta": dict(each.meta),
                    "access": None if each.access is None else sorted(each.access),
                }
            )
            for each in documents
        ]
        return cast(r.ReportReply, self._post("/v1/add-documents", {"documents": rows}))

    def add_messages(self, messages: Iterable[Message]) -> r.ReportReply:
        """Adds messages as they are sent."""
        return cast(r.ReportReply, self._post("/v1/messages", {"messages": messages_to_body([*messages])}))

    def list(self, *, kinds: Iterable[str] = (), channels: Iterable[str] = ()) -> Iterator[r.RecordReply]:
        """The records of the documents, ordered by address; they are fetched a part at a time."""
        cursor: str | None = None
        while True:
            page = self._get("/v1/documents", limit=1000, cursor=cursor, kind=[*kinds], channel=[*channels])
            yield from page["documents"]
            cursor = page["next"]
            if cursor is None:
                return

    def read(self, document: str) -> r.DocumentReply:
        """A document by id or address."""
        return cast(r.DocumentReply, self._get(f"/v1/documents/{quote(document)}"))

    def chunks(self, document: str) -> Iterator[r.ChunkReply]:
        """The chunks of a document, in order."""
        cursor: str | None = None
        while True:
            page = self._get(f"/v1/documents/{quote(document)}/chunks", limit=1000, cursor=cursor)
            yield from page["chunks"]
            cursor = page["next"]
            if cursor is None:
                return

    def links(self, document: str) -> r.LinksReply:
        """The documents that a document names, and the threads that name it."""
        return cast(r.LinksReply, self._get(f"/v1/documents/{quote(document)}/links"))

    def drop(self, document: str) -> int:
        """Removes documents by id, address, folder or pattern; how many there were."""
        return int(self._delete(f"/v1/documents/{quote(document)}")["dropped"])

    def message(self, id: str) -> r.MessageReply:  # noqa: A002 (as in Message.id)
        """A message by its id, or `channel/id`."""
        return cast(r.MessageReply, self._get(f"/v1/messages/{quote(id)}"))

    def drop_messages(self, id: str) -> int:  # noqa: A002
        """Removes a message by its id."""
        return int(self._delete(f"/v1/messages/{quote(id)}")["dropped"])

    def channels(self) -> Names:
        """The channels that have messages."""
        return cast(Names, self._get("/v1/channels")["channels"])

    def window(
        self,
        channel: str,
        prompt: str,
        *,
        tokens: int | None = None,
        include_related_channels: bool = False,
        min_similarity: float | None = None,
        where: Filter = EVERYTHING,
        now: datetime | None = None,
    ) -> r.WindowReply:
        """The messages of a channel that a prompt should contain."""
        body = {
            "channel": channel,
            "prompt": prompt,
            "tokens": tokens,
            "include_related_channels": include_related_channels,
            "min_similarity": min_similarity,
            "where": filter_to_body(where),
            "now": time_to_body(now),
        }
        return cast(r.WindowReply, self._post("/v1/window", body))

    def profile(self, person: str) -> r.ProfileReply:
        """How a person writes."""
        return cast(r.ProfileReply, self._get(f"/v1/profile/{quote(person)}"))

    def style_prompt(self, person: str, message: str, *, tokens: int | None = None, now: datetime | None = None) -> str:
        """The prompt with which a model answers a message as a person would."""
        body = {"person": person, "message": message, "tokens": tokens, "now": time_to_body(now)}
        return str(self._post("/v1/style-prompt", body)["prompt"])

    def status(self) -> r.StatusReply:
        """The counts of the collection."""
        return cast(r.StatusReply, self._get("/v1/status"))

    def collections(self) -> Sequence[r.CollectionReply]:
        """The collections that the key opens."""
        return cast(Sequence[r.CollectionReply], self._get("/v1/collections")["collections"])

    def jobs(self) -> Jobs:
        """The jobs of the collection, the oldest first."""
        return cast(Jobs, self._get("/v1/jobs")["jobs"])

    def job(self, job_id: str) -> r.JobReply:
        """A job as it is now."""
        return cast(r.JobReply, self._get(f"/v1/jobs/{quote(job_id)}"))

    def cancel_job(self, job_id: str) -> r.JobReply:
        """Cancels a job; what it has added stays."""
        return cast(r.JobReply, self._delete(f"/v1/jobs/{quote(job_id)}"))

    def feedback(
        self, question: str, *, good: bool, comment: str = "", answer: str = "", documents: Sequence[str] = ()
    ) -> r.FeedbackReply:
        """Says whether an answer was good."""
        body = {"question": question, "good": good, "comment": comment, "answer": answer, "documents": [*documents]}
        return cast(r.FeedbackReply, self._post("/v1/feedback", body))

    def _wait(self, job: r.JobReply) -> r.JobReply:
        while job["state"] not in FINISHED:
            sleep(POLL_SECONDS)
            job = self.job(job["id"])
        return job


def _make_query(
    query: Query, k: int | None, strategy: str | None, where: Filter, history: Sequence[Message]
) -> dict[str, Any]:
    asked = query if isinstance(query, str) else messages_to_body(query)
    said = messages_to_body(history)
    return {"query": asked, "k": k, "strategy": strategy, "where": filter_to_body(where), "history": said}


def _is_url(source: str | Path) -> bool:
    return isinstance(source, str) and source.startswith(("http://", "https://"))
