"""The extension points: Protocols for parts that hold a resource, function types for the others."""

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
    """The verdict of a Judge: a grade from 1 to 5 (None: not graded) and, if it is low, a function for a better query.

    `refine` is called only if another search is allowed, since it may cost a model call; None: no better query.
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
    """An embedding model. Several threads call it at once; a failed call raises DriverFailed."""

    @property
    def name(self) -> str:
        """The name of the model; stored with the collection, so that the vectors of two models never mix."""

    @property
    def dim(self) -> int:
        """The dimension of the vectors; constant for a name."""

    @property
    def max_tokens(self) -> int:
        """The number of tokens that the model reads at once; it bounds the chunk size."""

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for this model; 0 if unknown."""

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Return one row of unit length per text, in order: float32 of shape (len(texts), dim), also for no texts.

        The vector of a text must not depend on the other texts. Embed any text, even an empty one; read a text longer
        than `max_tokens` to its end, in windows whose vectors are averaged. `role` says whether the texts are questions
        or passages; models without that distinction ignore it.
        """

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the model's tokens in each text, in order, without special tokens; an estimate will do."""


class Reranker(Protocol):
    """A model that scores how well each text answers a query. Several threads call it; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """The name of the model, for traces."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one finite score per text, in the order of the texts, on the model's own scale; higher is better.

        The score of a text must not depend on the other texts. Score any text and query, reading a long text to its
        end. The caller sorts.
        """

    def calibrate(self, score: float) -> float:
        """Return the probability, from 0 to 1, that a text with this score is an answer; it grows with the score."""


class AnswerReader(Reranker, Protocol):
    """A model that scores whether a part of a text answers a question, not merely whether it is on topic."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that the model knows; for others its scores mean nothing."""


class Verifier(Protocol):
    """A model that checks whether a passage supports a claim. Several threads call it; failures raise DriverFailed."""

    @property
    def name(self) -> str:
        """The name of the model, for traces."""

    @property
    def languages(self) -> Set[str]:
        """The codes of the languages that the model knows; for others its results mean nothing."""

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, for each (passage, claim) in order, the calibrated probability that the passage supports the claim.

        A passage may begin with a line of its title and headings, joined by " > ", which may support a claim, too. The
        result for a pair must not depend on the other pairs. A long passage must be read to its end.
        """

    def judge(self, chance: float) -> SupportVerdict:
        """Judge a probability: supported, unsupported or, between the verifier's two thresholds, unsure."""


@dataclass(frozen=True, slots=True)
class LLMFailure:
    """The reason why one prompt of a batch got no answer; its own type, so that nobody takes it for an answer."""

    reason: str


def complete_or_failure(complete: Callable[[], str]) -> str | LLMFailure:
    """Return the answer, or an LLMFailure if the call raises DriverFailed."""
    try:
        return complete()
    except DriverFailed as error:
        return LLMFailure(str(error))


class LLM(Protocol):
    """A synchronous language model that several threads call at once.

    To use a model of your own, subclass this and provide `name` and `complete`; the other methods have defaults. Any
    object with all of these methods will do, too. A failed call raises DriverFailed, an invalid option SettingsError.

    Report each call with `clew.record_usage`, so that answers and reports show the usage; limits of runs and agents
    estimate unreported calls. An agent describes its tools in the prompt, unless the LLM has native tool calls in a
    method `as_agent_model` (see `clew.drivers.llm.agent_model`) or wraps such an LLM as `wrapped`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the model, for prices, caches and reports."""

    @abstractmethod
    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """Return the model's answer, possibly empty, cut off at `max_tokens`."""

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far; by default unknown (zero)."""
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
        """Return one answer or failure per prompt, in order; by default run `complete` in `max_concurrent` threads."""
        complete = partial(self.complete, system=system, max_tokens=max_tokens, temperature=temperature)
        calls = [partial(complete_or_failure, partial(complete, prompt)) for prompt in prompts]
        return run_parallel(calls, max_concurrent=max_concurrent, abandon=True)

    def stream(
        self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0
    ) -> Iterator[str]:
        """Yield the answer in pieces as they arrive; by default in one. Reading the first piece sends the request.

        A broken stream raises DriverFailed after the pieces that arrived. It is not retried, since these are paid for;
        before the first piece it is retried like `complete`.
        """
        yield self.complete(prompt, system=system, max_tokens=max_tokens, temperature=temperature)

    def count(self, text: str) -> int:
        """Count the model's tokens in a text; by default an estimate."""
        return estimate_tokens(text)


