"""The extension points: what holds a resource is a Protocol, what does not is a function."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, Self

from clew.core.answer import SupportVerdict
from clew.core.candidates import Candidates, Ranking
from clew.core.errors import DriverFailed
from clew.core.filter import EVERYTHING, Filter
from clew.core.parallel import run_parallel
from clew.core.stored import ChangeSession, NewDocument, StoredDocument, StoredSession
from clew.core.text import Terms, estimate_tokens
from clew.core.thread import ThreadEdit, ThreadPart, Waiting
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Matrix, Query, StoreStats, TermMatch, Vector
from clew.core.usage import Usage


@dataclass(frozen=True, slots=True)
class Verdict:
    """The opinion of a Judge: a grade from 1 to 5 (None: not graded) and, if it is low, a way to a better query.

    `refine` is called only if another search is allowed, since it may cost a model call; None: there is no better one.
    """

    grade: int | None
    refine: Callable[[], Query | None] | None = None


Reader = Callable[[bytes, str], Document | str]
"""Reads a file format that Clew does not know: the bytes of a file and its uri in, a Document or its markdown text out.

    def read_foo(data: bytes, uri: str) -> Document | str:
        return data.decode("latin-1").replace("==", "#")

A text, or a Document without sections, is parsed as markdown. Clew sets `id` and `uri`, and a title if there is none.
An exception makes this one file fail, with its text as the reason.
"""
Chunker = Callable[[Document], list[Chunk]]
"""Splits a document into chunks, in document order.

Each is a non-empty span, `chunk.text == document.text[chunk.start:chunk.end]`, with the `doc_id` of the document; they
may overlap. Clew sets `id`, `index` and `total`.
"""
Enricher = Callable[[Document, list[Chunk]], list[Chunk]]
"""Returns the chunks of a document with more to embed, usually a `context` that places each in the document.

The spans follow the rules of a Chunker.
"""
Strategy = Callable[[Query], list[Hit]]
"""Searches: hits for a query, best first, all of them admitted by `query.where`. It is the one type of retrieval.

It returns at least `query.k` hits if there are as many; the engine cuts to `k`. No hits is an empty list, a failure
raises.
"""
Step = Callable[[Query, list[Hit]], list[Hit]]
"""Changes the hits of a strategy: filters, re-scores or re-orders them, best first. It must not change its argument."""
Rewrite = Callable[[Query], list[Query]]
"""The queries to search with in place of one; at least one, with the same `where`."""
Fuse = Callable[[Sequence[list[Hit]]], list[Hit]]
"""Merges the rankings of several searches into one, each chunk once, best first."""
Judge = Callable[[Query, list[Hit]], Verdict]
"""Grades how well the hits answer the query."""


Role = Literal["query", "passage"]


class Embedder(Protocol):
    """Turns texts into unit vectors. Called from several threads at once; a failed call raises DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model; stored with the collection, so that the vectors of two models never mix."""

    @property
    def dim(self) -> int:
        """The length of a vector; it never changes for a name."""

    @property
    def max_tokens(self) -> int:
        """The number of tokens that the model reads at once; chunks are made to fit."""

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for this model; 0 if unknown."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one row of unit length per text, in order: float32 of shape (len(texts), dim), also for no texts.

        The vector of a text must not depend on the other texts. Any text has one, also an empty one; a text longer
        than `max_tokens` must be read to its end, in windows whose vectors are averaged. `role` says whether the texts
        are questions or passages; models that make no difference ignore it.
        """

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the model's tokens in each text, in order, without special tokens; an estimate will do."""


class Reranker(Protocol):
    """Scores how well each text answers a query. Called from several threads at once; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model in traces."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one finite score per text, in the order of the texts, on the model's own scale; higher is better.

        The score of a text must not depend on the other texts. Any text and any query has one; a long text must be
        read to its end. The caller sorts.
        """

    def calibrate(self, score: float) -> float:
        """Return the probability, from 0 to 1, that a text with this score is an answer; it grows with the score."""


