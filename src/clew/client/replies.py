"""What the server replies, field by field: the types of the client, and the schemas that the server publishes.

They are the JSON of the command line's `--json`. A number that is not known is null.
"""

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic reads those of `typing` from Python 3.12 on only

from clew.client.evaluation_records import EvaluationReply as EvaluationReply
from clew.client.evaluation_records import QuestionsReply as QuestionsReply
from clew.client.evaluation_records import RunReply as RunReply
from clew.client.evaluation_records import RunsReply as RunsReply
from clew.client.records import ChunkReply as ChunkReply
from clew.client.records import ChunksReply as ChunksReply
from clew.client.records import CollectionReply as CollectionReply
from clew.client.records import CollectionsReply as CollectionsReply
from clew.client.records import DoctorReply as DoctorReply
from clew.client.records import DocumentReply as DocumentReply
from clew.client.records import DocumentsReply as DocumentsReply
from clew.client.records import DroppedCollectionReply as DroppedCollectionReply
from clew.client.records import DroppedDocumentsReply as DroppedDocumentsReply
from clew.client.records import DroppedReply as DroppedReply
from clew.client.records import JobReply as JobReply
from clew.client.records import JobsReply as JobsReply
from clew.client.records import MessageReply as MessageReply
from clew.client.records import Number
from clew.client.records import PlanReply as PlanReply
from clew.client.records import ReceiptReply as ReceiptReply
from clew.client.records import RecordReply as RecordReply
from clew.client.records import ReportReply as ReportReply
from clew.client.records import StatusReply as StatusReply


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


class SearchManyReply(TypedDict):
    """The hits of several searches, in the order of their questions."""

    results: list[HitsReply]


class ExplainReply(TypedDict):
    """How a search came to its hits."""

    query: str
    strategy: str
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


class SessionsReply(TypedDict):
    """The names of the chats that are kept."""

    sessions: list[str]


class WhyNotReply(TypedDict):
    """The stage that lost a document, and the change that brings it back."""

    query: str
    target: str
    stage: str
    reason: str
    fix: dict[str, Any] | None


class ChannelsReply(TypedDict):
    """The channels that have messages."""

    channels: list[str]


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


class FeedbackListReply(TypedDict):
    """The judgements of a collection, the oldest first."""

    feedback: list[FeedbackReply]


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
