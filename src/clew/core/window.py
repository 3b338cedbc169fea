"""Context windows of conversations: the types of `Engine.window`, `find_messages`, `profile` and `links`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from clew.core.types import DocumentRecord, Message


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message in a window: its score, the factors of the score, and the message that it replies to.

    `original_score` is the score before the factors (`scoring.base`), `similarity` the cosine with the prompt and
    `relevance` the probability that the message answers it. All are 0 for a message that was added along with a hit
    (`found` is False). `parent` is set if it is in the window too; `guessed`: the reply was inferred, not marked.
    `cut`: the message was too long, and its text is only its beginning and end, with "…" between them.
    """

    message: Message
    thread: str  # the id of its document
    score: float = 0.0
    original_score: float = 0.0
    similarity: float = 0.0
    relevance: float = 0.0
    time_score: float = 1.0
    channel_score: float = 1.0
    thread_score: float = 1.0
    flow_score: float = 1.0
    completeness_score: float = 1.0
    parent: Message | None = None
    guessed: bool = False
    found: bool = True
    cut: bool = False

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.message.id

    @property
    def text(self) -> str:
        """The text of the message, whole unless it was cut."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class WindowThread:
    """The messages of a thread in a window, oldest first; its score is that of its best message."""

    id: str
    title: str
    channel: str
    score: float
    messages: tuple[ContextMessage, ...]
    whole: bool = False  # whether these are all its messages


@dataclass(frozen=True, slots=True)
class DroppedMessage:
    """A message that was found but left out of the window, and why: `budget` or `below the minimum`."""

    message: ContextMessage
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The messages for a prompt, in the order of the text: best threads first, each by time.

    `total_tokens` counts the text. `channels` are the searched channels. If there are no messages, `reason` says why.
    """

    messages: tuple[ContextMessage, ...]
    total_tokens: int
    channels: frozenset[str]
    text: str = ""
    threads: tuple[WindowThread, ...] = ()
    dropped: tuple[DroppedMessage, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StyleProfile:
    """The writing style of a person. `confidence` grows with the number of messages, up to 1 at twenty."""

    person: str
    tone: str
    vocabulary_level: str  # simple, moderate, advanced
    message_length: str  # short, medium, long
    common_phrases: tuple[str, ...]
    messages: int
    confidence: float
    emoji: tuple[str, ...] = ()  # the most used ones
    habits: Mapping[str, float] = field(default_factory=dict)  # the share of messages with each habit
    made_by: str = "measured"  # or the name of the model that judged tone, vocabulary, length and phrases


@dataclass(frozen=True, slots=True)
class Links:
    """The documents that a document links to, and the threads that link to it."""

    cites: tuple[DocumentRecord, ...] = ()
    cited_by: tuple[DocumentRecord, ...] = ()


RagRecord = Mapping[str, Any]  # content, similarity, document_id, chunk_index, metadata, and the title of the post


class RagErrorReason(StrEnum):
    """The reasons for an empty context."""

    NO_HITS = "no_hits"  # the query is empty, or nothing was found
    SYSTEM_ERROR = "rag_error"  # the search failed; the log has the traceback


@dataclass(frozen=True, slots=True)
class RagContext:
    """The prompt text, and a record for each post in it, the most similar first."""

    text: str
    records: tuple[RagRecord, ...]


@dataclass(frozen=True, slots=True)
class Success:
    """The outcome of a search with hits."""

    value: RagContext


@dataclass(frozen=True, slots=True)
class Failure:
    """The outcome of a search without hits, or of one that failed with the message `error`."""

    reason: RagErrorReason
    error: str = ""


RagOutcome = Success | Failure