class AnswerReader(Reranker, Protocol):
    """Scores whether a part of a text answers a question, and not merely whether it is about it."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that it reads; for others its answer means nothing."""


class Verifier(Protocol):
    """Says how likely a passage supports a claim. Called from several threads at once; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """Identifies the model in traces."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that it reads; for others its answer means nothing."""

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the calibrated chance, for each pair of a passage and a claim in order, that the passage supports it.

        A passage may begin with a line of its title and headings, joined by " > "; what is claimed may hold by them
        alone. The result for a pair must not depend on the other pairs. A long passage must be read to its end.
        """

    def judge(self, chance: float) -> SupportVerdict:
        """Judge a chance: supported, unsupported or, between the verifier's two thresholds, unsure."""


@dataclass(frozen=True, slots=True)
class LLMFailure:
    """The reason why one prompt of a batch got no answer; a type of its own, so that it is never taken for one."""

    reason: str


def complete_or_failure(complete: Callable[[], str]) -> str | LLMFailure:
    """Return the answer, or an LLMFailure where the call raises DriverFailed."""
    try:
        return complete()
    except DriverFailed as error:
        return LLMFailure(str(error))


class LLM(Protocol):
    """A language model, synchronous, called from several threads at once.

    To use a model of your own, subclass this and provide `name` and `complete`; the other methods have defaults. Any
    object with all of these methods will do, too. A failed call raises DriverFailed, an invalid option SettingsError.

    Report each call with `clew.record_usage`, so that answers and reports show their usage; the limits of a
    run or an agent estimate what is not reported. An agent describes its tools in the prompt, unless the LLM has native
    tool calls in a method `as_agent_model` (see `clew.drivers.llm.agent_model`), or wraps such an LLM as `wrapped`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifies the model in prices, caches and reports."""

    @abstractmethod
    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """Return the model's answer, which may be empty, cut off at `max_tokens`."""

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far; by default none is known."""
        return Usage()

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """Return one answer or failure per prompt, in order; by default by `complete` in `max_concurrent` threads."""
        complete = partial(self.complete, system=system, max_tokens=max_tokens, temperature=temperature)
        calls = [partial(complete_or_failure, partial(complete, prompt)) for prompt in prompts]
        return run_parallel(calls, max_concurrent=max_concurrent, abandon=True)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """Yield the answer in pieces as they arrive, requested when the first is read; by default in one piece.

        A stream that breaks off raises DriverFailed after the pieces that arrived; it is not retried, since they are
        paid for. Before the first piece it is retried like `complete`.
        """
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """Count the model's tokens in a text; by default an estimate."""
        return estimate_tokens(text)


RecordKind = Literal["tuned", "evaluations", "feedback", "erasing"]


