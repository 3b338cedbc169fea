"""The embedded store: a folder that holds one collection, the truth in SQLite and an index that follows it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path

import numpy as np

from clew.core.protocols import Embedder, Mode
from clew.core.settings import StoreConfig
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
    Section,
    StoreStats,
    Vector,
)
from clew.drivers.store import checks, order
from clew.drivers.store import term_ids as words
from clew.drivers.store.embedded.exact import Found, Reach
from clew.drivers.store.embedded.manager import Index, Keeper
from clew.drivers.store.embedded.signals import State
from clew.drivers.store.embedded.truth import Summaries, Truth, admits, asked_of_documents, kept_embedder

__all__ = ["EmbeddedStore", "kept_embedder"]

SHOWN = 8192  # chunks that are kept ready to be shown again
TRIES = 3  # a search that meets a chunk which has just been removed is done again


class EmbeddedStore:
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
        self._begin(Truth(folder, embedder=embedder, dim=dim))

    def _begin(self, truth: Truth) -> None:
        self._truth = truth
        self._keeper = Keeper(truth, self._folder, self._config)
        self._lock = threading.Lock()
        self._shown: dict[int, Chunk] = {}
        self._shown_at = -1
        self._summaries = Summaries(-1, [], [], np.empty((0, truth.dim), np.float32))

    def put(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
        *,
        instead_of: str | None = None,
    ) -> None:
        """Replaces a document and all its chunks, whole or not at all."""
        matrix = checks.rows(vectors, chunks, terms, self._truth.dim)
        self._truth.put(document, chunks, matrix, terms, instead_of)

    def append(
        self,
        doc_id: str,
        text: str,
        sections: Sequence[Section],
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
    ) -> None:
        """Extends a document at its end, whole or not at all, at a cost that does not grow with the document."""
        matrix = checks.rows(vectors, chunks, terms, self._truth.dim)
        self._truth.append(doc_id, text, sections, chunks, matrix, terms)

    def summarise(self, doc_id: str, summary: str, vector: Vector) -> None:
        """Gives a document its summary and the summary's vector."""
        self._truth.summarise(doc_id, summary, checks.row(vector, self._truth.dim))

    def put_stored(self, whole: StoredDocument) -> None:
        """Replaces a document by one that another store kept, whole or not at all."""
        self._truth.keep(checks.whole(whole, self._truth.dim))

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with all that is kept of it, as they came, a few read at a time."""
        return self._truth.wholes(doc_ids)

    def staged(self) -> StagedModel | None:
        """The model whose vectors stand beside those in use, if any."""
        return self._truth.shadow()

    def stage_vectors(self, embedder: Embedder, told: Callable[[int, int], None] | None = None) -> int:
        """Makes vectors of another model beside those in use, for all that lack one; how many were made."""
        return self._truth.overlay(embedder, told)

    def switch_to_staged(self, embedder: Embedder) -> "EmbeddedStore":
        """The same collection under the model whose vectors stand beside; those in use so far then stand beside.

        Whoever had it open is told to open it again. The new index is made by the next search or flush.
        """
        other = copy(self)
        other._begin(self._truth.switched(embedder))
        self._keeper.close()
        return other

    def discard_staged(self) -> bool:
        """Forgets the vectors that stand beside those in use; whether there were any."""
        return self._truth.discard()

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Notes the new state of the file of a document that has not changed."""
        self._truth.restamp(doc_id, stamp)

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with all that belongs to them; how many there were."""
        return self._truth.drop(doc_ids)

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        return self._truth.document(doc_id)

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""
        return self._truth.records(where)

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        return self._truth.chunks(doc_id)

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that are there, by id."""
        return self._truth.named(chunk_ids)

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        return self._truth.latest(channel, k)

    def channels(self) -> list[str]:
        """The channels that have chunks, by name."""
        return self._truth.channels()

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that are there."""
        return self._truth.vectors(chunk_ids)

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, equal ones by id; the score is the cosine."""
        sound = checks.row(vector, self._truth.dim)
        reach = Reach(exact=mode == "exact", breadth=breadth)
        try:
            return self._search(k, lambda index, _: index.nearest(sound, k, where, reach))
        finally:
            self._truth.state()  # raises where the vectors became another model's meanwhile

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score among those with any of the terms, best first, equal ones by id."""
        asked = words.pack(terms)
        if not len(asked.hashes):
            return []
        return self._search(k, lambda index, state: index.matching(asked, state, k, where))

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The k documents whose summaries are nearest, with the cosine."""
        sound = checks.row(vector, self._truth.dim)
        change = self._truth.state().change
        kept = self._summaries
        if kept.change != change:
            kept = self._summaries = self._truth.summaries(change)
        groups = asked_of_documents(where)
        slots = [at for at, facets in enumerate(kept.facets) if admits(groups, facets)]
        if k < 1 or not slots:
            return []
        near = kept.vectors[slots] @ sound
        top = [slots[at] for at in order.contenders(near, k, order.SLACK).tolist()]
        found = order.best(top, [kept.ids[at] for at in top], order.cosines(kept.vectors[top], sound), k)
        return [(kept.ids[at], score) for at, score in found]

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change."""
        state, truth = self._truth.state(), self._truth
        size = _bytes(self._folder) if self._folder else 0
        return StoreStats(
            state.documents, state.chunks, truth.embedder, truth.dim, state.change, self._keeper.serving(state), size
        )

    def change_number(self) -> int:
        """The number of the last change."""
        return self._truth.state().change

    def flush(self) -> None:
        """Returns when all that was put is safe on disk and the index is in its best shape."""
        self._keeper.flush(self._truth.state())
        self._truth.prune()  # after the index has followed
        self._truth.flush()

    def close(self) -> None:
        """Lets go of the index and the database; a closed store raises when it is used."""
        self._keeper.close()
        self._truth.close()

    def _search(self, k: int, search: Callable[[Index, State], Found]) -> list[Hit]:
        """The hits of a search in an index that has followed the truth to where it stands now."""
        for _ in range(TRIES):
            state = self._truth.state()
            if k < 1 or not state.chunks:
                return []
            found = self._keeper.search(state, lambda index, state=state: search(index, state))  # type: ignore[misc]
            shown = self._show(state, [row for row, _ in found])
            hits = [Hit(shown[row], score) for row, score in found if row in shown]
            if len(hits) == k or self._truth.state().change == state.change:
                break
        return hits

    def _show(self, state: State, rows: Sequence[int]) -> dict[int, Chunk]:
        """The chunks in some rows. Any change may have moved any chunk, so what was kept ready is then forgotten."""
        with self._lock:
            if self._shown_at != state.change:
                self._shown, self._shown_at = {}, state.change
            kept = self._shown
        found = {row: kept.get(row) for row in rows}
        wanted = [row for row, chunk in found.items() if chunk is None]
        read = self._truth.shown(wanted) if wanted else {}
        if len(kept) + len(read) > SHOWN:
            kept.clear()
        kept.update(read)
        return {row: chunk for row, chunk in (found | read).items() if chunk}


def _bytes(folder: Path) -> int:
    """How much of the disk a folder takes; a shard's files are mostly holes, which take none."""
    stats = [file.stat() for file in folder.rglob("*") if file.is_file()]
    return sum(getattr(stat, "st_blocks", (stat.st_size + 511) // 512) * 512 for stat in stats)
