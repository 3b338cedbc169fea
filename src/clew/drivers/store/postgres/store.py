"""The server store: one collection of a PostgreSQL database. The server is the truth and the index at once."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TypeVar

from psycopg import Connection

from clew.core.facets import required_facets
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
from clew.drivers.store import checks, codec
from clew.drivers.store import term_ids as words
from clew.drivers.store.embedded.truth import asked_of_documents
from clew.drivers.store.embedded.write import entries
from clew.drivers.store.postgres import read, write
from clew.drivers.store.postgres import staged as shadows
from clew.drivers.store.postgres import stored as wholes
from clew.drivers.store.postgres.connect import errors as trouble
from clew.drivers.store.postgres.connect import setup
from clew.drivers.store.postgres.connect.planner import plan_once
from clew.drivers.store.postgres.connect.pool import Pool, Row
from clew.drivers.store.postgres.search import filters as sieve
from clew.drivers.store.postgres.search import graph, lexical
from clew.drivers.store.postgres.search import vectors as near
from clew.drivers.store.postgres.search.filters import Sieve
from clew.drivers.store.postgres.search.vectors import Search
from clew.drivers.store.staging import Shades, agreed, fill, moved

LOOK = 10.0  # seconds after which it is looked again whether there is a graph; that the model is the same, always
T = TypeVar("T")


class PostgresStore:
    """One collection on a server. Several threads, programs and machines may use it at once."""

    def __init__(
        self,
        url: str,
        *,
        collection: str,
        embedder: str,
        dim: int,
        config: StoreConfig = StoreConfig(),  # noqa: B008
    ) -> None:
        self._embedder, self._dim, self._config = embedder, dim, config
        self._known = setup.opened(url, collection=collection, embedder=embedder, dim=dim)
        self._number = self._known.number
        self._pool = Pool(url, collection)
        self._graphed = frozenset[near.Space]()  # what had a graph to be searched by …
        self._looked = 0.0  # … when it was last looked at

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
        made = entries(document, chunks, checks.rows(vectors, chunks, terms, self._dim), terms)

        self._pool.change(
            lambda connection: write.put(connection, self._known, document, made, instead_of=instead_of), plan=plan_once
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
        """Extends a document at its end, whole or not at all, at a cost that does not grow with the document."""
        matrix = checks.rows(vectors, chunks, terms, self._dim)

        def extend(connection: Connection) -> None:
            document = write.continued(connection, self._number, doc_id, text, sections)
            write.append(connection, self._known, document, sections, entries(document, chunks, matrix, terms))

        self._pool.change(extend, plan=plan_once)

    def summarise(self, doc_id: str, summary: str, vector: Vector) -> None:
        """Gives a document its summary and the summary's vector."""
        sound = checks.row(vector, self._dim)
        self._pool.change(lambda connection: write.summarise(connection, self._known, doc_id, summary, sound))

    def put_stored(self, whole: StoredDocument) -> None:
        """Replaces a document by one that another store kept, whole or not at all."""
        sound = checks.whole(whole, self._dim)
        made = entries(sound.document, sound.chunks, sound.vectors, sound.terms)
        self._pool.change(lambda connection: write.keep(connection, self._known, sound, made), plan=plan_once)

    def stored_documents(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
        """Every document, or those named, with all that is kept of it, as they came, a few read at a time."""
        after, found = 0, list[StoredDocument]()
        while True:
            few = partial(wholes.next_few, known=self._known, after=after, doc_ids=doc_ids, dim=self._dim)
            after, found = self._pool.read(few)
            if not found:
                return
            yield from found

    def staged(self) -> StagedModel | None:
        """The model whose vectors stand beside those in use, if any."""
        return self._pool.read(lambda connection: shadows.shadow(connection, self._number))

    def stage_vectors(self, embedder: Embedder, told: Callable[[int, int], None] | None = None) -> int:
        """Makes vectors of another model beside those in use, for all that lack one; how many were made."""

        def begin(connection: Connection) -> None:
            shadows.share(connection, self._known)
            shadows.begin(connection, self._number, embedder.name, embedder.dim)

        def shaded(work: Callable[[Shades], T]) -> T:
            def checked(connection: Connection) -> T:  # others may switch or discard between two pieces of work
                shadows.share(connection, self._known)
                agreed(self._known.place, shadows.shadow(connection, self._number), embedder)
                return work(shadows.ServerShades(connection, self._known))

            return self._pool.change(checked)

        self._pool.change(begin)
        return fill(shaded, embedder, told)

    def switch_to_staged(self, embedder: Embedder) -> "PostgresStore":
        """The same collection under the model whose vectors stand beside; those in use so far then stand beside.

        Whoever had it open is told to open it again. Until the next flush has built the graph, searches are exact.
        """

        def switch(connection: Connection) -> None:
            shadows.hold(connection, self._number)
            read.still_ours(connection, self._known)
            agreed(self._known.place, shadows.shadow(connection, self._number), embedder)
            fill(lambda work: work(shadows.ServerShades(connection, self._known)), embedder)
            shadows.swap(connection, self._number)

        with trouble.failing(self._pool.place), self._pool.apart() as connection:
            for table in ("signals", "summaries"):
                graph.drop(connection, table, self._number)
            self._pool.change(switch)
        other = copy(self)
        other._embedder, other._dim = embedder.name, embedder.dim
        other._known = replace(self._known, embedder=embedder.name)
        other._graphed = frozenset()
        return other

    def discard_staged(self) -> bool:
        """Forgets the vectors that stand beside those in use; whether there were any."""

        def discard(connection: Connection) -> bool:
            shadows.hold(connection, self._number)
            read.still_ours(connection, self._known)
            return shadows.discard(connection, self._number)

        return self._pool.change(discard)

    def set_stamp(self, doc_id: str, stamp: str) -> None:
        """Notes the new state of the file of a document that has not changed."""
        sql = "UPDATE documents SET stamp = %s WHERE collection = %s AND id = %s"
        self._pool.change(lambda connection: connection.execute(sql, (stamp, self._number, doc_id)))

    def drop(self, doc_ids: Sequence[str]) -> int:
        """Removes documents with all that belongs to them, some hundreds a transaction; how many there were."""
        names, many = sorted(set(doc_ids)), 0
        for at in range(0, len(names), write.DROPPED_AT_ONCE):
            some = partial(write.drop, known=self._known, doc_ids=names[at : at + write.DROPPED_AT_ONCE])
            many += self._pool.change(some)
        return many

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        return self._pool.read(lambda connection: read.document(connection, self._number, doc_id))

    def documents(self, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
        """Records of the documents that a filter admits (by document, kind, channel and meta), by uri and id."""
        return self._pool.read(lambda connection: read.records(connection, self._number, where))

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        return self._pool.read(lambda connection: read.chunks(connection, self._number, doc_id))

    def chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that are there, by id."""
        return self._pool.read(lambda connection: read.named(connection, self._number, chunk_ids))

    def latest_chunks(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        return self._pool.read(lambda connection: read.latest(connection, self._number, channel, k))

    def channels(self) -> list[str]:
        """The channels that have chunks, by name."""
        return self._pool.read(lambda connection: read.channels(connection, self._number))

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that are there."""
        return self._pool.read(lambda connection: read.vectors(connection, self._known, chunk_ids))

    def search_vectors(
        self, vector: Vector, k: int, where: Filter = EVERYTHING, *, mode: Mode = "ann", breadth: int | None = None
    ) -> list[Hit]:
        """The k chunks of greatest cosine, best first, equal ones by id; the score is the cosine."""
        sound, groups = checks.row(vector, self._dim), required_facets(where)
        search = Search(near.CHUNKS, self._number, sound, k, sieve.conditions(groups, where))

        def find(connection: Connection) -> list[tuple[Row, float]]:
            few = sieve.few(connection, self._number, groups, where, self._config.exact_below)
            return self._near(connection, search, few, self._graph(breadth) if mode == "ann" else None)

        return self._hits(find) if k > 0 and all(groups) else []

    def search_documents(self, vector: Vector, k: int, where: Filter = EVERYTHING) -> list[tuple[str, float]]:
        """The k documents whose summaries are nearest, with the cosine."""
        sound = checks.row(vector, self._dim)
        groups = asked_of_documents(where)
        search = Search(near.DOCUMENTS, self._number, sound, k, sieve.conditions(groups))

        def find(connection: Connection) -> list[tuple[Row, float]]:
            return self._near(connection, search, None, self._graph(None))

        found = self._pool.search(find if k > 0 and all(groups) else _nothing)
        return [(columns[0], score) for columns, score in found]

    def search_terms(self, terms: Terms, k: int, where: Filter = EVERYTHING) -> list[Hit]:
        """The k chunks of greatest BM25 score among those with any of the terms, best first, equal ones by id."""
        asked, groups = words.pack(terms), required_facets(where)
        conditions = sieve.conditions(groups, where)

        def find(connection: Connection) -> list[tuple[Row, float]]:
            few = sieve.few(connection, self._number, groups, where, self._config.exact_below)
            return lexical.matching(connection, self._number, asked, k, conditions, few)

        return self._hits(find) if k > 0 and len(asked.hashes) and all(groups) else []

    def stats(self) -> StoreStats:
        """Counts, the embedder, and a number that grows with every change; the bytes are its share of the tables."""
        state = self._pool.read(lambda connection: graph.state(connection, self._number))
        size = self._pool.read(lambda connection: read.size(connection, state.chunks))
        large = state.over_chunks and state.chunks >= self._config.exact_below
        index = "pgvector HNSW, half precision" if large else "exact, in PostgreSQL"
        return StoreStats(state.documents, state.chunks, self._embedder, self._dim, state.change, index, size)

    def change_number(self) -> int:
        """The number of the last change."""
        found = self._pool.ask("SELECT change FROM collections WHERE number = %s", (self._number,))
        return int(found[0][0]) if found else 0

    def flush(self) -> None:
        """Returns when the graphs that are due are built; what was put is safe on the server's disk anyway."""
        state = self._pool.read(lambda connection: graph.state(connection, self._number))
        wanted = [("signals", state.chunks, state.over_chunks), ("summaries", state.documents, state.over_summaries)]
        due = [(table, many) for table, many, is_there in wanted if many >= self._config.exact_below and not is_there]
        if due and self._dim <= graph.WIDEST:
            with trouble.failing(self._pool.place), self._pool.apart() as connection:
                for table, many in due:
                    graph.build(connection, table, self._known, self._dim, many)

    def close(self) -> None:
        """Closes all connections; a closed store raises when it is used."""
        self._pool.close()

    def _near(
        self, connection: Connection, search: Search, few: Sieve | None, by: near.Graph | None
    ) -> list[tuple[Row, float]]:
        """The nearest rows: by the graph if there was one when last looked, a while ago at most; else after a look."""
        looked = few or by is None or search.space not in self._graphed or monotonic() > self._looked + LOOK
        if looked:
            self._look(connection)
        if by and not few and search.space in self._graphed:
            found = near.by_graph(connection, search, by)
            if found is not None:
                return found
        if not looked:
            self._look(connection)
        return near.exact(connection, search, few)

    def _graph(self, breadth: int | None) -> near.Graph:
        return near.Graph(self._embedder, self._known.iterates, breadth)

    def _look(self, connection: Connection) -> None:
        """Sees which graphs serve; StoreMismatch where the collection was switched to another model meanwhile."""
        state = graph.state(connection, self._number)
        if state.embedder and state.embedder != self._embedder:
            raise moved(self._known.place, state.embedder, self._embedder)
        least, self._looked = self._config.exact_below, monotonic()
        there = (
            (near.CHUNKS, state.over_chunks, state.chunks),
            (near.DOCUMENTS, state.over_summaries, state.documents),
        )
        self._graphed = frozenset(space for space, is_there, many in there if is_there and many >= least)

    def _hits(self, find: Callable[[Connection], list[tuple[Row, float]]]) -> list[Hit]:
        return [Hit(codec.chunk(columns), score) for columns, score in self._pool.search(find)]


def _nothing(connection: Connection) -> list[tuple[Row, float]]:  # noqa: ARG001
    return []
