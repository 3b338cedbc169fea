"""The central types: frozen values without behaviour beyond derived views."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.filter import EVERYTHING, Filter, Meta
from clew.core.ids import digest
from clew.core.text import prepend_headings
from clew.core.time import to_iso

Vector = NDArray[np.float32]  # one row, of unit length
Matrix = NDArray[np.float32]  # one unit vector per row
Span = tuple[int, int]  # start and end, in characters

QUOTE = "> "  # prefix of context lines that repeat earlier messages: indexed, not embedded


def _check_fields(value: object, texts: Sequence[str], times: Sequence[str], ids: Sequence[str] = ()) -> None:
    """Raise TypeError for a text or time of another type; `ids` and times may be None."""
    checks = (texts, str, "a text"), (ids, str | None, "an id"), (times, datetime | None, "a datetime")
    for names, kind, shown in checks:
        for name in names:
            if not isinstance(given := getattr(value, name), kind):
                raise TypeError(f"{type(value).__name__}({name}=…) takes {shown}, not {given!r:.40}")


def _check_access(noun: str, value: Set[str] | None) -> frozenset[str] | None:
    if isinstance(value, str):  # set("hr") would be a set of letters
        raise TypeError(f"{noun}(access=…) takes a set of labels, not the single text {value!r}")
    return None if value is None else frozenset(value)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; without an id it gets one made from its content.

    `access` are the labels of those who may see it; None: the labels of its thread. Adding a message again with None
    keeps its labels; other labels replace them.
    """

    text: str
    author: str = ""
    at: datetime | None = None
    id: str = ""
    channel: str = ""
    reply_to: str | None = None
    role: str = "user"
    access: Set[str] | None = None

    def __post_init__(self) -> None:
        _check_fields(self, ("text", "author", "id", "channel", "role"), ("at",), ("reply_to",))
        object.__setattr__(self, "access", _check_access("Message", self.access))
        if not self.id:
            key = digest("message", self.channel, self.author, to_iso(self.at) or "", self.text)
            object.__setattr__(self, "id", key[:16])


