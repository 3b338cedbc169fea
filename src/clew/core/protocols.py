"""The extension points: what holds a resource is a Protocol, what does not is a function."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from clew.core.stored import StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.types import (
    EVERYTHING,
    Chunk,
    Document,
    DocumentRecord,
    Filter,
    Hit,
    Matrix,
    Query,
    Section,
    StoreStats,
    Vector,
)

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Role = Literal["query", "passage"]
Mode = Literal["ann", "exact"]


class Embedder(Protocol):
    """Turns texts into unit vectors. A text longer than the model takes is embedded in windows and pooled."""

    @property
    def name(self) -> str:
        """Kept in the store, so that two models' vectors never mix."""

    @property
    def dim(self) -> int:
        """The width of a vector."""

    @property
    def max_tokens(self) -> int:
        """How many tokens the model takes at once."""

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for this model."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit row a text, in order."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of the model each text has, special ones left out."""


class Reranker(Protocol):
    """Says how well each text answers the query, higher is better. It does not sort."""

    @property
    def name(self) -> str: ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score a text, in order, on the model's own scale."""

    def calibrated(self, score: float) -> float:
        """The chance, from 0 to 1, that a text of that score answers the query."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to a language model took."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0  # answers that were kept from before and cost nothing

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached + other.cached,
        )


@dataclass(frozen=True, slots=True)
class LLMFailure:
    """A prompt of many that got no answer, and why; it never reads like one."""

    reason: str


class LLM(Protocol):
    """A language model, synchronous and small. A failure raises DriverFailed.

    What a call took is added to `usage`, and said to `core.tally.took`, so that whoever pays counts no other's calls.
    """

    @property
    def name(self) -> str: ...

    @property
    def usage(self) -> Usage:
        """What all calls so far took."""

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The model's answer."""

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure a prompt, in order, at most so many at once."""

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """The answer in pieces, as they come; asked when the first is taken.

        An answer that breaks off raises DriverFailed after the pieces that came, and is not asked for again: they
        are paid for. Until the first piece it is tried again as `complete` is.
        """

    def count(self, text: str) -> int:
        """How many tokens of the model a text has; an estimate where the model does not say."""

    def model(self) -> "Model":
        """The same model for a pydantic-ai agent: as patient, counted alike, its failures DriverFailed too."""


class Store(Protocol):
    """Keeps the documents of one collection with their chunks and vectors, and finds the chunks again.

    What was put is found by the very next search, in any process; what was dropped is not. A failure raises
    DriverFailed; it never looks like nothing found.
    """

    def put(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
        *,
        instead_of: str | None = None,
    ) -> None:
        """Replaces a document and all its chunks, whole or not at all.

        `instead_of` is the text that is to be replaced: Outgrown where another stands there, since somebody has changed
        it after it was read.
        """

    def append(
        self,
        doc_id: str,
        text: str,
        sections: Sequence[Section],
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
    ) -> None:
        """Extends a document at its end, whole or not at all, at a cost that does not grow with the document.

        Outgrown where the sections do not stand in what is added: somebody has changed it since it was read.
        """

    def summarise(self, doc_id: str, summary: str, vector: Vector) -> None:
        """Gives a document its summary and the summary's vector."""

    def put_stored(self, whole: StoredDocument) -> None:
        """Replaces a document by one that another store kept, whole or not at all."""

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with all that is kept of it, as they came, a few read at a time."""

    def staged(self) -> StagedModel | None:
        """The model whose vectors stand beside those in use, if any."""

    def stage_vectors(self, embedder: Embedder, told: Callable[[int, int], None] | None = None) -> int:
        """Makes vectors of another model beside those in use, for all that lack one; how many were made.

        Searches and changes go on meanwhile. Done again, it makes what changed since, and what it had not got to.
        """

    def switch_to_staged(self, embedder: Embedder) -> "Store":
        """The same collection under the model whose vectors stand beside; those in use so far then stand beside.

        What lacks a vector has it made first, while changes wait. Whoever had it open is told to open it again.
        """

    def discard_staged(self) -> bool:
        """Forgets the vectors that stand beside those in use; whether there were any."""

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Notes the new state of the file of a document that has not changed; no change to what is found."""

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with all that belongs to them; how many there were."""

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that are there, by id."""

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end, at a cost that does not grow."""

    def channels(self) -> list[str]:
        """The channels that have chunks, by name, at a cost that grows with their number alone."""

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that are there."""

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, equal ones by id; the score is the cosine."""

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The k documents whose summaries are nearest, with the cosine."""

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score among those with any of the terms, best first, equal ones by id."""

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change."""

    def change_number(self) -> int:
        """That number alone, at next to no cost."""

    def flush(self) -> None:
        """Returns when all that was put is safe on disk and the index is in its best shape."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """A Judge's opinion: a grade from 1 to 5 (None: could not be graded) and, if wanting, how to get a better query.

    The better query is made only when it is asked for, because making it may cost a call.
    """

    grade: int | None
    refine: Callable[[], Query | None] | None = None


Chunker = Callable[[Document], list[Chunk]]
Enricher = Callable[[Document, list[Chunk]], list[Chunk]]
Strategy = Callable[[Query], list[Hit]]  # the one type that retrieval is closed under
Step = Callable[[Query, list[Hit]], list[Hit]]
Rewrite = Callable[[Query], list[Query]]
Fuse = Callable[[Sequence[list[Hit]]], list[Hit]]
Judge = Callable[[Query, list[Hit]], Verdict]
