"""The store of one collection: every verb, implemented once over the rows of a backend."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Concatenate, Final, ParamSpec

import numpy as np

from clew.core.analyse import UNKNOWN, make_language_term
from clew.core.candidates import Candidates, Gone, Ranking, ThreadPlace
from clew.core.errors import DriverFailed
from clew.core.facets import expand_document_filter, expand_filter, splits_documents
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import LANGUAGES
from clew.core.lru import LRUCache
from clew.core.protocols import Embedder, Mode
from clew.core.report import Purge
from clew.core.settings import StoreConfig
from clew.core.stored import NewDocument, StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.thread import ThreadEdit
from clew.core.types import Chunk, Document, Hit, Matrix, StoreStats, TermMatch, Vector
from clew.drivers.store import checks, embed, inspection, read, write
from clew.drivers.store.backend import (
    CHUNK,
    DOCUMENT,
    Backend,
    Effort,
    Head,
    NamedRows,
    Queries,
    RowCandidates,
    RowScores,
    Snapshot,
    T,
    Transaction,
    Values,
    select,
)
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.filtered import FilteredBackend
from clew.drivers.store.named import JobQueue, NamedRecords, NamedSessions, claim_documents, has_claims
from clew.drivers.store.rows import hash_terms, make_entries, make_new_entries, pack_terms

DEFAULTS: Final = StoreConfig()
P = ParamSpec("P")
MAX_HITS = 8192  # cached for the next search
MAX_VIEWS = 8  # cached stores within a filter, each with its cached parts of documents
MAX_LANGUAGE = 2_000  # chunks of a language to count: enough to find the main languages
_CODES = (*sorted(LANGUAGES), UNKNOWN)
LANGUAGE_TERMS = tuple(map(make_language_term, _CODES))
MAX_ATTEMPTS = 100  # of a search whose chunks are removed before they are read


class HitCache:
    """A cache of recent hits by row, without scores; any change of the collection clears it.

    whole: The cache of the store that this one is a view of; both are cleared together.
    """

    def __init__(self, backend: Backend, whole: "HitCache | None" = None) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._hits: dict[int, Hit] = {}
        self._clears: list[int] = [0] if whole is None else whole._clears
        self._state: tuple[Head, int] | None = None

    def load(self, head: Head, rows: Sequence[int]) -> dict[int, Hit]:
        """Load the hits in some rows, without those removed meanwhile."""
        with self._lock:
            if self._state != (head, self._clears[0]):
                self._hits, self._state = {}, (head, self._clears[0])
            cached = self._hits
        with suppress(KeyError):
            return {row: cached[row] for row in rows}
        loaded = {row: hit for row in rows if (hit := cached.get(row))}
        with self._backend.read(head) as snapshot:  # a newer state may be cached: reading again would give the same
            fresh = read.read_hits(snapshot, [row for row in rows if row not in loaded])
        if len(cached) + len(fresh) > MAX_HITS:
            cached.clear()
        cached.update(fresh)
        return loaded | fresh

    def clear(self) -> None:
        """Clear the cache, after a write that does not change the change number."""
        self._clears[0] += 1


class CountedRows:
    """Named values that count as content: each write increases the change number, so that a lost log is noticed."""

    def __init__(self, backend: Backend, kind: str) -> None:
        self._backend, self._rows = backend, backend.named(kind)
        self.read, self.purge, self.clock = self._rows.read, self._rows.purge, self._rows.clock

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes values, then increase the change number."""

        def count(tx: Transaction) -> None:
            tx.head = replace(tx.head, change=tx.head.change + 1)

        result = self._rows.change(decide, names)
        self._backend.write(count, is_change=False)
        return result


def _read_state(read: Callable[Concatenate[Snapshot, P], T]) -> Callable[Concatenate["Store", P], T]:
    """Turn a function on a snapshot into a method that reads the current state."""

    @wraps(read)
    def method(store: "Store", /, *args: P.args, **options: P.kwargs) -> T:
        with store._backend.read() as snapshot:
            return read(snapshot, *args, **options)

    return method