@dataclass(frozen=True, slots=True)
class Section:
    """A labelled span of a Document: the text under a heading, or one message.

    Sections partition the text in order. `parent` is the position of another section: the heading above, or the message
    that this one replies to. `guessed`: the reply was inferred, not marked by the author. `access` are the labels of
    those who may see a message; None: the labels of the document. `awaits` is the id of a parent that is not stored;
    the message joins its parent's thread when the parent is added.
    """

    start: int
    end: int
    label: str = ""
    parent: int | None = None
    id: str = ""
    author: str = ""
    at: datetime | None = None
    page: int | None = None
    guessed: bool = False
    access: Set[str] | None = None
    awaits: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One source: its whole text and the sections that cover it.

    `add` fills in `hash` (of the content) and `stamp` (the state of the file); the next `add` skips the document if
    these are unchanged. `access` are the labels of those who may see it; None: everybody. `summary_by` names who wrote
    the summary. The store fills in `created` and `updated`, the times of the first and last write, if not given. `read`
    fills in `language`, the most frequent one among the chunks (in a tie the first code, "de" before "en"), "und" if
    none is known; in a long document it examines only some chunks.
    """

    id: str
    text: str
    sections: tuple[Section, ...] = ()
    kind: str = "page"
    title: str = ""
    uri: str = ""
    summary: str = ""
    meta: Meta = field(default_factory=dict)
    hash: str = ""
    stamp: str = ""
    access: Set[str] | None = None
    summary_by: str = ""
    created: datetime | None = field(default=None, compare=False)
    updated: datetime | None = field(default=None, compare=False)
    language: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check_fields(self, ("id", "text", "kind", "title", "uri", "summary"), ("created", "updated"))
        if not isinstance(self.meta, Mapping):
            raise TypeError(f"Document(meta=…) takes a mapping of names to values, not {self.meta!r:.40}")
        object.__setattr__(self, "access", _check_access("Document", self.access))

    def heading_path(self, position: int) -> tuple[str, ...]:
        """Return the labels from the outermost section down to this one, without empty ones."""
        labels: list[str] = []
        at: int | None = position
        while at is not None:
            section = self.sections[at]
            if section.label:
                labels.append(section.label)
            at = section.parent
        return tuple(reversed(labels))


INCOMPLETE = "incomplete "  # prefix of the hash of a document whose contexts a model failed to write


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document in a list: everything but its text and sections.

    `list` fills in `language`, the most frequent one among the chunks (in a tie the first code, "de" before "en"),
    "und" if none is known.
    """

    id: str
    title: str = ""
    uri: str = ""
    kind: str = "page"
    hash: str = ""
    stamp: str = ""
    chars: int = 0
    chunks: int = 0
    summary: str = ""
    meta: Meta = field(default_factory=dict)
    access: Set[str] | None = None
    summary_by: str = ""
    created: datetime | None = field(default=None, compare=False)
    updated: datetime | None = field(default=None, compare=False)
    language: str = field(default="", compare=False)

    @property
    def lacks(self) -> tuple[str, ...]:
        """The parts that a model failed to write ("contexts"); the next `add` or `backfill` adds them."""
        return ("contexts",) if self.hash.startswith(INCOMPLETE) else ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The span of a Document that is embedded and found: `text == document.text[start:end]`, always."""

    id: str
    doc_id: str
    index: int
    total: int
    text: str
    start: int
    end: int
    headings: tuple[str, ...] = ()
    context: str = ""
    at: datetime | None = None
    meta: Meta = field(default_factory=dict)

    @property
    def embed_text(self) -> str:
        """The text to embed: the context, the headings above, then the text that is stored and cited.

        A heading with which the text begins is not repeated. Quoted context lines ("> ") are left out.
        """
        if not self.context:
            return self._prepend("")
        lines = self.context.split("\n")
        return self._prepend("\n".join(line for line in lines if not line.startswith(QUOTE)))

    @property
    def index_text(self) -> str:
        """The text for the word index and rerankers: `embed_text` with the quoted lines of the context."""
        if not self.context:
            return self._prepend("")
        return self._prepend("\n".join(line.removeprefix(QUOTE) for line in self.context.split("\n")))

    def _prepend(self, context: str) -> str:
        body = self.text
        if self.headings:
            opening = body.lstrip("#= \n")
            own = (place for place, heading in enumerate(self.headings) if opening.startswith(heading))
            body = prepend_headings(self.headings[: next(own, None)], body)
        return f"{context}\n\n{body}" if context else body


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the conversation before it.

    `text` is the text to search for. If it was rewritten with the conversation, `asked` has the original question. `k`
    is the number of hits to return, `depth` the number that each ranking considers. `vector` is the embedding of the
    text; a caller with several queries embeds them in one batch.
    """

    text: str
    k: int = 5
    depth: int = 50
    history: tuple[Message, ...] = ()
    where: Filter = EVERYTHING
    channel: str | None = None
    now: datetime | None = None
    vector: Vector | None = field(default=None, compare=False)
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A Chunk that was found, the record of its document, and three numbers that are never mixed.

    `score` orders one list of hits and is not comparable outside it; `scores` has the score of each stage by name.
    `similarity` is the cosine of query and chunk. `relevance` is the probability that the chunk answers the query,
    comparable across queries, kinds, strategies and stores. Both are nan until they are computed.
    """

    chunk: Chunk
    document: DocumentRecord
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    similarity: float = nan
    relevance: float = nan

    def with_score(self, score: float, name: str) -> "Hit":
        """Return the same hit with a new score, also added to `scores` by name."""
        scores = {**self.scores, name: score}
        return Hit(self.chunk, self.document, score, scores, self.similarity, self.relevance)


class TermMatch(NamedTuple):
    """The match of a chunk with the terms of a query, as two numbers from 0 to 1.

    `share` is the fraction of the terms in the chunk, weighted by inverse document frequency. `strength` is its BM25
    score divided by the maximum, that of a chunk with every term many times.
    """

    share: float
    strength: float


NO_MATCH = TermMatch(0.0, 0.0)
FOREIGN = "expected_words"  # the name in `scores` that marks a hit in another language than the question


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Counts and properties of a store; `change` is its change number."""

    documents: int
    chunks: int
    embedder: str
    dim: int
    change: int
    index: str = ""
    bytes: int = 0
    without_summary: int = 0  # documents; counted by `engine.status` where the settings ask for summaries
    without_contexts: int = 0  # documents whose contexts a model failed to write
    languages: Mapping[str, int] = field(default_factory=dict)  # chunks in each; counted by `engine.status`
    pending: int = 0  # chunks without a vector yet, found only by words
    is_embedding: bool = False  # whether a process is working that will embed them, once it has read all its files

    def describe_pending(self) -> str:
        """Describe how many chunks have their vectors."""
        made = f"{self.chunks - self.pending:,} of {self.chunks:,} chunks are searchable by meaning"
        return f"{made}, the others by words" if self.pending else made

    def explain_pending(self) -> str:
        """Explain how many chunks have their vectors, and what will make the others."""
        who = "`clew backfill` makes their vectors, and so does the next `clew add`"
        if self.is_embedding:
            who = "an add is at work: it reads all files, then makes their vectors"
        return f"{self.describe_pending()}; {who}"


def find_section_cycle(sections: Sequence[Section]) -> int | None:
    """Find the position of a section that is among its own ancestors, or None."""
    acyclic: set[int] = set()  # sections whose chain of parents is known to end
    for start in range(len(sections)):
        path: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in acyclic:
            if at in path:
                return at
            path[at] = None
            at = sections[at].parent
        acyclic |= path.keys()
    return None
