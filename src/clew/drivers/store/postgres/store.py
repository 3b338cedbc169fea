"""The server store: one collection of a PostgreSQL database, which is the source of truth and the index at once."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

from psycopg import Connection

from clew.core.facets import expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Embedder, Eraser
from clew.core.settings import StoreConfig
from clew.core.stored import NewDocument, StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.types import Chunk, Document, DocumentRecord, Matrix, Section, StoreStats, Vector
from clew.drivers.store import checks
from clew.drivers.store.batches import scan_chunks
from clew.drivers.store.entries import make_entries, make_entries_from_stored, make_new_entries
from clew.drivers.store.jobs import SqlJobQueue
from clew.drivers.store.postgres import claims, read, staged, stored, write
from clew.drivers.store.postgres.connect.errors import translate_errors
from clew.drivers.store.postgres.connect.planner import use_generic_plans
from clew.drivers.store.postgres.connect.pool import Pool, check_pooler
from clew.drivers.store.postgres.connect.setup import open_collection
from clew.drivers.store.postgres.eraser import PostgresEraser
from clew.drivers.store.postgres.inspect import InspectMethods
from clew.drivers.store.postgres.jobs import PostgresJobs
from clew.drivers.store.postgres.records import PostgresRecords
from clew.drivers.store.postgres.search import graph
from clew.drivers.store.postgres.search.nearest import NearestSearch
from clew.drivers.store.postgres.search_methods import SearchMethods
from clew.drivers.store.postgres.sessions import PostgresSessions
from clew.drivers.store.postgres.thread_methods import ThreadMethods
from clew.drivers.store.postgres.upkeep import UpkeepMethods


class PostgresStore(ThreadMethods, SearchMethods, InspectMethods, UpkeepMethods):
    """One collection on a server. Several threads, programs and machines may use it at once.

    With `config.access` the server shows it what these labels admit, and it only reads.
    """

    def __init__(
        self,
        url: str,
        *,
        collection: str,
        embedder: str,
        dim: int,
        config: StoreConfig = StoreConfig(),  # noqa: B008
    ) -> None:
        self._dim, self._config = dim, config
        self._collection = open_collection(
            url, collection=collection, embedder=embedder, dim=dim, is_half=config.vectors == "half"
        )
        self._number = self._collection.number
        self._pool = Pool(url, collection, access=config.access, pooler=check_pooler(config.pooler))
        self._nearest = NearestSearch(self._collection, config.exact_below)
        self.jobs = SqlJobQueue(PostgresJobs(self._pool, self._number))

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
        """Replaces a document and all its chunks, atomically; ConcurrentChange unless its text is the expected one."""
        made = make_new_entries(NewDocument(document, chunks, vectors, terms, summary_vector), self._dim)
        self._pool.run_transaction(
            lambda connection: write.put_documents(connection, self._collection, [made], expected_text=expected_text),
            plan=use_generic_plans,
        )

    def put_many(self, documents: Sequence[NewDocument]) -> None:
        """Replaces documents and all their chunks, all of them or none."""
        made = [make_new_entries(each, self._dim) for each in documents]
        self._pool.run_transaction(
            lambda connection: write.put_documents(connection, self._collection, made), plan=use_generic_plans
        )

    def append(
        self,
        doc_id: str,
        text: str,
        sections: Sequence[Section],
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
    ) -> None:
        """Extends a document at its end, atomically, at a cost that does not grow with the document."""
        matrix = checks.check_vectors(vectors, chunks, terms, self._dim)

        def append(connection: Connection) -> None:
            appended = write.prepare_append(connection, self._number, doc_id, text, sections)
            write.append_to_document(
                connection, self._collection, appended, make_entries(appended, chunks, matrix, terms)
            )

        self._pool.run_transaction(append, plan=use_generic_plans)

    def summarise(
        self, doc_id: str, summary: str, vector: Vector, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Sets a document's summary, the summary's vector and who made it."""
        checked, of = checks.check_vector(vector, self._dim), self._collection
        self._pool.run_transaction(
            lambda connection: write.set_summary(
                connection, of, doc_id, summary, checked, by=by, expected_text=expected_text
            )
        )

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claims the documents that nobody else has claimed, for so many seconds; the ids of those."""
        return self._pool.run_transaction(
            partial(claims.claim_documents, number=self._number, doc_ids=doc_ids, owner=owner, seconds=seconds)
        )

    def put_stored(self, stored: StoredDocument) -> None:
        """Replaces a document by one from another store, atomically."""
        checked = checks.check_stored_document(stored, self._dim)
        entries = make_entries_from_stored(checked)

        def put(connection: Connection) -> None:
            write.put_stored_document(connection, self._collection, checked, entries)

        self._pool.run_transaction(put, plan=use_generic_plans)

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with everything stored of it, in batches, in the order they were added."""
        after, dim = 0, self._dim
        while True:
            read_next = partial(
                stored.read_stored_batch, collection=self._collection, after=after, doc_ids=doc_ids, dim=dim
            )
            after, batch = self._pool.run_read(read_next)
            if not batch:
                return
            yield from batch

    def staged_model(self) -> StagedModel | None:
        """The model of the staged vectors, if there are any."""
        return self._pool.run_read(lambda connection: staged.read_staged_model(connection, self._number))

    def stage_vectors(self, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None) -> int:
        """Makes the vectors of another model that are missing, beside those in use; how many were made."""
        return staged.stage_vectors(self._pool, self._collection, embedder, on_progress)

    def switch_to_staged(self, embedder: Embedder) -> "PostgresStore":
        """The same collection with the staged vectors in use; those used so far are then the staged ones.

        Other openers get StoreMismatch until they open it again. Searches are exact until the next flush has built the
        graph.
        """
        with translate_errors(self._pool.place), self._pool.open_connection() as connection:
            for table in ("signals", "summaries"):
                graph.drop_graph(connection, table, self._number)
            self._pool.run_transaction(lambda pooled: staged.switch_to_staged_model(pooled, self._collection, embedder))
        return self.with_model_in_use(embedder)

    def with_model_in_use(self, embedder: Embedder) -> "PostgresStore":
        """The same collection for the model that another has switched it to meanwhile."""
        other = copy(self)
        other._dim, other._collection = embedder.dim, replace(self._collection, embedder=embedder.name)
        other._nearest = NearestSearch(other._collection, self._config.exact_below)
        return other

    def discard_staged(self) -> bool:
        """Deletes the staged vectors; whether there were any."""
        return self._pool.run_transaction(
            lambda connection: staged.discard_staged_vectors(connection, self._collection)
        )

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Sets the stamp of a document whose file was touched but not changed; the change number stays."""
        sql = "UPDATE documents SET stamp = %s WHERE collection = %s AND id = %s"
        self._pool.run_transaction(lambda connection: connection.execute(sql, (stamp, self._number, doc_id)))

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with everything that belongs to them, in batches; how many existed."""
        ids, dropped = sorted(set(doc_ids)), 0
        for start in range(0, len(ids), write.DROP_BATCH):
            batch = ids[start : start + write.DROP_BATCH]
            dropped += self._pool.run_transaction(
                partial(write.drop_documents, collection=self._collection, doc_ids=batch)
            )
        return dropped

    def eraser(self) -> Eraser:
        """What takes deleted content from the tables."""
        return PostgresEraser(self._pool, self._number)

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        return self._pool.run_read(lambda connection: read.read_document(connection, self._number, doc_id))

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""
        return self._pool.run_read(lambda connection: read.list_records(connection, self._number, where))

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        limited = self._config.access is not None
        return self._pool.run_read(
            lambda connection: read.read_document_chunks(connection, self._number, doc_id, is_limited=limited)
        )

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that exist, by id."""
        return self._pool.run_read(lambda connection: read.read_chunks_by_id(connection, self._number, chunk_ids))

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        return self._pool.run_read(lambda connection: read.read_latest_chunks(connection, self._number, channel, k))

    def channels(self) -> list[str]:
        """The channels that have chunks, by name."""
        return self._pool.run_read(lambda connection: read.list_channels(connection, self._number))

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """Every chunk that a filter admits, by document id and index, read in batches."""
        if not expand_filter(where):
            return iter(())
        return scan_chunks(read.FilteredChunks(self._pool, self._number, where))

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        return self._pool.run_read(
            lambda connection: read.read_vectors_by_chunk_id(connection, self._collection, chunk_ids)
        )

    def calibration(self) -> str:
        """The text about the collection that was kept last, or an empty one."""
        return self._pool.run_read_with_own_plan(lambda connection: read.read_calibration(connection, self._number))

    def set_calibration(self, text: str) -> None:
        """Keeps a text about the collection; the change number grows."""
        self._pool.run_transaction(lambda connection: write.set_calibration(connection, self._collection, text))

    @property
    def sessions(self) -> PostgresSessions:
        """The sessions that are kept with the collection."""
        return PostgresSessions(self._pool, self._number)

    @property
    def records(self) -> PostgresRecords:
        """Tuned settings, runs of evaluations and feedback, kept with the collection."""
        return PostgresRecords(self._pool, self._number)

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change; the bytes are its share of the tables."""
        state = self._pool.run_read(lambda connection: graph.read_graph_state(connection, self._number))
        size = self._pool.run_read(lambda connection: read.estimate_disk_usage(connection, self._number, state.chunks))
        uses_graph = state.has_chunk_graph and state.chunks >= self._config.exact_below
        index = "pgvector HNSW, half precision" if uses_graph else "exact, in PostgreSQL"
        embedder = self._collection.embedder
        return StoreStats(state.documents, state.chunks, embedder, self._dim, state.change, index, size)

    def change_number(self) -> int:
        """The number of the last change."""
        found = self._pool.fetch_rows("SELECT change FROM collections WHERE number = %s", (self._number,))
        return int(found[0][0]) if found else 0

    def close(self) -> None:
        """Closes all connections; a closed store raises when it is used."""
        self._pool.close()
