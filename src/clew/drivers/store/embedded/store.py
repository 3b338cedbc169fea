"""The embedded store: a folder with one collection, the database that is its source of truth and an index over it."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import numpy as np

from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Embedder, Eraser
from clew.core.settings import StoreConfig
from clew.core.stored import NewDocument, StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.types import Chunk, Document, DocumentRecord, Matrix, Section, StoreStats, Vector
from clew.drivers.store import checks
from clew.drivers.store.batches import scan_chunks
from clew.drivers.store.embedded import claims, put, read, staged, write
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.eraser import EmbeddedEraser, measure_free_share, rewrite_database
from clew.drivers.store.embedded.folder import measure_disk_usage
from clew.drivers.store.embedded.hits import HitCache
from clew.drivers.store.embedded.inspect import InspectMethods
from clew.drivers.store.embedded.jobs import EmbeddedJobs
from clew.drivers.store.embedded.manager import IndexManager
from clew.drivers.store.embedded.search_methods import SearchMethods
from clew.drivers.store.embedded.sessions import EmbeddedSessions
from clew.drivers.store.embedded.stored import read_stored_documents
from clew.drivers.store.embedded.term_counts import TermCounts
from clew.drivers.store.embedded.thread_methods import ThreadMethods
from clew.drivers.store.embedded.upkeep import IndexUpkeep
from clew.drivers.store.entries import DocumentEntries, make_entries, make_entries_from_stored, make_new_entries
from clew.drivers.store.jobs import SqlJobQueue


class EmbeddedStore(SearchMethods, ThreadMethods, InspectMethods, TermCounts):
    """One collection in a folder, or in memory where the folder is None. Several threads may use it."""

    def __init__(
        self,
        folder: Path | None,
        *,
        embedder: str,
        dim: int,
        config: StoreConfig = StoreConfig(),  # noqa: B008
    ) -> None:
        self._folder = folder
        self._config = config
        self._use_database(Database(folder, embedder=embedder, dim=dim))

    def _use_database(self, database: Database) -> None:
        self._database = database
        self._indexes = IndexManager(database, self._folder, self._config)
        self._upkeep = IndexUpkeep(self._indexes, database)
        self._hits = HitCache(database)
        self.jobs = SqlJobQueue(EmbeddedJobs(database))
        self._summaries = read.Summaries(-1, {}, [], np.empty((0, database.dim), np.float32))

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
        entries = make_new_entries(NewDocument(document, chunks, vectors, terms, summary_vector), self._database.dim)
        with self._grow() as db:
            if expected_text is not None:
                checks.check_text_unchanged(document.id, expected_text, write.read_document_text(db, document.id))
            put.put_documents(db, [entries])

    def put_many(self, documents: Sequence[NewDocument]) -> None:
        """Replaces documents and all their chunks as one change: all of them or none."""
        made = [make_new_entries(each, self._database.dim) for each in documents]
        with self._grow() as db:
            put.put_documents(db, made)

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
        matrix = checks.check_vectors(vectors, chunks, terms, self._database.dim)
        with self._grow() as db:
            appended = write.prepare_append(db, doc_id, text, sections)
            write.append_to_document(db, appended, make_entries(appended, chunks, matrix, terms))

    def summarise(
        self, doc_id: str, summary: str, vector: Vector, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Sets a document's summary, the summary's vector and who made it."""
        checked = checks.check_vector(vector, self._database.dim)
        with self._database.write_transaction() as db:
            write.set_summary(db, doc_id, summary, checked, by=by, expected_text=expected_text)

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claims the documents that nobody else has claimed, for so many seconds; the ids of those."""
        with self._database.write_transaction() as db:
            return claims.claim_documents(db, doc_ids, owner=owner, seconds=seconds)

    def put_stored(self, stored: StoredDocument) -> None:
        """Replaces a document by one from another store, atomically."""
        stored = checks.check_stored_document(stored, self._database.dim)
        entries = DocumentEntries(stored.document, make_entries_from_stored(stored), stored.summary_vector)
        with self._grow() as db:
            put.put_documents(db, [entries])
            if stored.summary_vector is None:
                write.clear_summary_vector(db, stored.document.id)

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with everything stored of it, in batches, in the order they were added."""
        return read_stored_documents(self._database, doc_ids)

    def staged_model(self) -> StagedModel | None:
        """The model of the staged vectors, if there are any."""
        with self._database.reader as db:
            return staged.read_staged_model(db)

    def stage_vectors(self, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None) -> int:
        """Makes the vectors of another model that are missing, beside those in use; how many were made."""
        return staged.stage_vectors(self._database, embedder, on_progress)

    def switch_to_staged(self, embedder: Embedder) -> "EmbeddedStore":
        """The same collection with the staged vectors in use; those used so far are then the staged ones.

        Other openers get StoreMismatch until they open it again. The next search or flush builds the new index.
        """
        other = copy(self)
        other._use_database(staged.switch_to_staged_model(self._database, embedder))
        self._close_index()
        return other

    def with_model_in_use(self, embedder: Embedder) -> "EmbeddedStore":
        """The same collection for the model that another has switched it to meanwhile."""
        other = copy(self)
        other._use_database(self._database.reopen_for_model_in_use(embedder))
        self._close_index()
        return other

    def discard_staged(self) -> bool:
        """Deletes the staged vectors; whether there were any."""
        with self._database.write_transaction() as db:
            return staged.discard_staged_vectors(db)

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Rewrites the database without free pages, where these are such a share of it; what could not be done."""
        if self._folder is None:
            return None
        with self._database.reader as db:
            share = measure_free_share(db, self._folder)
        return rewrite_database(self._folder) if share >= min_share else None

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Sets the stamp of a document whose file was touched but not changed; the change number stays."""
        with self._database.write_transaction() as db:
            db.execute("UPDATE documents SET stamp = ? WHERE id = ?", (stamp, doc_id))
        self._hits.clear()

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with everything that belongs to them; how many existed."""
        with self._database.write_transaction() as db:
            return write.drop_documents(db, doc_ids)

    def eraser(self) -> Eraser:
        """What takes deleted content from the disk."""
        return EmbeddedEraser(self._database, self._folder, self._indexes)

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        with self._database.reader as db:
            return read.read_document(db, doc_id)

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""
        with self._database.reader as db:
            return read.list_records(db, where)

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        with self._database.reader as db:
            return read.read_document_chunks(db, doc_id)

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that exist, by id."""
        with self._database.reader as db:
            return read.read_chunks_by_id(db, chunk_ids)

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        with self._database.reader as db:
            return read.read_latest_chunks(db, channel, k)

    def channels(self) -> list[str]:
        """The channels that have chunks, by name."""
        with self._database.reader as db:
            return read.list_channels(db)

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """Every chunk that a filter admits, by document id and index, read in batches."""
        return scan_chunks(read.FilteredChunks(self._database, where))

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        return self._indexes.get_vectors(self._database.read_state(), chunk_ids)

    def calibration(self) -> str:
        """The text about the collection that was kept last, or an empty one."""
        with self._database.reader as db:
            return read.read_calibration(db)

    def set_calibration(self, text: str) -> None:
        """Keeps a text about the collection; the change number grows."""
        with self._database.write_transaction() as db:
            write.set_calibration(db, text)

    @property
    def sessions(self) -> EmbeddedSessions:
        """The sessions that are kept with the collection."""
        return EmbeddedSessions(self._database)

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change."""
        state, database = self._database.read_state(), self._database
        size, index = measure_disk_usage(self._folder) if self._folder else 0, self._indexes.get_index_name(state)
        return StoreStats(state.documents, state.chunks, database.embedder, database.dim, state.change, index, size)

    def change_number(self) -> int:
        """The number of the last change."""
        return self._database.read_state().change

    def flush(self, *, with_graph: bool = True) -> None:
        """Returns when all that was put is safe on disk and the index is in its best shape.

        After little was put by a process that also searches, the graph is left to a thread.
        """
        if with_graph and self._upkeep.start_after_little(self._database.read_state()):
            self._database.flush()
        else:
            self._flush(with_graph=with_graph)

    def _flush(self, *, with_graph: bool = True) -> None:
        self._upkeep.flush(self._database.read_state(), with_graph=with_graph)
        with self._database.write_transaction() as db:
            write.prune_tombstones(db)  # after the index has followed
        self._database.flush()

    def maintain(self) -> list[str]:
        """Brings the index into its best shape; what was done. Nothing else needs it: SQLite uses freed pages again."""
        self._flush()
        return [f"index kept up: {self.stats().index}"]

    def close(self) -> None:
        """Closes the index and the database; a closed store raises when it is used."""
        self._close_index()
        self._database.close()

    def _close_index(self) -> None:
        self._upkeep.stop()
        self._indexes.close()

    @contextmanager
    def _grow(self) -> Iterator[sqlite3.Connection]:
        """A write transaction after which the index is kept up, if that is due."""
        with self._database.write_transaction() as db:
            yield db
        self._upkeep.start(self._database.read_state())