RecordKind = Literal["tuned", "evaluations", "feedback", "erasing"]


class RecordStore(Protocol):
    """Texts beside the content of a collection: tuned settings, evaluation runs, feedback, the journal of an erasure.

    Each kind has texts by name; a kind with a single text uses the empty name. Writing one does not change the change
    number. A failed store raises DriverFailed, a read-only one ReadOnlyStore.
    """

    def read_all(self, kind: RecordKind) -> dict[str, str]:
        """Return the texts of a kind by name, sorted."""

    def read(self, kind: RecordKind, name: str = "") -> str:
        """Return a text, empty if there is none."""

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replace a text atomically. An empty text deletes it; for an erasure, its bytes are overwritten."""

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Append to a text, or start it, at a cost independent of its length."""

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Describe where the text is stored, for an error that says what to delete."""

    def locate(self, kind: RecordKind, name: str = "") -> Path | None:
        """Return the file of the text; None if it is not in a file."""


class SessionStore(Protocol):
    """The sessions of one collection by name, for use from several threads, programs and machines.

    A session is not content: writing one does not change the change number. A failed store raises DriverFailed, a
    read-only one ReadOnlyStore.
    """

    def get(self, name: str) -> StoredSession | None:
        """Return the session with this name, or None."""

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replace a session by the result of `change`, atomically, and return it; a new one starts empty.

        `change` may be called more than once. If it raises, the session stays.
        """

    def drop(self, names: Sequence[str]) -> int:
        """Delete sessions; return how many existed."""

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Delete sessions last used before `used_since`, and the oldest beyond `max_sessions`; return the number.

        Sessions that are `kept`, and `current`, always stay.
        """

    def names(self) -> list[str]:
        """Return the names of all sessions, sorted."""


Mode = Literal["ann", "exact"]


class Work(Protocol):
    """A worker's announcement that it embeds documents of a collection, begun by `Store.at_work`."""

    def has_others(self) -> bool:
        """Return whether other workers are active; each embeds all pending chunks after its own documents."""

    def leave(self) -> bool:
        """End the announcement if other workers are active; return whether it ended. The last worker cannot leave."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SearchableStore(Protocol):
    """The read methods of a store that a search needs, for one collection or the part that a filter admits.

    `Store` of clew.drivers.store has these methods, with the same rules: nothing outside a filter is returned; `k` < 1
    and an empty store return nothing; several threads may call all methods; a failure raises DriverFailed and never
    looks like "nothing found".
    """

    def at_one_state(self) -> "SearchableStore":
        """Return the same store for one search or batch, which reads properties of the whole collection only once.

        If found chunks are removed before they are read, it continues with the new state.
        """

    def chunks(self, doc_id: str) -> list[Chunk]:
        """Return the chunks of a document in order of `index`; NotFound if there is no such document."""

    def channels(self) -> list[str]:
        """Return the channels that have chunks, sorted, at a cost that grows only with their number."""

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the existing chunks among the ids, by id, as they were put."""

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """Find the k chunks with the highest cosine (the score), best first, ties by id. `vector` has unit length.

        "exact" compares all chunks that the filter admits. "ann" may use an approximate index, which explores `breadth`
        candidates (None: its default).
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
        """Find candidates for each query (a vector and its terms): the chunks of all rankings, and of `chunk_ids`.

        A ranking finds the same chunks as `search_vectors` and `search_terms` with its filter. All queries are searched
        in one batch. Hits are read within the filter `shown`.
        """

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Find the k documents whose summary has the highest cosine: (id, cosine), best first, ties by id."""

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """Find the k chunks with the highest BM25 score that contain any of the terms, best first, ties by id.

        A term that occurs twice in the query counts twice. The formula is `clew.drivers.store.bm25`.
        """

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """Return how well the existing chunks among the ids match the terms of a query, by id.

        Document frequencies come from the whole collection, as in `search_terms`; terms that it lacks still count in
        the share. A term that occurs twice in the query counts twice. Without terms, every match is 0.
        """

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """Count, for each term, the chunks of the whole collection that have it, up to `at_most`."""

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """Count the chunks in each language: cheaply up to a few thousand, or `exact`.

        Empty for chunks that were indexed before languages were stored; "und" counts chunks of unknown language.
        """

    def calibration(self) -> str:
        """Return the text stored by `set_calibration`; empty if there is none."""

    def describe_pending(self) -> str:
        """Describe how many chunks are searchable by meaning; empty, at next to no cost, if all are."""

    def change_number(self) -> int:
        """Return a number that grows with every change of the collection, at next to no cost, as the key of caches."""


