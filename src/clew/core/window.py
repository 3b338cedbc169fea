"""What a conversation gives a prompt: messages with every score that brought them, the threads they stand in, a style.

These are the nouns of `Engine.context_window`, `find_similar_messages`, `profile`, `reply_prompt` and `links`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.core.types import DocumentRecord, Message


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message in a window: its score, what the score was made of, and the message that it answers.

    `original_score` is what the search gave it and `similarity` its cosine with the prompt. A message that came along
    with a hit (`found` is False) has neither, and a score of 0. `parent` is there where it stands in the window too.
    """

    message: Message
    thread: str  # the id of its document
    score: float = 0.0
    original_score: float = 0.0
    similarity: float = 0.0
    time_score: float = 1.0
    channel_score: float = 1.0
    thread_score: float = 1.0
    flow_score: float = 1.0
    completeness_score: float = 1.0
    parent: Message | None = None
    found: bool = True

    @property
    def id(self) -> str:
        """The message's own id."""
        return self.message.id

    @property
    def text(self) -> str:
        """The whole message."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class WindowThread:
    """What a window shows of a thread, oldest first; its score is that of its best message."""

    id: str
    title: str
    channel: str
    score: float
    messages: tuple[ContextMessage, ...]
    whole: bool = False  # whether this is all of it


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A message that was found and is not in the window, and why: `budget` or `min_score`."""

    message: ContextMessage
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The messages that a prompt should hold, in the order of the text: best threads first, each by time.

    `total_tokens` are those of the text. `channels` are those that were searched. No messages come with a reason.
    """

    messages: tuple[ContextMessage, ...]
    total_tokens: int
    channels: frozenset[str]
    text: str = ""
    threads: tuple[WindowThread, ...] = ()
    dropped: tuple[LeftOut, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StyleProfile:
    """How a person writes. `confidence` grows with the messages that it was made from, up to 1 at twenty."""

    person: str
    tone: str
    vocabulary_level: str  # simple, moderate, advanced
    message_length: str  # short, medium, long
    common_phrases: tuple[str, ...]
    messages: int
    confidence: float
    emoji: tuple[str, ...] = ()  # the ones used most
    habits: Mapping[str, float] = field(default_factory=dict)  # the share of messages that show each
    made_by: str = "measured"  # or the name of the model that judged tone, vocabulary, length and phrases


@dataclass(frozen=True, slots=True)
class Links:
    """Which documents a document names, and which threads name it."""

    cites: tuple[DocumentRecord, ...] = ()
    cited_by: tuple[DocumentRecord, ...] = ()
