"""Chooses how a collection is searched by vector: by its graph where one exists and is worth it, else exactly."""

from time import monotonic

from psycopg import Connection

from clew.drivers.store.postgres.connect.setup import OpenCollection, check_model_unchanged
from clew.drivers.store.postgres.search import graph, vectors
from clew.drivers.store.postgres.search.filters import SqlFragment
from clew.drivers.store.postgres.search.vectors import CHUNKS, DOCUMENTS, Found, GraphOptions, NearestQuery, VectorTable

REFRESH_SECONDS = 10.0  # after which the existing graphs are read again; the model is compared by every search


class NearestSearch:
    """Vector search of one collection; remembers for a while which graphs exist."""

    def __init__(self, collection: OpenCollection, min_rows: int) -> None:
        self._collection, self._min_rows = collection, min_rows
        self._graphs = frozenset[VectorTable]()  # the tables with a graph …
        self._refreshed = 0.0  # … at this time

    def search(
        self,
        connection: Connection,
        query: NearestQuery,
        subset: SqlFragment | None = None,
        *,
        exact: bool = False,
        breadth: int | None = None,
    ) -> list[Found]:
        """The nearest rows and their cosines; StoreMismatch if the collection was switched to another model."""
        by_graph = not exact and not subset
        is_known = by_graph and query.table in self._graphs and monotonic() <= self._refreshed + REFRESH_SECONDS
        if not is_known:
            self._refresh_graphs(connection)
        if by_graph and query.table in self._graphs:
            options = GraphOptions(self._collection.embedder, self._collection.has_iterative_scan, breadth)
            found = vectors.search_graph(connection, query, options)
            if found is not None:
                return found
        if is_known:
            self._refresh_graphs(connection)
        return vectors.search_exact(connection, query, subset)

    def _refresh_graphs(self, connection: Connection) -> None:
        state = graph.read_graph_state(connection, self._collection.number)
        if state.embedder:
            check_model_unchanged(self._collection, state.embedder)
        self._refreshed = monotonic()
        graphs = (
            (CHUNKS, state.has_chunk_graph, state.chunks),
            (DOCUMENTS, state.has_summary_graph, state.documents),
        )
        self._graphs = frozenset(table for table, exists, rows in graphs if exists and rows >= self._min_rows)