class WritableStore(SearchableStore, Protocol):
    """The methods of a store that adding needs: a write is atomic, and the next search sees it."""

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
        anything else raises DriverFailed, as does a chunk id that belongs to another document. Without a
        `summary_vector`, the stored one is kept if the summary is unchanged. `expected_text` is the text to replace: if
        the stored text differs, or the document is gone, ConcurrentChange is raised.
        """

    def put_many(self, documents: Sequence[NewDocument | StoredDocument]) -> None:
        """Put several documents with distinct ids in one transaction, which is faster than one by one.

        A StoredDocument, read from another store, is put unchanged.
        """

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """Return the named messages of a thread, and all others needed to edit them; NotFound if there is no thread.

        The others are the `2 * reach` messages before and after each and at the end of the thread; the replies to each,
        down to `reach` levels, with the `2 * reach` messages before them; the ancestors of all of these, `reach` levels
        up and one more per named message; and the first messages of the thread, one more than are named. The cost does
        not depend on the length of the thread, unless very many messages are named or answer the named ones.
        """

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Edit threads in one transaction, at a cost that does not depend on their length.

        ConcurrentChange if the revision of a thread has changed since it was read. A message may move from one thread
        to another; else a chunk id that belongs to another document raises DriverFailed.
        """

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """Return, by id, the messages of a channel that wait for these as their parents (`Section.awaits`)."""

    def summarise(
        self, doc_id: str, summary: str, vector: Vector | None = None, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Set the summary of a document, its unit vector for `search_documents`, and its author.

        Without a vector, the summary is pending until `embed_pending` embeds it. NotFound if there is no such document.
        `expected_text` is the text that was summarised: if the stored text differs, ConcurrentChange is raised.
        """

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claim the documents that no other owner has claimed, and return their ids.

        A claim expires after `seconds`; its owner may renew it, or release it with 0. It only informs other workers and
        locks nothing. The change number stays the same.
        """

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Yield all documents, or the existing ones among the ids, with everything stored, in order of insertion.

        They are read a few at a time, so that a large collection never has to fit in memory.
        """

    def at_work(self) -> Work:
        """Announce to others, until the block ends, that this process will make vectors; `stats` shows it."""

    def embed_pending(
        self,
        embedder: Embedder,
        on_progress: Callable[[int, int, float], None] | None = None,
        documents: Collection[str] | None = None,
    ) -> tuple[int, dict[str, str]]:
        """Embed chunks and summaries that were put without a vector, of all documents or of some.

        The newest come first, texts of similar length in one call; each batch is stored before the next call. Returns
        the number of embedded chunks, and reasons for failures by document. Several processes share the work; with
        `documents`, none waits for the others.
        """

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Set `Document.stamp` (the state of its file) of an unchanged document; the change number stays the same."""

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Delete documents with their chunks, vectors and terms; return how many existed."""

    def document(self, doc_id: str) -> Document:
        """Return the document as it was put; NotFound if there is no such document."""

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Yield the records of the documents that the filter admits, sorted by uri, then id.

        Its authors and times are ignored: they concern chunks.
        """

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Return the existing chunks among the ids, by id."""

    def files(self) -> list[tuple[str, str]]:
        """List the id and uri of each document that was read from a file, at a small part of the cost of its record."""

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """Return the k chunks last added to a channel, the newest last, at a cost independent of its length."""

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """Yield all chunks that the filter admits, by document id, then `index`, read in batches.

        A chunk that exists throughout the scan comes exactly once, whatever changes meanwhile; one that is added or
        removed during the scan may or may not come.
        """

    def set_calibration(self, text: str) -> None:
        """Store the calibration text; the change number grows, since results depend on the calibration."""

    def counts(self) -> StoreStats:
        """Return the counts, the embedder and its dimension, and the change number, at next to no cost."""

    def stats(self) -> StoreStats:
        """Return the counts, the kind of the index and the bytes on disk, and whether vectors are being made."""

    def flush(self, *, with_graph: bool = True) -> None:
        """Write everything to disk and optimise the index; results do not change.

        With `with_graph=False`, skip the slow vector index (graph or partitions), for a caller about to replace it.
        """
