"""A store that shows a part of a collection: what a filter admits, and nothing else by any method.

A document of which only some chunks are admitted is shown with those alone; see `redact`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Never

from clew.core.candidates import Candidates, Depth, ReadHits
from clew.core.errors import ConcurrentChange, SettingsError
from clew.core.facets import splits_documents
from clew.core.filter import EVERYTHING, Filter
from clew.core.lru import LRUCache
from clew.core.protocols import FindsCandidates, Mode, Store
from clew.core.stored import StagedModel
from clew.core.text import Terms
from clew.core.thread_view import ThreadView, view_document
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Matrix, StoreStats, TermMatch, Vector
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.redact import VisiblePart, redact_document, redact_record, renumber_chunks

MAX_ATTEMPTS = 20  # to read a document that others change at the same time
MAX_KNOWN = 10_000  # chunks of parts that are kept for the next call
Parts = Mapping[str, VisiblePart | None]  # by document; None: all of it
KnownParts = LRUCache[tuple[int, Parts]]  # as of a change number, by filter; never changed, only replaced


class BoundedStore:
    """A store within a filter. It only reads: a change is made to the whole collection."""

    def __init__(self, store: Store, where: Filter, *, closes: bool = False, known: KnownParts | None = None) -> None:
        self.inner, self.where, self.closes = store, where, closes
        self._splits = splits_documents(where)
        self._known = known or KnownParts(1)
        self._key = repr(where) if self._splits else ""

    # -- reading

    def document(self, doc_id: str) -> Document:
        """The document as far as it is admitted; NotFound if nothing of it is."""
        if not self._splits:
            self._check_admitted(doc_id)
            return self.inner.document(doc_id)
        for _ in range(MAX_ATTEMPTS):
            change = self.inner.change_number()
            part = self._find_part(doc_id)
            document = self.inner.document(doc_id)
            if self.inner.change_number() == change:  # else it may have more than was admitted
                return document if part is None else redact_document(document, part)
        raise ConcurrentChange(f"document {doc_id!r} was changed again and again while it was read; try again")

    def thread_view(self, doc_id: str) -> ThreadView:
        """The thread as far as it is admitted; where that is not all of it, it is read whole."""
        if self._splits:
            return view_document(self.document(doc_id))
        self._check_admitted(doc_id)
        return self.inner.thread_view(doc_id)

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """The records of the documents of which something is admitted."""
        if not self._splits:
            return self.inner.documents(self.where & where)
        return self._list_split_records(where)

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The admitted chunks of a document; NotFound if there are none."""
        if not self._splits:
            self._check_admitted(doc_id)
            return self.inner.chunks(doc_id)
        part = self._find_part(doc_id)
        return list(self.scan(Filter(documents={doc_id}))) if part is None else list(part.chunks)

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The admitted chunks among the ids."""
        found = self.inner.chunks_by_id(chunk_ids)
        doc_ids = frozenset(chunk.doc_id for chunk in found.values())
        admitted = {chunk.id: chunk for chunk in self.scan(Filter(documents=doc_ids))} if found else {}
        return {each: admitted[each] for each in chunk_ids if each in admitted}

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The last k admitted chunks that were added to a channel."""
        wanted = k
        while True:
            latest = self.inner.latest_chunks(channel, wanted)
            admitted = self.chunks_by_id([chunk.id for chunk in latest])
            if len(admitted) >= k or len(latest) < wanted:
                return [admitted[chunk.id] for chunk in latest if chunk.id in admitted][-k:] if k > 0 else []
            wanted *= 4

    def channels(self) -> list[str]:
        """The channels that have admitted chunks."""
        names = self.inner.channels()
        hidden = set(names)
        for chunk in self.inner.scan(self.where & Filter(channels=hidden)) if hidden else ():
            hidden.discard(str(chunk.meta.get("channel")))
            if not hidden:
                break
        return [name for name in names if name not in hidden]

    def scan(self, where: Filter = EVERYTHING) -> Iterator[Chunk]:
        """The admitted chunks that another filter admits too."""
        chunks = self.inner.scan(self.where & where)
        if not self._splits:
            return chunks
        return (chunk for doc_id, group in groupby(chunks, _get_doc_id) for chunk in self._redact(doc_id, group))

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of chunks by id; who has an id has found it within the filter."""
        return self.inner.vectors(chunk_ids)

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The nearest admitted chunks."""
        return self._redact_hits(self.inner.search_vectors(vector, k, self.where & where, mode=mode, breadth=breadth))

    def begin_searches(self, vectors: Matrix, terms: Sequence[Terms], k: int, where: Filter = EVERYTHING) -> bool:
        """Whether several searches were begun in one pass."""
        return self.inner.begin_searches(vectors, terms, k, self.where & where)

    def find_candidates(
        self, vectors: Matrix, terms: Sequence[Terms], near: Depth, matching: Depth, where: Filter = EVERYTHING
    ) -> list[Candidates] | None:
        """The admitted candidates of each query; their hits are shown as far as they are admitted."""
        if not isinstance(self.inner, FindsCandidates):
            return None
        found = self.inner.find_candidates(vectors, terms, near, matching, self.where & where)
        if found is None or not self._splits:
            return found
        return [replace(each, read_hits=partial(self._read_admitted, each.read_hits)) for each in found]

    def _read_admitted(self, read_hits: ReadHits, places: Sequence[int]) -> list[Hit]:
        """The hits of candidates at some places; LookupError if one is gone."""
        found = read_hits(places)
        shown = self._redact_hits(found)
        if len(shown) < len(found):
            raise LookupError("a candidate is gone")
        return shown

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The documents with the nearest summaries, of those that are admitted whole."""
        wanted = k
        while True:
            near = self.inner.search_documents(vector, wanted, self.where & where)
            if not self._splits:
                return near
            parts = self._load_parts(doc_id for doc_id, _ in near)
            whole = [(doc_id, score) for doc_id, score in near if parts[doc_id] is None]
            if len(whole) >= k or len(near) < wanted:
                return whole[: max(k, 0)]
            wanted *= 4

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The admitted chunks of greatest BM25 score; the counts are those of the whole collection."""
        return self._redact_hits(self.inner.search_terms(terms, k, self.where & where))

    def match_terms(self, terms: Terms, chunk_ids: Sequence[str]) -> dict[str, TermMatch]:
        """How well chunks match terms, with the counts of the whole collection."""
        return self.inner.match_terms(terms, chunk_ids)

    def count_terms(self, terms: Sequence[str], *, at_most: int | None = None) -> list[int]:
        """How many chunks of the whole collection have each of the terms: what the weight of a word tells anyway."""
        return self.inner.count_terms(terms, at_most=at_most)

    def language_counts(self, *, exact: bool = False) -> dict[str, int]:
        """How many chunks of the whole collection are in each language: queries are analysed in these."""
        return self.inner.language_counts(exact=exact)

    def calibration(self) -> str:
        """What was measured of the whole collection."""
        return self.inner.calibration()

    def stats(self) -> StoreStats:
        """The counts of what is admitted; the size is not told."""
        stats = self.inner.stats()
        documents = sum(1 for _ in self.documents())
        return replace(stats, documents=documents, chunks=sum(1 for _ in self.scan()), bytes=0)

    def change_number(self) -> int:
        """The change number of the whole collection."""
        return self.inner.change_number()

    def staged_model(self) -> StagedModel | None:
        """The model of the staged vectors."""
        return self.inner.staged_model()

    def close(self) -> None:
        """Closes the whole store if it was opened for this part alone; else who opened it does."""
        if self.closes:
            self.inner.close()

    def flush(self, *, with_graph: bool = True) -> None:
        """Does nothing: there are no changes."""

    def _refuse(self, *_: object, **__: object) -> Never:
        """Refuses a change, or a copy of what is not admitted."""
        raise SettingsError("this engine sees a part of the collection and only reads; change the whole collection")

    @property
    def sessions(self) -> Never:
        """Refused: the sessions of a collection quote all of it."""
        self._refuse()

    put = put_many = append = summarise = claim = put_stored = stored_documents = _refuse
    embed_pending = stage_vectors = switch_to_staged = with_model_in_use = _refuse
    discard_staged = set_stamp = drop = set_calibration = thread_part = edit_threads = waiting_messages = _refuse
    eraser = maintain = _refuse
    jobs = records = property(_refuse)  # they name sources and reports of the whole collection

    # -- parts of documents

    def _check_admitted(self, doc_id: str) -> None:
        if not any(True for _ in self.inner.documents(self.where & Filter(documents={doc_id}))):
            raise not_found_error(doc_id)

    def _find_part(self, doc_id: str) -> VisiblePart | None:
        """The admitted part of a document, None if that is all of it; NotFound if nothing is."""
        part = self._load_parts([doc_id])[doc_id]
        if part is _HIDDEN:
            raise not_found_error(doc_id)
        return part

    def _load_parts(self, doc_ids: Iterable[str]) -> "Parts":
        """Which chunks of these documents are admitted; read where that is not known as of the last change."""
        wanted, change = frozenset(doc_ids), self.inner.change_number()
        known_at, known = self._known.get(self._key) or (-1, {})
        parts: dict[str, VisiblePart | None] = {}
        if known_at == change:
            parts = {doc_id: known[doc_id] for doc_id in wanted if doc_id in known}
        unknown = wanted - parts.keys()
        if not unknown:
            return parts
        parts.update(dict.fromkeys(unknown, _HIDDEN))
        for doc_id, group in groupby(self.inner.scan(self.where & Filter(documents=unknown)), _get_doc_id):
            chunks = list(group)
            parts[doc_id] = None if len(chunks) == chunks[0].total else VisiblePart(renumber_chunks(chunks))
        hidden = frozenset(doc_id for doc_id in unknown if parts[doc_id] is _HIDDEN)
        for record in self.inner.documents(self.where & Filter(documents=hidden)) if hidden else ():
            if not record.chunks:  # it has none that could be hidden
                parts[record.id] = None
        if self.inner.change_number() == change:  # else it may be of two states
            size = sum(len(part.chunks) for part in (*known.values(), *parts.values()) if part)
            kept = known if known_at == change and size <= MAX_KNOWN else {}
            self._known.put(self._key, (change, {**kept, **parts}))
        return parts

    def _redact(self, doc_id: str, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Chunks of one document as they are shown."""
        found = list(chunks)
        if len(found) == found[0].total:
            return found
        part = self._find_part(doc_id)
        if part is None:
            return found
        return [part.by_id[chunk.id] for chunk in found if chunk.id in part.by_id]

    def _redact_hits(self, hits: list[Hit]) -> list[Hit]:
        if not self._splits or not hits:
            return hits
        parts = self._load_parts(hit.chunk.doc_id for hit in hits if hit.chunk.total > 1)
        shown, records = list[Hit](), dict[str, DocumentRecord]()
        for hit in hits:
            part = parts.get(hit.chunk.doc_id)
            if part is None:
                shown.append(hit)
            elif chunk := part.by_id.get(hit.chunk.id):
                if chunk.doc_id not in records:
                    records[chunk.doc_id] = redact_record(hit.document, part)
                shown.append(replace(hit, chunk=chunk, document=records[chunk.doc_id]))
        return shown

    def _list_split_records(self, where: Filter) -> Iterator[DocumentRecord]:
        """The records as they are shown, by their uris and ids as they are shown."""
        visible = {chunk.doc_id for chunk in self.inner.scan(self.where & where)}
        visible |= {record.id for record in self.inner.documents(self.where & where) if not record.chunks}
        parts = self._load_parts(visible)
        shown: list[DocumentRecord] = []
        for record in self.inner.documents(Filter(documents=frozenset(visible))):
            part = parts[record.id]
            if part is not _HIDDEN:
                shown.append(record if part is None else redact_record(record, part))
        return iter(sorted(shown, key=lambda record: (record.uri, record.id)))


def _get_doc_id(chunk: Chunk) -> str:
    return chunk.doc_id


_HIDDEN = VisiblePart(())  # of a document of which nothing is admitted
