"""The replies: a type for each verb, the JSON of `--json`, of HTTP and of its clients.

`surface.to_json` writes the fields of a reply, the server publishes the types as its schema, and a client returns them.
An unknown number is null.
"""

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic supports `typing.TypedDict` only from Python 3.12 on

from clew.core.jobs import JobState

Number = float | None


# Stored content


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
    """A page of documents, by address; `cursor` leads to the next page."""

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
    """A page of the chunks of a document, in order; `cursor` leads to the next page."""

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
    """The sources that were added, skipped and failed, with reasons."""

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
    """A dry run of `add`, with its cost."""

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
    """Long work: its request, progress and result.

    Some or all files may have failed even if the job is `done`: `failed` counts them, `message` sums up the result.
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
    """A collection of the server; only its name if the key sees only a part of it."""

    name: str
    documents: int | None
    chunks: int | None
    embedder: str
    created: str | None
    updated: str | None
    bytes: int | None
    problem: str


class DroppedDocumentsReply(TypedDict):
    """The number of removed documents (0 in a dry run), and the addresses of those removed, or to remove."""

    dropped: int
    documents: list[str]
    dry_run: bool


class DroppedCollectionReply(TypedDict):
    """A removed collection as it was before, and foreign files in its folder, which stay."""

    dropped: CollectionReply
    left: list[str]


class ReceiptReply(TypedDict):
    """The receipt of an erasure: what it removed and overwrote, and what it could not."""

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
    """The defects of a collection, and counts of checked items."""

    is_sound: bool
    defects: list[dict[str, Any]]
    checked: dict[str, int]
    seconds: float
    is_sample: bool


# Searches and answers


class TraceReply(TypedDict):
    """A timed step with its inner steps."""

    name: str
    ms: float
    out: int | None
    notes: dict[str, Any]
    steps: list["TraceReply"]


class DocumentRef(TypedDict):
    """The document of a hit."""

    id: str
    title: str
    uri: str
    kind: str


class ChunkRef(TypedDict):
    """The chunk that was found: `text` is the document's text from `start` to `end`."""

    id: str
    text: str
    headings: list[str]
    start: int
    end: int
    meta: dict[str, Any]


class MessageRef(TypedDict):
    """The author and time of a message, and the message that it answers."""

    id: str
    author: str
    at: str | None
    channel: str
    reply_to: str | None
    guessed: bool


class HitReply(TypedDict):
    """A chunk that was found, with its scores."""

    rank: int
    relevance: Number
    similarity: Number
    score: Number
    scores: dict[str, Number]
    document: DocumentRef
    chunk: ChunkRef
    message: MessageRef | None


class SearchReply(TypedDict):
    """The hits of a search, best first, or a reason if there are none; and the detected language of the question."""

    hits: list[HitReply]
    reason: str
    language: str | None
    trace: TraceReply


class HitsReply(TypedDict):
    """The hits of one of several searches, best first."""

    hits: list[HitReply]


class ExplainReply(TypedDict):
    """The hits of a search, and the trace of its stages."""

    query: str
    strategy: str
    language: str | None
    hits: list[HitReply]
    trace: TraceReply


class ContextReply(TypedDict):
    """Prompt text within a budget, its passages, and the dropped ones."""

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
    """An answer: the passages that it quotes, or its sentences with their support."""

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
    """A saved chat: its last messages, and the numbers of the documents that it cited."""

    session: str
    messages: list[ChatTurn]
    numbers: dict[str, int]


class WhyNotReply(TypedDict):
    """The stage that lost a document, and the setting that would find it."""

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
    """The writing style of a person."""

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
    """The documents that a document links to, and the threads that link to it."""

    cites: list[RecordReply]
    cited_by: list[RecordReply]


class CheckReply(TypedDict):
    """Whether the citations of an answer still match the documents."""

    stands: bool
    citations: list[dict[str, Any]]


class FeedbackReply(TypedDict):
    """One judgement of an answer, or the opening of a result."""

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
    """An error: its Python type, a code, the message, and what to do next."""

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
    """An evaluation in a list, with its progress."""

    id: str
    created: str
    source: str
    questions: int
    systems: list[str]
    done: int
    total: int
    is_finished: bool


class EvaluationReply(TypedDict):
    """One evaluation: the measures of each system, and their differences from the first."""

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
    """Make the reply type of a request whose result is its only field, such as {"jobs": […]} for a list of jobs."""
    made: Any = TypedDict(f"{request.__name__}Reply", {part: request.result})  # type: ignore[misc]
    made.__doc__ = request.__doc__
    return made
