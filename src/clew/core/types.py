"""The nouns: frozen values with no behaviour beyond a derived view of themselves."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew.core.cite import Citation
from clew.core.ids import digest
from clew.core.text import with_headings
from clew.core.trace import Trace

Vector = NDArray[np.float32]  # one row, of unit length
Matrix = NDArray[np.float32]  # a vector a row
Meta = Mapping[str, Any]  # what the source or the caller says of it: scalars and lists of scalars


@dataclass(frozen=True, slots=True)
class Message:
    """One utterance: who said what, when, where, in reply to what."""

    text: str
    author: str = ""
    at: datetime | None = None
    id: str = ""
    channel: str = ""
    reply_to: str | None = None
    role: str = "user"

    def __post_init__(self) -> None:
        if not self.id:
            at = self.at.isoformat() if self.at else ""
            object.__setattr__(self, "id", digest("message", self.channel, self.author, at, self.text)[:16])


@dataclass(frozen=True, slots=True)
class Section:
    """A labelled span of a Document: what stands under a heading, or one message.

    Sections partition the text in order; `parent` is the position of another section: the heading above it, or the
    message it replies to, so that the heading path and the reply chain are one walk. `guessed` is a reply that nobody
    marked as one: it was found out.
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


@dataclass(frozen=True, slots=True)
class Document:
    """One source: its whole text and the sections that cover it.

    `hash` and `stamp` are filled in when it is added: what was read, and the state of the file it was read from. They
    let the next `add` skip it.
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

    def path(self, position: int) -> tuple[str, ...]:
        """The labels from the outermost section down to this one, the empty ones left out."""
        labels: list[str] = []
        at: int | None = position
        while at is not None:
            section = self.sections[at]
            if section.label:
                labels.append(section.label)
            at = section.parent
        return tuple(reversed(labels))


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """What a list of documents shows of one: everything but its text."""

    id: str
    title: str
    uri: str
    kind: str
    hash: str
    stamp: str
    chars: int
    chunks: int
    summary: str = ""
    meta: Meta = field(default_factory=dict)


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
        """What is embedded and indexed: the context, the headings above, then the text that is stored and cited.

        A heading that the text itself begins with is not said twice.
        """
        opening = self.text.lstrip("#= \n")
        own = (place for place, heading in enumerate(self.headings) if opening.startswith(heading))
        body = with_headings(self.headings[: next(own, None)], self.text)
        return f"{self.context}\n\n{body}" if self.context else body


@dataclass(frozen=True, slots=True)
class Filter:
    """Which chunks may be found: all conditions hold, each met by any of its values; an empty one admits all.

    `since` is included, `until` is not; a chunk without a time is outside every time range. `meta` is compared as text
    with what the chunk says of itself, or else its document; a list is met by any of its members.
    """

    documents: Set[str] = frozenset()
    kinds: Set[str] = frozenset()
    channels: Set[str] = frozenset()
    authors: Set[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    meta: Meta = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("documents", "kinds", "channels", "authors"):
            value = getattr(self, name)
            if isinstance(value, str):  # a set of its letters is never what was meant
                raise TypeError(f"Filter({name}=…) takes a set of names, not the single text {value!r}")
            object.__setattr__(self, name, frozenset(value))


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the conversation it was asked in.

    `k` is how many the asker wants, `depth` how many each ranking considers. `vector` is filled in one batch by whoever
    fans out.
    """

    text: str
    k: int = 5
    depth: int = 50
    history: tuple[Message, ...] = ()
    where: Filter = EVERYTHING
    channel: str | None = None
    now: datetime | None = None
    vector: Vector | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Hit:
    """A Chunk that was found, its score, and every score that led there."""

    chunk: Chunk
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)

    def with_score(self, score: float, by: str) -> "Hit":
        """The same chunk under a new score, which is kept beside the others by its name."""
        return Hit(self.chunk, score, {**self.scores, by: score})


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """Hits joined into one readable stretch; `spans` are its places in the document, `text` is read from there."""

    text: str
    source: str
    heading_path: tuple[str, ...]
    heading_display: str
    chunks: tuple[Hit, ...]
    avg_similarity: float
    content_length: int
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped:
    """A stretch that was found and left out of a Context, and why."""

    passage: MergedChunk
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """What fits the budget, the prompt text that holds it, its citations, and the ledger of what was left out.

    Nothing found is an empty Context with a reason; a failure raises.
    """

    query: Query
    passages: tuple[MergedChunk, ...]
    text: str
    tokens: int
    documents: tuple[DocumentRecord, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    reason: str = ""
    citations: tuple[Citation, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the documents, by id


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a search came to its hits; as text, the drawing of its stages and of every hit's scores."""

    query: Query
    strategy: str
    hits: tuple[Hit, ...]
    documents: tuple[DocumentRecord, ...]
    trace: Trace

    def __str__(self) -> str:
        named = {record.id: record.uri or record.title or record.id for record in self.documents}
        lines = [f"{self.query.text!r} by {self.strategy}: {_counted(len(self.hits))}", self.trace.draw(depth=1)]
        for rank, hit in enumerate(self.hits, 1):
            scores = "  ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
            place = " > ".join((named.get(hit.chunk.doc_id, hit.chunk.doc_id), *hit.chunk.headings))
            lines.append(f"  {rank}. {hit.score:.3f}  {place}  ({scores})")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store says of itself."""

    documents: int
    chunks: int
    embedder: str
    dim: int
    change: int
    index: str = ""
    bytes: int = 0


def _counted(hits: int) -> str:
    return "1 hit" if hits == 1 else f"{hits} hits"
