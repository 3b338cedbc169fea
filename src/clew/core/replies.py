"""The replies: a type for each verb, field by field. They are the JSON of `--json`, of HTTP and of its clients.

`surface.to_json` takes the fields of a noun from its reply, the server publishes them as its schema, and a client
returns them. A number that is not known is null.
"""

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic reads those of `typing` from Python 3.12 on only

from clew.core.jobs import JobState

Number = float | None


# What is stored


class RecordReply(TypedDict):
    """A stored document without its text."""

    id: str
    title: str
    uri: str
    kind: str
    language: str
    chars: int
    chunks: int
    summary: str
    summary_by: str
    lacks: list[str]
    access: list[str] | None
    meta: dict[str, Any]
    created: str | None
    updated: str | None


class DocumentsReply(TypedDict):
    """Documents by address; `cursor` leads to those after them."""

    documents: list[RecordReply]
    cursor: str | None


class DocumentReply(TypedDict):
    """A document with its text and sections."""

    id: str
    title: str
    uri: str
    kind: str
    language: str
    summary: str
    summary_by: str
    access: list[str] | None
    meta: dict[str, Any]
    text: str
    sections: list[dict[str, Any]]


class ChunkReply(TypedDict):
    """A stored chunk."""

    id: str
    index: int
    text: str
    headings: list[str]
    start: int
    end: int
    context: str
    at: str | None
    meta: dict[str, Any]


class ChunksReply(TypedDict):
    """The chunks of a document, in order; `cursor` leads to those after them."""

    chunks: list[ChunkReply]
    cursor: str | None


class MessageReply(TypedDict):
    """A stored message."""

    id: str
    channel: str
    author: str
    at: str | None
    reply_to: str | None
    access: list[str] | None
    text: str


class ReportReply(TypedDict):
    """What was added, skipped and failed, and why."""

    added: list[str]
    changed: list[str]
    skipped: int
    failed: list[dict[str, Any]]
    chunks: int
    embedded: int
    reused: int
    seconds: float
    noted: list[dict[str, Any]]
    dropped: int
    cost: float
    stopped: str
    incomplete: list[str]
    held_back: list[str]
    passed_over_counts: dict[str, int]
    passed_over: list[dict[str, Any]]


class PlanReply(TypedDict):
    """What an `add` would do, and what it would cost."""

    added: list[str]
    changed: list[str]
    unchanged: int
    dropped: list[str]
    failed: list[dict[str, Any]]
    chunks: int
    reused: int
    embedded: int
    embedded_tokens: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: Number
    seconds: Number
    held_back: list[str]
    passed_over_counts: dict[str, int]
    passed_over: list[dict[str, Any]]


class JobReply(TypedDict):
    """Long work: what was asked for, how far it is, what came of it.

    A job that is `done` may have failed at some files, or all: `failed` counts them, `message` says what came of it.
    """

    id: str
    kind: str
    state: JobState
    stage: str
    done: int
    total: int | None
    request: dict[str, Any]
    result: dict[str, Any]
    error: str
    worker: str
    attempts: int
    host: str
    created: str | None
    updated: str | None
    failed: int
    message: str


class StatusReply(TypedDict):
    """The counts of a collection."""

    path: str
    collection: str
    documents: int
    chunks: int
    embedder: str
    dim: int
    change: int | None
    index: str
    bytes: int | None
    without_summary: int
    without_contexts: int
    pending: int
    languages: dict[str, int]


class CollectionReply(TypedDict):
    """A collection of the server; of one that the key sees in part, no more than its name."""

    name: str
    documents: int | None
    chunks: int | None
    embedder: str
    created: str | None
    updated: str | None
    bytes: int | None
    problem: str


class DroppedDocumentsReply(TypedDict):
    """How many documents were removed (none in a dry run), and their addresses or those of what would go."""

    dropped: int
    documents: list[str]
    dry_run: bool


class DroppedCollectionReply(TypedDict):
    """A collection that was removed, as it was, and the files in its folder that are not Clew's and stay."""

    dropped: CollectionReply
    left: list[str]


class ReceiptReply(TypedDict):
    """What an erasure removed, how it was overwritten, and what could not be done."""

    selector: str
    selector_hash: str
    at: str
    documents: list[str]
    messages: list[str]
    chunks: int
    vectors: int
    postings: int
    summaries: int
    contexts: int
    cache_entries: int
    sessions: int
    jobs: int
    overwritten: list[str]
    quoted_by: list[str]
    named_by: list[str]
    sources: list[str]
    undone: list[str]
    notes: list[str]
    resumed: bool
    dry_run: bool
    complete: bool