class RecordStore(Protocol):
    """Texts kept with a collection that are no part of its content: tuned settings, runs, feedback, an erasure begun.

    Of each kind there are texts by name; a kind with one text has the empty name. Writing one does not change the
    change number. DriverFailed where the store fails, ReadOnlyStore where it can only be read.
    """

    def read_all(self, kind: RecordKind) -> dict[str, str]:
        """Return the texts of a kind by name, sorted."""

    def read(self, kind: RecordKind, name: str = "") -> str:
        """Read the text, empty if there is none."""

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replace a text, whole or not at all; an empty one deletes it, and of an erasure its bytes."""

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Add to the end of a text, at a cost that does not grow with it; a new one starts empty."""

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Say where the text is kept, for an error that says what to delete."""

    def locate(self, kind: RecordKind, name: str = "") -> Path | None:
        """Return the file of the text; None where it is no file."""


class SessionStore(Protocol):
    """The sessions of one collection by name. They may be used from several threads, programs and machines.

    A session is no part of the content: writing one does not change the change number. DriverFailed where the store
    fails, ReadOnlyStore where it can only be read.
    """

    def get(self, name: str) -> StoredSession | None:
        """Return the session of that name, or None."""

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replace a session by what `change` makes of it, atomically, and return that; a new one starts empty.

        What `change` raises leaves the session as it was; it may be called more than once.
        """

    def drop(self, names: Sequence[str]) -> int:
        """Delete sessions; return how many existed."""

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Delete sessions that are not kept: those used before `used_since`, and the oldest beyond `max_sessions`.

        `current` stays in any case. Returns how many were deleted.
        """

    def names(self) -> list[str]:
        """Return the names of all sessions, sorted."""


Mode = Literal["ann", "exact"]


class Work(Protocol):
    """A stay at work on a collection, as `Store.at_work` begins it."""

    def has_others(self) -> bool:
        """Return whether others are at work, which make what is pending after their own documents."""

    def leave(self) -> bool:
        """End it if others are at work; return whether it did. Of several that call it, the last one stays."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SearchableStore(Protocol):
    """The chunks of one collection, or of what a filter admits of it, as a search asks for them.

    It is what `Store` of clew.drivers.store has for that, with the same rules: a filter is a boundary, and nothing
    outside it is returned; `k` < 1 and an empty store return nothing; all methods may be called from several threads;
    a failure raises DriverFailed, which never looks like "nothing found".
    """

    def at_one_state(self) -> "SearchableStore":
        """Return the same store for one search, or one batch: what it reads of the whole collection, it reads once.

        Where chunks that were found are removed before they are read, it goes on with the state by then.
        """

    def chunks(self, doc_id: str) -> list[Chunk]:
        """Return the chunks of a document in order of `index`; NotFound if the document is not there."""

    def channels(self) -> list[str]:
        """Return the channels that have chunks, sorted, at a cost that grows only with their number."""

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the chunks that exist among the ids, by id, as they were put."""

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """Find the k chunks of greatest cosine (the score), best first, ties by id. `vector` has unit length.

        "exact" compares all chunks that the filter admits; "ann" may use an approximate index, in which case `breadth`
        is the number of candidates that it explores (None: its default).
        """

    def find_candidates(
        self,
        vectors: Matrix,
        terms: Sequence[Terms],
        rankings: Sequence[Ranking],
        chunk_ids: Sequence[str] = (),
        *,
        shown: Filter = EVERYTHING,
        mode: Mode = "ann",
        breadth: int | None = None,
    ) -> list[Candidates]:
        """Find candidates for each query, a vector and its terms: all that the rankings find, and these chunks if any.

        A ranking is what `search_vectors` and `search_terms` find with its filter; the queries are searched together.
        Hits are read as within the filter `shown`.
        """

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Find the k documents whose summary has the greatest cosine: their ids and it, best first, ties by id."""

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """Find the k chunks of greatest BM25 score that contain any of the terms, best first, ties by id.

        A term that occurs twice in the query counts twice. The formula is `clew.drivers.store.bm25`.
        """

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """Return how well the chunks that exist among the ids match the terms of a query, by id.

        The counts are those of the whole collection, as in `search_terms`; a term that it does not have counts in the
        share. A term that occurs twice in the query counts twice. Without terms, every match is 0.
        """

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """Count the chunks of the whole collection that have each of the terms, up to `at_most`."""

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """Count the chunks in each language, up to a few thousand at next to no cost, or `exact`.

        Empty where the chunks were indexed before their language was kept; "und" where it is not known.
        """

    def calibration(self) -> str:
        """Return the text that `set_calibration` kept; empty if there is none."""

    def describe_pending(self) -> str:
        """Describe how many chunks are searchable by meaning; empty, at next to no cost, if all of them are."""

    def change_number(self) -> int:
        """Return a number that grows with every change of the collection, at next to no cost, as the key of caches."""


