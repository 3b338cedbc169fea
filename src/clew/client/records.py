"""What the server replies about what is stored: documents, messages, jobs and collections."""

from typing import Any

from typing_extensions import TypedDict  # pydantic reads those of `typing` from Python 3.12 on only

from clew.core.jobs import JobState

Number = float | None


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
    """Documents by address; `next` is the cursor of those after them."""

    documents: list[RecordReply]
    next: str | None


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
    """The chunks of a document, in order; `next` is the cursor of those after them."""

    chunks: list[ChunkReply]
    next: str | None


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


class JobsReply(TypedDict):
    """The jobs of a collection, the oldest first."""

    jobs: list[JobReply]


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


class CollectionsReply(TypedDict):
    """The collections that a key opens."""

    collections: list[CollectionReply]


class DroppedReply(TypedDict):
    """How many were removed."""

    dropped: int


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
