"""Protocol of a store: the documents of one collection with their chunks, vectors and terms."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, Protocol, Self

from clew.core.candidates import Candidates, Ranking
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols.jobs import JobQueue
from clew.core.protocols.models import Embedder
from clew.core.protocols.records import RecordStore
from clew.core.protocols.sessions import SessionStore
from clew.core.receipt import Purge
from clew.core.stored import NewDocument, StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.thread_edit import ThreadEdit, ThreadPart, Waiting
from clew.core.thread_view import ThreadView
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Matrix, StoreStats, TermMatch, Vector

Mode = Literal["ann", "exact"]


class Work(Protocol):
    """A stay at work on a collection, as `Store.at_work` begins it."""

    def has_others(self) -> bool:
        """Whether others are at work, which make what is pending after their own documents."""

    def leave(self) -> bool:
        """Ends it if others are at work; whether it did. Of several that call it, the last one stays."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Store(Protocol):
    """The documents of one collection with their chunks, vectors and terms, and search over the chunks.

    Rules for every method: a write is atomic, and visible to the very next search in any process. A filter is a
    boundary: nothing outside it is returned. `k` < 1 and an empty store return nothing. All methods may be called from
    several threads. A failure raises DriverFailed, as does every use after `close`; it never looks like "nothing
    found". ModelSwitched is raised once another process has switched the collection to another embedder.
    """

    @property
    def whole(self) -> "Store":
        """The store of the whole collection; itself, unless it is within a filter."""

    def within(self, where: Filter) -> "Store":
        """The same store as far as a filter admits it: it shows nothing else by any method, and changes nothing.

        Of a document with hidden chunks, it shows the others as if they were all, without its summary. Statistics
        (`count_terms`, `match_terms`, `language_counts`, `calibration`) are those of the whole collection, which alone
        is closed.
        """

    def at_one_state(self) -> "Store":
        """The same store for one search, or one batch: what it reads of the whole collection, it reads once.

        Where chunks that were found are removed before they are read, it goes on with the state by then.
        """

    @property
    def jobs(self) -> JobQueue:
        """The queue of the jobs of the collection."""

    @property
    def records(self) -> RecordStore:
        """Runs of evaluations, feedback and tuned settings."""

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
        """Replaces a document and all its chunks, or adds it.

        `vectors` has one unit row per chunk, of the collection's dimension, and `terms` one mapping per chunk;
        anything else raises DriverFailed, as does a chunk id that belongs to another document. `summary_vector` is
        that of the document's summary; without one, the stored one is kept if the summary is the same.
        `expected_text` is the text that is to be replaced: if the stored one differs, or the document is gone,
        ConcurrentChange is raised.
        """

    def put_many(self, documents: Sequence[NewDocument | StoredDocument]) -> None:
        """Puts several documents, each id once, faster than one by one: as one change, all of them or none.

        What another store kept is put exactly as it was there.
        """

    def thread_part(self, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
        """The named messages of a thread that are in it, and all that an edit of them needs; NotFound without thread.

        These are: the `2 * reach` messages before and after each and at the end of the thread, the replies to each down
        to `reach` levels with the `2 * reach` messages before them, and what all of these answer, `reach` levels up and
        one more for each message that is named. The first messages of the thread, one more than are named, come too.
        The cost does not depend on the length of the thread, unless that many messages answer those that are named.
        """

    def thread_view(self, doc_id: str) -> ThreadView:
        """A thread whose messages are parsed when they are asked for; NotFound if it is not there."""

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Changes threads, all of them or none, at a cost that does not depend on their length.

        ConcurrentChange if a thread is not the one that was read, by its revision. A message may move from one thread
        to another; else a chunk id that belongs to another document raises DriverFailed.
        """

    def waiting_messages(self, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
        """The messages of a channel that answer those, which were not stored when they came (`Section.awaits`)."""

    def summarise(
        self, doc_id: str, summary: str, vector: Vector | None = None, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Sets the summary of a document, its unit vector for `search_documents`, and who made it.

        Without a vector it is pending, until `embed_pending` makes it.

        NotFound if the document is not there. `expected_text` is the text that was summarised: if the stored one
        differs, ConcurrentChange is raised.
        """

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claims those of the documents that no other owner has claimed, and returns their ids.

        A claim ends by itself after so many seconds, and its owner may extend it; 0 seconds give it back. It tells
        workers what others are at, and prevents nothing else. The change number stays the same.
        """

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """All documents, or the given ones that exist, with everything that is kept of them, in order of insertion.

        They are read a few at a time, so that a large collection never has to fit in memory.
        """

    def at_work(self) -> Work:
        """Tells others, until its block ends, that vectors will be made here; `stats` says so."""

    def embed_pending(
        self,
        embedder: Embedder,
        on_progress: Callable[[int, int, float], None] | None = None,
        documents: Collection[str] | None = None,
    ) -> tuple[int, dict[str, str]]:
        """Makes the vectors of chunks and summaries that were put without one, of all documents or of some.

        The newest come first, texts of like length in one call, and what a call gave is stored before the next one.
        Returns of how many chunks they were made, and why some were not, by document. Processes share the work, and
        no one waits for another to make those of documents that are named.
        """

    def staged_model(self) -> StagedModel | None:
        """The model of the staged vectors, which are stored beside those in use; None if there are none."""

    def stage_vectors(self, embedder: Embedder, on_progress: Callable[[int, int, float], None] | None = None) -> int:
        """Stages vectors of another model for all chunks and summaries that lack one, and returns how many were made.

        Searches and writes go on meanwhile. Called again, it continues where it stopped, and catches up with changes.
        StoreMismatch if vectors of a third model are staged. `on_progress` receives the number done, the total,
        and the share of the text that is done.
        """

    def switch_to_staged(self, embedder: Embedder) -> "Store":
        """Makes the staged vectors those in use and stages the old ones; returns the store opened for the new model.

        Missing vectors are made first, while writes wait. This store, and whoever else has the collection open, raises
        ModelSwitched from then on.
        """

    def with_model_in_use(self, embedder: Embedder) -> "Store":
        """The store of the same collection after it was switched to this model, in place of one that was open before.

        It shares the connections of this one, which is not to be used any more. StoreMismatch if the model is another.
        """

    def discard_staged(self) -> bool:
        """Deletes the staged vectors; whether there were any."""

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Sets `Document.stamp` (the state of its file) of an unchanged document; the change number stays the same."""

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Deletes documents with their chunks, vectors and terms; returns how many existed."""

    def document(self, doc_id: str) -> Document:
        """The document, equal to the one that was put; NotFound if it is not there."""

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """The records of the documents that the filter admits by document, kind, channel and meta, by uri, then id."""

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order of `index`; NotFound if the document is not there."""

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks that exist among the ids, by id."""

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The last k chunks that were added to a channel, the newest last, at a cost that does not grow with it."""

    def channels(self) -> list[str]:
        """The channels that have chunks, sorted, at a cost that grows only with their number."""

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """All chunks that the filter admits, by document id, then `index`, read in batches.

        A chunk that exists throughout the scan comes exactly once, whatever changes meanwhile; one that is added or
        removed during it may or may not come.
        """

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of the chunks that exist among the ids, by id, as they were put."""

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, ties by id; the score is the cosine. `vector` has unit length.

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
        mode: Mode = "ann",
        breadth: int | None = None,
    ) -> list[Candidates]:
        """The candidates of each query, a vector and its terms: what all rankings find, and these chunks if they exist.

        A ranking is what `search_vectors` and `search_terms` find with its filter; the queries are searched together.
        """

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The ids of the k documents whose summary has the greatest cosine, with it, best first, ties by id."""

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score that contain any of the terms, best first, ties by id.

        A term that occurs twice in the query counts twice. The formula is `clew.drivers.store.bm25`.
        """

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well the chunks that exist among the ids match the terms of a query, by id.

        The counts are those of the whole collection, as in `search_terms`; a term that it does not have counts in the
        share. A term that occurs twice in the query counts twice. Without terms, every match is 0.
        """

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks of the whole collection have each of the terms, counted up to `at_most`."""

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """How many chunks are in each language, counted up to a few thousand at next to no cost, or `exact`.

        Empty where the chunks were indexed before their language was kept; "und" where it is not known.
        """

    def calibration(self) -> str:
        """The text that `set_calibration` kept; empty if there is none."""

    def set_calibration(self, text: str) -> None:
        """Keeps a text about the collection; the change number grows, since results that depend on it change."""

    @property
    def sessions(self) -> SessionStore:
        """The sessions that are kept with the collection: the numbers of their documents, and their messages."""

    def stats(self) -> StoreStats:
        """The counts, the embedder and its dimension, the change number, and the kind and size of the index."""

    def describe_pending(self) -> str:
        """How many chunks are searchable by meaning, in words; empty, at next to no cost, if all of them are."""

    def change_number(self) -> int:
        """A number that grows with every change of the collection, at next to no cost: caches are keyed by it."""

    def flush(self, *, with_graph: bool = True) -> None:
        """Returns when all writes are on disk and the index is optimised; results do not change.

        Not `with_graph`, what takes long is left out, the graph or the partitions of the vectors: these are about to be
        replaced.
        """

    def maintain(self) -> list[str]:
        """Removes what deleted rows and old versions leave behind and keeps up the indexes; what was done, in words.

        It may take long, and others search and write meanwhile; results do not change.
        """

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Gives free room back to the disk; what could not be done, None if less than such a share of it is free."""

    def purge(self) -> Purge:
        """Overwrites what was deleted before.

        Others may read and write meanwhile, or wait for it. The index is built again by the next `flush` or search.
        """

    def notes(self) -> list[str]:
        """What is beyond the reach of `purge`, as sentences: backups, logs of a server."""

    def close(self) -> None:
        """Releases all resources; closing twice is allowed."""