class WritableStore(SearchableStore, Protocol):
    """The documents of one collection as adding asks for them: a write is atomic, and the next search sees it."""

    def put(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
        *,
        expected_text: str | None = None,
        summary_vector: Vector | None = None,
    ) -> None:
        """Replace a document and all its chunks, or add it.

        `vectors` has one unit row per chunk, of the collection's dimension, and `terms` one mapping per chunk;
        anything else raises DriverFailed, as does a chunk id that belongs to another document. `summary_vector` is
        that of the document's summary; without one, the stored one is kept if the summary is the same.
        `expected_text` is the text that is to be replaced: if the stored one differs, or the document is gone,
        ConcurrentChange is raised.
        """

    def put_many(self, documents: Sequence[NewDocument | StoredDocument]) -> None:
        """Put several documents, each id once, faster than one by one: as one change, all of them or none.

        What another store kept is put exactly as it was there.
        """

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """Return the named messages that are in a thread, and all that an edit of them needs; NotFound without thread.

        These are: the `2 * reach` messages before and after each and at the end of the thread, the replies to each down
        to `reach` levels with the `2 * reach` messages before them, and what all of these answer, `reach` levels up and
        one more for each message that is named. The first messages of the thread, one more than are named, come too.
        The cost does not depend on the length of the thread, unless that many messages answer those that are named.
        """

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Change threads, all of them or none, at a cost that does not depend on their length.

        ConcurrentChange if a thread is not the one that was read, by its revision. A message may move from one thread
        to another; else a chunk id that belongs to another document raises DriverFailed.
        """

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """Return the messages of a channel that answer those, which were not stored then (`Section.awaits`)."""

    def summarise(
        self, doc_id: str, summary: str, vector: Vector | None = None, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Set the summary of a document, its unit vector for `search_documents`, and who made it.

        Without a vector it is pending, until `embed_pending` makes it.

        NotFound if the document is not there. `expected_text` is the text that was summarised: if the stored one
        differs, ConcurrentChange is raised.
        """

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claim those of the documents that no other owner has claimed, and return their ids.

        A claim ends by itself after so many seconds, and its owner may extend it; 0 seconds give it back. It tells
        workers what others are at, and prevents nothing else. The change number stays the same.
        """

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Return all documents, or the given ones that exist, with all that is kept of them, in order of insertion.

        They are read a few at a time, so that a large collection never has to fit in memory.
        """

    def at_work(self) -> Work:
        """Tell others, until its block ends, that vectors will be made here; `stats` says so."""

    def embed_pending(
        self,
        embedder: Embedder,
        on_progress: Callable[[int, int, float], None] | None = None,
        documents: Collection[str] | None = None,
    ) -> tuple[int, dict[str, str]]:
        """Make the vectors of chunks and summaries that were put without one, of all documents or of some.

        The newest come first, texts of like length in one call, and what a call gave is stored before the next one.
        Returns of how many chunks they were made, and why some were not, by document. Processes share the work, and
        no one waits for another to make those of documents that are named.
        """

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Set `Document.stamp` (the state of its file) of an unchanged document; the change number stays the same."""

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Delete documents with their chunks, vectors and terms; return how many existed."""

    def document(self, doc_id: str) -> Document:
        """Return the document, equal to the one that was put; NotFound if it is not there."""

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Return the records that the filter admits by document, kind, channel and meta, by uri, then id."""

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Return the chunks that exist among the ids, by id."""

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """Return the k chunks last added to a channel, the newest last, at a cost that does not grow with it."""

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """Yield all chunks that the filter admits, by document id, then `index`, read in batches.

        A chunk that exists throughout the scan comes exactly once, whatever changes meanwhile; one that is added or
        removed during it may or may not come.
        """

    def set_calibration(self, text: str) -> None:
        """Keep a text about the collection; the change number grows, since results that depend on it change."""

    def counts(self) -> StoreStats:
        """Return the counts, the embedder and its dimension, and the change number, at next to no cost."""

    def stats(self) -> StoreStats:
        """Return the counts, the kind of the index and the bytes on disk, and whether vectors are being made."""

    def flush(self, *, with_graph: bool = True) -> None:
        """Return when all writes are on disk and the index is optimised; results do not change.

        Not `with_graph`, what takes long is left out, the graph or the partitions of the vectors: these are about to be
        replaced.
        """