def _hand_on(function: Callable[Concatenate[Backend, P], T]) -> Callable[Concatenate["Store", P], T]:
    """Turn a function on a backend into a method of the store."""

    @wraps(function)
    def method(store: "Store", /, *args: P.args, **options: P.kwargs) -> T:
        return function(store._backend, *args, **options)

    return method


class Store:
    """The documents of one collection with their chunks, vectors and terms, and search over the chunks.

    Rules for every method: a write is atomic, and visible to the very next search in any process. Nothing outside a
    filter is returned. `k` < 1 and an empty store return nothing. Several threads may call all methods. A failure
    raises DriverFailed, as does every use after `close`; it never looks like "nothing found". ModelSwitched is raised
    once another process has switched the collection to another embedder. `SearchableStore` and `WritableStore` of
    clew.core.protocols document most methods.

    whole: The store of the whole collection; itself, unless it is within a filter.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._hits = HitCache(backend)
        self._where = EVERYTHING
        self.whole = self
        self._views: LRUCache[Store] = LRUCache(MAX_VIEWS)
        self._languages: LRUCache[dict[str, int]] = LRUCache(1)  # by change number
        self._holds_state = False
        self._state: Head | None = None  # held from the first read on

    @property
    def jobs(self) -> JobQueue:
        """The job queue of the collection."""
        return JobQueue(self._backend.named("jobs"))

    @property
    def sessions(self) -> NamedSessions:
        """The sessions stored with the collection."""
        return NamedSessions(self._backend.named("sessions"))

    @property
    def records(self) -> NamedRecords:
        """Tuned settings, runs of evaluations and feedback."""
        return NamedRecords(self._backend)

    @property
    def keys(self) -> NamedRows:
        """The keys of a server; changing one increases the change number."""
        return CountedRows(self._backend, "keys")

    def within(self, where: Filter) -> "Store":
        """Return a read-only view of the store through a filter; no method shows anything else.

        A document with hidden chunks appears to have only the others, and no summary. Statistics (`count_terms`,
        `match_terms`, `language_counts`, `calibration`) come from the whole collection. Close only the whole store.
        """
        whole, where = self.whole, self._where & where
        if where is self._where:
            return self
        key = (expand_filter(where), expand_document_filter(where)) if splits_documents(where) else None
        view = whole._views.get(key) if key else None
        if view is None:
            view = Store(FilteredBackend(whole._backend, where))
            view._where, view.whole, view._languages = where, whole, whole._languages
            if key:
                view._hits = HitCache(view._backend, whole._hits)
                whole._views.put(key, view)
            else:  # hits are not redacted
                view._hits = whole._hits
        return view

    def at_one_state(self) -> "Store":
        """Return the same store for one search: it reads the head once, and again only if found rows are removed."""
        if self._holds_state:
            return self
        held = copy(self)
        held._holds_state = True
        return held

    def _read_head(self, *, is_anew: bool = False) -> Head:
        """Return the current head, or the held one of a store at one state, unless `is_anew`."""
        if self._state is not None and not is_anew:
            return self._state
        head = self._backend.head()
        if self._holds_state:
            self._state = head
        return head

    # -- changes

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
        """Replace a document and all its chunks, atomically; ConcurrentChange if its text is not `expected_text`."""
        new = make_new_entries(NewDocument(document, chunks, vectors, terms, summary_vector), self._backend.dim)
        vector = new.summary_vector
        self._backend.write(
            lambda tx: write.put_document(tx, document, new.entries, expected_text=expected_text, summary_vector=vector)
        )

    def put_many(self, documents: Sequence[NewDocument | StoredDocument]) -> None:
        """Replace documents and all their chunks in one transaction."""
        made = [make_new_entries(each, self._backend.dim) for each in documents]
        self._backend.write(lambda tx: write.put_documents(tx, made))

    def edit_threads(self, edits: Sequence[ThreadEdit]) -> None:
        """Edit threads in one transaction; ConcurrentChange if one has changed since it was read."""
        dim = self._backend.dim
        made = [
            (e, make_entries(e.document, e.chunks, checks.check_vectors(e.vectors, e.chunks, e.terms, dim), e.terms))
            for e in edits
        ]
        self._backend.write(lambda tx: write.edit_threads(tx, made))

    def summarise(
        self, doc_id: str, summary: str, vector: Vector | None = None, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Set a document's summary, its author and its vector; without a vector it is pending."""
        checked = None if vector is None else checks.check_vector(vector, self._backend.dim)
        columns = {"summary": summary, "summary_by": by, "vector": checked}
        self._backend.write(lambda tx: write.change_named_document(tx, doc_id, expected_text=expected_text, **columns))

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Set the stamp of a document whose file was touched but not changed; the change number stays the same."""
        self._backend.write(lambda tx: write.set_stamp(tx, doc_id, stamp), is_change=False)
        self._hits.clear()

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Remove documents with everything that belongs to them; return how many existed."""
        return self._backend.write(lambda tx: write.drop_documents(tx, doc_ids))

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claim the documents that nobody else has claimed, for `seconds`; return their ids."""
        with self._backend.read() as snapshot:
            found = snapshot.find(select(DOCUMENT, id=set(doc_ids)), ("row", "id"))
        ids = {str(row): doc_id for row, doc_id in found}  # claim row numbers, so that no id outlives an erasure
        free = claim_documents(self._backend.named("claims"), ids, owner=owner, seconds=seconds)
        return {ids[number] for number in free}

    # -- staged vectors

    def staged_model(self) -> StagedModel | None:
        """Return the model of the staged vectors, if there are any."""
        return self._read_head().staged

    stage_vectors = _hand_on(embed.stage_vectors)
    embed_pending = _hand_on(embed.embed_pending)
    at_work = _hand_on(embed.Work)
    discard_staged = _hand_on(embed.discard_staged_vectors)

    def switch_to_staged(self, embedder: Embedder) -> "Store":
        """Swap the active vectors with the staged ones; return the store opened for the new model.

        Missing vectors are made first. This store, and everybody else who has the collection open, raises ModelSwitched
        from then on.
        """
        embed.switch_to_staged_model(self._backend, embedder)
        return self.with_model_in_use(embedder)

    def with_model_in_use(self, embedder: Embedder) -> "Store":
        """Reopen the collection after its switch to this model, and return the new store.

        The new store takes over the connections: do not use this one any more. StoreMismatch if the collection has
        another model.
        """
        return Store(self._backend.reopen(embedder))

    # -- reads, each from one snapshot, except iterations over the whole collection

    document = _read_state(read.read_document)
    documents = _read_state(read.list_records)
    files = _read_state(read.list_files)
    thread_part = _read_state(read.read_thread_part)
    waiting_messages = _read_state(read.find_waiting_messages)
    chunks = _read_state(read.read_document_chunks)
    chunks_by_id = _read_state(read.read_chunks_by_id)
    latest_chunks = _read_state(read.read_latest_chunks)
    channels = _read_state(read.list_channels)
    threads = _hand_on(read.read_threads)
    stored_documents = _hand_on(read.read_stored_documents)
    scan = _hand_on(read.scan_chunks)

    # -- searches

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the existing chunks."""
        return self._backend.index.vectors(self._read_head(), chunk_ids)

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """Find the k chunks with the highest cosine, best first, ties by id."""
        checked, nearest = checks.check_vector(vector, self._backend.dim), self._backend.index.nearest
        where, effort = self._where & where, Effort(mode == "exact", breadth)
        return self._read_found(lambda head: nearest(head, checked, k, where, effort), k)

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """Find the k chunks with the highest BM25 score, best first, ties by id."""
        packed, matching, where = pack_terms(terms), self._backend.index.matching, self._where & where
        return self._read_found(lambda head: matching(head, packed, k, where), k) if len(packed.hashes) else []

    def _read_found(self, search: Callable[[Head], RowScores], k: int) -> list[Hit]:
        """Read the hits of a search, searching again if found rows are removed before they are read."""

        def read(head: Head) -> list[Hit]:
            if k < 1 or not head.chunks:
                return []
            found = search(head)
            loaded = self._hits.load(head, [row for row, _ in found])
            hits = _get_all(loaded, [row for row, _ in found])
            return [Hit(hit.chunk, hit.document, score) for hit, (_, score) in zip(hits, found, strict=True)]

        return self._repeat(read)[1]

    def _repeat(self, search: Callable[[Head], T]) -> tuple[Head, T]:
        """Search, retrying while found rows are removed before they are read; return the head and the result."""
        for attempt in range(MAX_ATTEMPTS):
            head = self._read_head(is_anew=attempt > 0)
            try:
                return head, search(head)
            except Gone as error:
                if self._backend.head().change == head.change:
                    raise damaged_error("the table of the chunks") from error
        raise DriverFailed("the collection changed faster than it could be searched; try again")

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
        """Find the candidates of each query, searching again if found rows are removed meanwhile."""
        for vector in vectors:
            checks.check_vector(vector, self._backend.dim)
        bounded = [each._replace(where=self._where & each.where) for each in rankings]
        if chunk_ids and self._where is not EVERYTHING:
            chunk_ids = list(self.chunks_by_id(chunk_ids))  # the index would find hidden ones, too
        packed, matrix = [pack_terms(each) for each in terms], np.ascontiguousarray(vectors, np.float32)
        queries = Queries(matrix, packed, bounded, chunk_ids, Effort(mode == "exact", breadth))
        head, found = self._repeat(lambda head: self._backend.index.candidates(head, queries))
        hits = self.within(shown)._hits
        return [self._read_later(head, each, hits) for each in found]

    def _read_later(self, head: Head, of: RowCandidates, hits: HitCache) -> Candidates:
        """Make candidates whose hits are read on demand."""

        def read_hits(places: Sequence[int]) -> list[Hit]:
            wanted = [of.rows[place] for place in places]
            return _get_all(hits.load(head, list(dict.fromkeys(wanted))), wanted)

        def read_threads(places: Sequence[int]) -> list[ThreadPlace]:
            wanted = [of.rows[place] for place in places]
            with self._backend.read(head) as snapshot:
                found = read.read_thread_places(snapshot, wanted)
            return _get_all(found, wanted)

        columns = of.near, of.matching, of.by_words, of.cosines, of.shares, of.strengths
        return Candidates(of.ids, of.is_message, *columns, read_hits, read_threads)

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """Find the k documents whose summary has the highest cosine: (id, cosine), best first, ties by id.

        Skip partly hidden documents, since a summary describes the whole.
        """
        checked, where, wanted = checks.check_vector(vector, self._backend.dim), self._where & where, k
        while k > 0:
            near = self._backend.index.nearest_documents(self._read_head(), checked, wanted, where)
            found = self._keep_whole(near)
            if len(found) >= k or len(near) < wanted:
                return found[:k]
            wanted *= 4
        return []

    def _keep_whole(self, near: list[tuple[str, float]]) -> list[tuple[str, float]]:
        if not isinstance(self._backend, FilteredBackend) or not self._backend.splits:
            return near
        wanted = select(DOCUMENT, id={doc_id for doc_id, _ in near})
        with self._backend.read() as snapshot:
            found = snapshot.find(wanted, ("row", "id"))
            whole = {doc_id for row, doc_id in found if not snapshot.shows_part(row)}
        return [(doc_id, score) for doc_id, score in near if doc_id in whole]

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """Return how well the existing chunks match the terms of a query, by id."""
        nothing = np.zeros((1, self._backend.dim), np.float32)
        queries = Queries(nothing, [pack_terms(terms)], (), chunk_ids)
        _, (found,) = self._repeat(lambda head: self._backend.index.candidates(head, queries))
        matches = map(TermMatch, found.shares.tolist(), found.strengths.tolist())
        return dict(zip(found.ids, matches, strict=True))

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """Count, for each term, the chunks of the whole collection that have it, up to `at_most`."""
        return self._backend.index.count_having(self._read_head(), hash_terms(terms), at_most)

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """Count the chunks in each language, as of the last change: up to MAX_LANGUAGE, or `exact`."""
        change = str(self.change_number())
        counts = None if exact else self._languages.get(change)
        if counts is None:  # every chunk has a term for its language
            found = self.count_terms(LANGUAGE_TERMS, at_most=None if exact else MAX_LANGUAGE)
            counts = {code: count for code, count in zip(_CODES, found, strict=True) if count}
            if not exact:
                self._languages.put(change, counts)
        return dict(counts)

    # -- the collection

    inspect = _hand_on(inspection.inspect_collection)
    repair = _hand_on(inspection.repair_collection)

    def calibration(self) -> str:
        """Return the stored calibration text, or an empty one."""
        return str(self.whole._backend.named("calibration").read().get("", ""))

    def set_calibration(self, text: str) -> None:
        """Store the calibration text; the change number grows."""
        CountedRows(self._backend, "calibration").change(lambda values: values.update({"": text}))

    def counts(self) -> StoreStats:
        """Return counts, the embedder, and a number that grows with every change."""
        head = self._read_head()
        documents, chunks, pending = head.documents, head.chunks, head.pending
        if self._where is not EVERYTHING:
            documents, chunks = (sum(1 for _ in each) for each in (self.documents(), self.scan()))
            with self._backend.read() as snapshot:
                pending = len(snapshot.find(select(CHUNK, pending=[1]), ("row",)))
        return StoreStats(documents, chunks, head.embedder, head.dim, head.change, pending=pending)

    def stats(self) -> StoreStats:
        """Return the counts, the kind of the index, the bytes on disk, and whether vectors are being made."""
        kind, size = self._backend.describe()
        is_embedding = has_claims(self.whole._backend.named("claims"), embed.PENDING)
        return replace(self.counts(), index=kind, bytes=size, is_embedding=is_embedding)

    def describe_pending(self) -> str:
        """Describe how many chunks are searchable by meaning; empty if all are."""
        counts = self.counts() if self._read_head().pending else None
        return counts.describe_pending() if counts and counts.pending else ""

    def change_number(self) -> int:
        """Return the number of the last change."""
        return self._read_head().change

    def flush(self, *, with_graph: bool = True) -> None:
        """Write everything to disk and optimise the index; with `with_graph=False`, build no new graph."""
        self._backend.flush(with_graph=with_graph)

    def maintain(self) -> list[str]:
        """Remove the remains of deleted rows and old versions, maintain the indexes, and describe what was done.

        This may take long; others can search and write meanwhile. Results do not change.
        """
        return self._backend.maintain()

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Return free space to the file system; return problems, or None if less than `min_share` is free."""
        return self._backend.reclaim_room(min_share)

    def purge(self) -> Purge:
        """Overwrite deleted content on disk; return what was done and what must be repeated.

        Others may read and write meanwhile, or wait for it. The next `flush` or search rebuilds the index.
        """
        return self._backend.compact()

    def notes(self) -> list[str]:
        """Describe, in sentences, what `purge` cannot reach: backups, logs of a server."""
        return self._backend.notes()

    def close(self) -> None:
        """Release all resources; closing twice is allowed."""
        self._backend.close()


def _get_all(found: Mapping[int, T], rows: Sequence[int]) -> list[T]:
    """Return the values of these rows; Gone if one is missing."""
    try:
        return [found[row] for row in rows]
    except KeyError as error:
        raise Gone(f"row {error}") from error


def make_opener(open_backend: Callable[P, Backend]) -> Callable[P, Store]:
    """Make a function that opens the store of a collection over a kind of backend, creating it if necessary."""
    return lambda *args, **options: Store(open_backend(*args, **options))
