"""What a context is made of: passages merged from hits, and those that were left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.core.attribution import PassageMessage
from clew.core.cite import Citation
from clew.core.types import DocumentRecord, Hit, Query


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """A passage of merged hits; `spans` are its positions in the document, from which `text` is read.

    `avg_similarity` is the mean similarity of the hits that have one. `copies` are hits of other documents with the
    text of one of its chunks: they are not shown again, but their sources are named with the passage. `messages` are
    those of a conversation, in the order of the text. `table_header` are the header row and the delimiter of a table in
    which the passage begins.
    """

    text: str
    source: str
    heading_path: tuple[str, ...]
    heading_display: str
    chunks: tuple[Hit, ...]
    avg_similarity: float
    content_length: int
    spans: tuple[tuple[int, int], ...] = ()
    copies: tuple[Hit, ...] = ()
    messages: tuple[PassageMessage, ...] = ()
    table_header: str = ""


@dataclass(frozen=True, slots=True)
class DroppedPassage:
    """A passage that was found but left out of a Context, and why."""

    passage: MergedChunk
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """The passages that fit the token budget, the prompt text made of them, its citations, and what was left out.

    Nothing found is an empty Context with a reason; a failure raises.
    """

    query: Query
    passages: tuple[MergedChunk, ...]
    text: str
    tokens: int
    documents: tuple[DocumentRecord, ...] = ()
    dropped: tuple[DroppedPassage, ...] = ()
    reason: str = ""
    citations: tuple[Citation, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the documents, by id