class DoctorReply(TypedDict):
    """What is wrong with a collection, after how much was checked."""

    is_sound: bool
    defects: list[dict[str, Any]]
    checked: dict[str, int]
    seconds: float
    is_sample: bool


# Searches and answers


class TraceReply(TypedDict):
    """A step of the work with the steps inside."""

    name: str
    ms: float
    out: int | None
    notes: dict[str, Any]
    steps: list["TraceReply"]


class DocumentRef(TypedDict):
    """Which document a hit is of."""

    id: str
    title: str
    uri: str
    kind: str


class ChunkRef(TypedDict):
    """The chunk that was found: `text` is that of the document from `start` to `end`."""

    id: str
    text: str
    headings: list[str]
    start: int
    end: int
    meta: dict[str, Any]


class MessageRef(TypedDict):
    """Who wrote a message, when, and what it answers."""

    id: str
    author: str
    at: str | None
    channel: str
    reply_to: str | None
    guessed: bool


class HitReply(TypedDict):
    """A chunk that was found, and how."""

    rank: int
    relevance: Number
    similarity: Number
    score: Number
    scores: dict[str, Number]
    document: DocumentRef
    chunk: ChunkRef
    message: MessageRef | None


class SearchReply(TypedDict):
    """The hits of a search, best first; a reason where there are none; the language the question was taken for."""

    hits: list[HitReply]
    reason: str
    language: str | None
    trace: TraceReply


class HitsReply(TypedDict):
    """The hits of one of several searches, best first."""

    hits: list[HitReply]


class ExplainReply(TypedDict):
    """How a search came to its hits."""

    query: str
    strategy: str
    language: str | None
    hits: list[HitReply]
    trace: TraceReply


class ContextReply(TypedDict):
    """Prompt text within a budget, its passages, and what was left out."""

    query: str
    text: str
    tokens: int
    passages: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    dropped: list[dict[str, Any]]
    reason: str
    citations: list[dict[str, Any]]
    numbers: dict[str, int]
    trace: TraceReply


class AnswerReply(TypedDict):
    """An answer: the passages that it quotes, or its sentences and what supports each."""

    question: str
    searched: str
    text: str
    found: bool
    confidence: Number
    reason: str
    fault: str
    citations: list[dict[str, Any]]
    parts: list[dict[str, Any]]
    sentences: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    usage: dict[str, Any]
    trace: TraceReply


class ChatTurn(TypedDict):
    """A message of a chat."""

    role: str
    text: str


class SessionReply(TypedDict):
    """A chat that is kept: its last messages, and the numbers of the documents it has cited."""

    session: str
    messages: list[ChatTurn]
    numbers: dict[str, int]


class WhyNotReply(TypedDict):
    """The stage that lost a document, and the change that brings it back."""

    query: str
    target: str
    stage: str
    reason: str
    fix: dict[str, Any] | None


class WindowReply(TypedDict):
    """The messages of a channel for a prompt."""

    text: str
    total_tokens: int
    channels: list[str]
    messages: list[dict[str, Any]]
    threads: list[dict[str, Any]]
    dropped: list[dict[str, Any]]
    reason: str


class ProfileReply(TypedDict):
    """How a person writes."""

    person: str
    tone: str
    vocabulary_level: str
    message_length: str
    common_phrases: list[str]
    emoji: list[str]
    habits: dict[str, Any]
    messages: int
    confidence: Number
    made_by: str


class StylePromptReply(TypedDict):
    """A prompt that answers as a person would."""

    person: str
    message: str
    prompt: str


class LinksReply(TypedDict):
    """The documents that a document names, and those that name it."""

    cites: list[RecordReply]
    cited_by: list[RecordReply]


class CheckReply(TypedDict):
    """Whether the citations of an answer still stand."""

    stands: bool
    citations: list[dict[str, Any]]


class FeedbackReply(TypedDict):
    """One judgement of an answer, or that a result was opened."""

    id: str
    at: str
    collection: str
    question: str
    kind: Literal["judged", "opened"]
    good: bool | None
    rank: int | None
    comment: str
    answer: str
    documents: list[str]
    caller: str


class HealthReply(TypedDict):
    """Whether the server runs."""

    status: Literal["ok"]
    version: str


class ErrorDetail(TypedDict):
    """What went wrong: its type as in Python, a code, the message, and what to do next."""

    type: str
    code: str
    message: str
    advice: str
    request_id: str


class ErrorReply(TypedDict):
    """The body of every error."""

    error: ErrorDetail


# Evaluations


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


def make_reply(request: Any, part: str) -> Any:
    """Make the reply of a request whose result is one part of it, as {"jobs": […]} is of the list of jobs."""
    made: Any = TypedDict(f"{request.__name__}Reply", {part: request.result})  # type: ignore[misc]
    made.__doc__ = request.__doc__
    return made
