"""The Lance store: one collection as Lance datasets in a folder or in object storage, for readers anywhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from clew.core.facets import expand_document_filter, expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import Embedder, Mode
from clew.core.settings import StoreConfig
from clew.core.stored import NewDocument, StagedModel, StoredDocument
from clew.core.text import Terms
from clew.core.time import parse_iso_or_none
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Matrix, Section, StoreStats, TermMatch, Vector
from clew.drivers.store import checks
from clew.drivers.store.batches import scan_chunks
from clew.drivers.store.entries import make_entries, make_entries_from_stored, make_new_entries
from clew.drivers.store.jobs import SqlJobQueue
from clew.drivers.store.lance import indexes, read, search, staged, write
from clew.drivers.store.lance.address import parse_address
from clew.drivers.store.lance.collections import BESIDE, measure_bytes, open_content_table, open_entries, open_names
from clew.drivers.store.lance.content import Content, Draft
from clew.drivers.store.lance.eraser import LanceEraser
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.inspect import InspectMethods
from clew.drivers.store.lance.jobs import LanceJobs
from clew.drivers.store.lance.records import LanceRecords
from clew.drivers.store.lance.sessions import LanceSessions, claim_documents
from clew.drivers.store.lance.threads import ThreadMethods
from clew.drivers.store.lance.upkeep import UpkeepMethods
from clew.drivers.store.languages import LanguageMethods
from clew.drivers.store.term_ids import hash_terms


class LanceStore(ThreadMethods, InspectMethods, LanguageMethods, UpkeepMethods):
    """One collection. Several threads, programs and machines may use it at once.

    With `config.as_of` it shows the version of that time, and only reads.
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
        self._url, self._collection, self._config = url, collection, config
        self._address = parse_address(url)
        table = open_content_table(self._address, collection)
        exact_below, as_of = config.exact_below, parse_iso_or_none(config.as_of)
        is_half = config.vectors == "half"
        self._content = Content(
            table, embedder=embedder, dim=dim, exact_below=exact_below, as_of=as_of, is_half=is_half
        )
        self._entries = {name: open_entries(self._address, collection, name) for name in BESIDE}
        self._content.open()
        if as_of is None:
            self._register()
        self.jobs = SqlJobQueue(LanceJobs(self._entries["jobs"], self._content.check_writable))

    def _register(self) -> None:
        """Writes the name of the collection where those of all are, unless it is there."""
        names = open_names(self._address)
        if self._collection not in names.read():
            names.change(lambda known: known.setdefault(self._collection, True))

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
        dim = self._content.dim
        entries = make_entries(document, chunks, checks.check_vectors(vectors, chunks, terms, dim), terms)
        vector = None if summary_vector is None else checks.check_vector(summary_vector, dim)
        self._content.write(
            lambda draft: write.put_document(
                draft, document, entries, expected_text=expected_text, summary_vector=vector
            )
        )

    def put_many(self, documents: Sequence[NewDocument]) -> None:
        """Replaces documents and all their chunks in one commit."""
        made = [make_new_entries(each, self._content.dim) for each in documents]

        self._content.write(lambda draft: write.put_documents(draft, made))

    def append(
        self,
        doc_id: str,
        text: str,
        sections: Sequence[Section],
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
    ) -> None:
        """Extends a document at its end, atomically; only what is new is written."""
        matrix = checks.check_vectors(vectors, chunks, terms, self._content.dim)
        self._content.write(
            lambda draft: write.append_to_document(draft, doc_id, text, sections, chunks, matrix, terms)
        )

    def summarise(
        self, doc_id: str, summary: str, vector: Vector, *, by: str = "", expected_text: str | None = None
    ) -> None:
        """Sets a document's summary, the summary's vector and who made it."""
        columns = {"summary": summary, "summary_by": by, "vector": checks.check_vector(vector, self._content.dim)}
        self._content.write(
            lambda draft: write.change_named_document(draft, doc_id, expected_text=expected_text, **columns)
        )

    def claim(self, doc_ids: Sequence[str], *, owner: str, seconds: float) -> set[str]:
        """Claims the documents that nobody else has claimed, for so many seconds; the ids of those."""
        self._content.check_writable()
        return claim_documents(self._entries["claims"], self._content.read(), doc_ids, owner=owner, seconds=seconds)

    def put_stored(self, stored: StoredDocument) -> None:
        """Replaces a document by one from another store, atomically."""
        checked = checks.check_stored_document(stored, self._content.dim)
        entries, vector = make_entries_from_stored(checked), checked.summary_vector
        self._content.write(
            lambda draft: write.put_document(
                draft, checked.document, entries, summary_vector=vector, keeps_vector=False
            )
        )

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with everything stored of it, in batches, in the order they were added."""
        with translate_errors(self._content.place):
            yield from read.read_stored_documents(self._content, doc_ids)

    def staged_model(self) -> StagedModel | None:
        """The model of the staged vectors, if there are any."""
        return staged.parse_staged_model(self._content.read().head)

    def stage_vectors(self, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None) -> int:
        """Makes the vectors of another model that are missing, beside those in use; how many were made."""
        return staged.stage_vectors(self._content, self._address.options, embedder, on_progress)

    def switch_to_staged(self, embedder: Embedder) -> "LanceStore":
        """The same collection with the staged vectors in use; those used so far are then the staged ones."""
        staged.switch_to_staged_model(self._content, self._address.options, embedder)
        return self.with_model_in_use(embedder)

    def with_model_in_use(self, embedder: Embedder) -> "LanceStore":
        """The same collection for the model that another has switched it to meanwhile."""
        name, dim = embedder.name, embedder.dim
        return LanceStore(self._url, collection=self._collection, embedder=name, dim=dim, config=self._config)

    def discard_staged(self) -> bool:
        """Deletes the staged vectors; whether there were any."""
        return staged.discard_staged_vectors(self._content, self._address.options)

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Sets the stamp of a document whose file was touched but not changed; the change number stays."""
        self._content.write(lambda draft: write.set_stamp(draft, doc_id, stamp), is_change=False)

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with everything that belongs to them; how many existed."""
        return self._content.write(lambda draft: write.drop_documents(draft, doc_ids))

    def eraser(self) -> LanceEraser:
        """What takes deleted content from the files of every version."""
        return LanceEraser(self._content, self._entries, self._address.options)

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        with translate_errors(self._content.place):
            return read.read_document(self._content.read(), doc_id)

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""
        with translate_errors(self._content.place):
            return read.list_records(self._content.read(), where)

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        with translate_errors(self._content.place):
            return read.read_document_chunks(self._content.read(), doc_id)

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that exist, by id."""
        with translate_errors(self._content.place):
            return read.read_chunks_by_id(self._content.read(), chunk_ids)

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        with translate_errors(self._content.place):
            return read.read_latest_chunks(self._content.read(), channel, k)

    def channels(self) -> list[str]:
        """The channels that have chunks, by name."""
        with translate_errors(self._content.place):
            return read.list_channels(self._content.read())

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """Every chunk that a filter admits, by document id and index, read in batches."""
        if not expand_filter(where):
            return iter(())
        return scan_chunks(read.FilteredChunks(self._content, where))

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that exist."""
        with translate_errors(self._content.place):
            return read.read_vectors_by_chunk_id(self._content.read_for_vectors(), chunk_ids)

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, ties by id."""
        checked, is_exact = checks.check_vector(vector, self._content.dim), mode == "exact"
        snapshot, alternatives = self._content.read_for_vectors(), expand_filter(where)
        with translate_errors(self._content.place):
            found = search.find_nearest(snapshot, checked, k, alternatives, is_exact=is_exact, breadth=breadth)
            return read.read_hits(snapshot, found, k)

    def begin_searches(
        self,
        vectors: Matrix,  # noqa: ARG002
        terms: Sequence[Terms],  # noqa: ARG002
        k: int,  # noqa: ARG002
        where: Filter = EVERYTHING,  # noqa: ARG002
    ) -> bool:
        """False: searches are better made in parallel."""
        return False

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The ids of the k documents whose summary has the greatest cosine, with it, best first, ties by id."""
        checked = checks.check_vector(vector, self._content.dim)
        snapshot = self._content.read_for_vectors()
        with translate_errors(self._content.place):
            return search.search_summaries(snapshot, checked, k, expand_document_filter(where))

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score, best first, ties by id."""
        snapshot = self._content.read()
        with translate_errors(self._content.place):
            return read.read_hits(snapshot, search.search_terms(snapshot, terms, k, expand_filter(where)), k)

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well the chunks that exist match the terms of a query, by id."""
        with translate_errors(self._content.place):
            return search.match_terms(self._content.read(), terms, chunk_ids)

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks of the whole collection have each of the terms, up to `at_most`."""
        with translate_errors(self._content.place):
            counts = search.count_having(self._content.read(), hash_terms(terms))
        return counts if at_most is None else [min(count, at_most) for count in counts]

    def calibration(self) -> str:
        """The text about the collection that was kept last, or an empty one."""
        return self._content.read().head.calibration

    def set_calibration(self, text: str) -> None:
        """Keeps a text about the collection; the change number grows."""

        def decide(draft: Draft) -> None:
            draft.head = replace(draft.head, calibration=text, change=draft.head.change + 1)

        self._content.write(decide, is_change=False)

    @property
    def sessions(self) -> LanceSessions:
        """The sessions that are kept with the collection."""
        return LanceSessions(self._entries["sessions"])

    @property
    def records(self) -> LanceRecords:
        """Tuned settings, runs of evaluations and feedback, kept with the collection."""
        return LanceRecords(self._entries["records"])

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change; the bytes are those of this version."""
        snapshot = self._content.read()
        head = snapshot.head
        with translate_errors(self._content.place):
            uses_index = snapshot.segments is None and indexes.has_index(snapshot.dataset, indexes.VECTOR_INDEX)
            size = measure_bytes(snapshot.dataset)
        kind = "Lance IVF-PQ, re-ranked" if uses_index else "exact, in Lance"
        kind = "exact, in memory" if snapshot.segments is not None else kind
        return StoreStats(head.documents, head.chunks, head.embedder, head.dim, head.change, kind, size)

    def change_number(self) -> int:
        """The number of the last change."""
        return self._content.read().head.change

    def close(self) -> None:
        """Lets go of all datasets; a closed store raises when it is used."""
        self._content.table.close()
        for entries in self._entries.values():
            entries.close()
