"""The interface of a database to the store: rows, transactions, named values and an index, but no documents.

`Store` implements every verb over these few methods, so all backends behave alike; `tests/contracts` checks them.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import Ranking
from clew.core.doctor import Defect, Remedy
from clew.core.facets import Condition, find_named_documents
from clew.core.filter import Filter
from clew.core.protocols import Embedder
from clew.core.report import Purge
from clew.core.stored import Hashes, PackedTerms, StagedModel
from clew.core.types import Matrix, Vector

DOCUMENT, PIECE, CHUNK, BLOCK, STAGED = 1, 2, 3, 4, 5
Row = dict[str, Any]  # by column name; a missing column is null
Columns = tuple[Any, ...]  # of a row, in the requested order
Key = tuple[Any, ...]
Operator = Literal["in", "<", ">"]
T = TypeVar("T")
# The columns of each kind of row. `facets` is added as a JSON list; `terms`, `counts` and `vector` are arrays; all
# others are a number, a text or None. `doc` is the row number of a document. `pending` is 1 if the vector is yet to be
# made, else null. Queries select by the columns in INDEXED.
COLUMNS: Final[Mapping[int, tuple[str, ...]]] = {
    DOCUMENT: (
        *("row", "id", "title", "uri", "document_kind", "hash", "stamp", "chars", "chunks", "summary", "meta"),
        *("access", "summary_by", "created", "updated", "sum", "revision", "facets", "vector", "pending"),
    ),
    PIECE: ("doc", "n", "text", "sections", "chars", "chunks", "message", "parent", "awaits", "sum", "block"),
    CHUNK: (
        *("row", "id", "doc", "piece", "idx", "start", "stop", "print", "text", "headings", "context", "at", "meta"),
        *("channel", "sum", "seconds", "length", "facets", "terms", "counts", "vector", "pending"),
    ),
    BLOCK: ("doc", "block", "chars", "chunks", "sizes", "sum"),
    STAGED: ("row", "vector"),
}
TABLES: Final = {DOCUMENT: "documents", PIECE: "pieces", CHUNK: "chunks", BLOCK: "blocks", STAGED: "staged"}
KEYS: Final[Mapping[int, tuple[str, ...]]] = {
    DOCUMENT: ("row",),
    PIECE: ("doc", "n"),
    CHUNK: ("row",),
    BLOCK: ("doc", "block"),
    STAGED: ("row",),
}
INDEXED: Final[Mapping[int, tuple[str, ...]]] = {
    DOCUMENT: ("row", "id", "pending"),
    PIECE: ("doc", "block", "message", "parent", "awaits"),
    CHUNK: ("row", "id", "doc", "channel", "pending"),
    BLOCK: ("doc",),
    STAGED: ("row",),
}
_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "in": lambda value, given: value in given,
    "<": lambda value, given: value is not None and value < given,
    ">": lambda value, given: value is not None and value > given,
}


@dataclass(frozen=True, slots=True)
class Head:
    """The state of the whole collection; every change replaces it."""

    embedder: str
    dim: int
    change: int = 0
    documents: int = 0
    chunks: int = 0
    length: int = 0  # of all chunks, in terms
    last: int = 0  # the greatest row number so far
    pending: int = 0  # chunks without a vector yet
    staged: StagedModel | None = None
    version: int = 0  # of the backend: changes with every write, even if the change number stays

    @property
    def average_length(self) -> float:
        """The mean number of terms of a chunk."""
        return self.length / self.chunks if self.chunks else 0.0

    def swap_models(self, change: int) -> Self | None:
        """Return the next head, with the staged model active; None if the change number differs or none is staged."""
        if self.change != change or self.staged is None:
            return None
        model, before = self.staged, StagedModel(self.embedder, self.dim, was_used=True)
        return replace(self, embedder=model.embedder, dim=model.dim, change=change + 1, pending=0, staged=before)


@dataclass(slots=True)
class Select:
    """A query for rows of a kind that fulfil all conditions and, with a filter, one of its alternatives.

    order: The column to sort by, with "-" before it for descending; "" for any order.
    limit: The maximum number of rows, after sorting.
    """

    kind: int
    where: tuple[tuple[str, Operator, Any], ...] = ()
    alternatives: tuple[Condition, ...] | None = None
    order: str = ""
    limit: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no row can match."""
        return self.alternatives == () or any(op == "in" and not given for _, op, given in self.where)

    @property
    def is_filtered(self) -> bool:
        """Whether the alternatives may exclude a row."""
        return self.alternatives is not None and not any(each.is_empty for each in self.alternatives)

    def get_values(self, column: str) -> Collection[Any] | None:
        """Return the values that a column may have; None for any value."""
        return next((given for name, op, given in self.where if op == "in" and name == column), None)

    def admits(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of the kind fulfils the conditions; ignores the alternatives."""
        return all(_TESTS[op](row.get(name), given) for name, op, given in self.where)

    def admits_facets(self, facets: str) -> bool:
        """Return whether facets fulfil one of the alternatives; ignores the time."""
        present = frozenset(json.loads(facets))
        return any(each.admits_facets(present) for each in self.alternatives or ())

    def choose(self, rows: Iterable[Row]) -> list[Row]:
        """Choose the matching rows from rows of the kind as they were added, for a backend without queries."""
        return self.arrange(row for row in rows if self.admits(row) and self._admits_filter(row))

    def _admits_filter(self, row: Mapping[str, Any]) -> bool:
        if not self.is_filtered:
            return self.alternatives != ()
        present, seconds = frozenset(json.loads(row.get("facets") or "[]")), row.get("seconds")
        return any(each.admits_facets(present) and each.admits_time(seconds) for each in self.alternatives or ())

    def arrange(self, rows: Iterable[Row]) -> list[Row]:
        """Sort rows by `order`, and cut them to `limit`."""
        found = list(rows)
        if self.order:
            name = self.order.removeprefix("-")
            found.sort(key=lambda row: row[name], reverse=self.order.startswith("-"))
        return found if self.limit is None else found[: self.limit]


def select(kind: int, alternatives: Sequence[Condition] | None = None, **columns: Collection[Any]) -> Select:
    """Make a Select of the rows of a kind in which each column has one of its given values."""
    where = tuple([(name, "in", values) for name, values in columns.items()])
    return Select(kind, where, None if alternatives is None else tuple(alternatives))  # type: ignore[arg-type]


def named_documents(alternatives: Sequence[Condition]) -> set[str] | None:
    """Return the ids of the documents that a filter names, the only ones that it can admit; None if it names none."""
    named = [find_named_documents(each) for each in alternatives]
    return None if None in named else {doc_id for each in named for doc_id in each or ()}


class Snapshot(Protocol):
    """One state of a collection."""

    @property
    def head(self) -> Head:
        """The head as of this state."""

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find the named columns, in this order, of the selected rows.

        CollectionDamaged if a requested `facets`, `vector`, `terms` or `counts` is corrupt; ModelSwitched if `vector`
        is requested and the collection has been switched to another model.
        """


class Transaction:
    """An open transaction: the rows of a snapshot, overlaid with its own changes.

    always: Columns to read for every row in addition to the requested ones.
    """

    def __init__(self, snapshot: Snapshot, always: Sequence[str] = ()) -> None:
        self._snapshot, self._always = snapshot, always
        self.head = snapshot.head
        self._last, self._documents, self._chunks, self._length, self._pending = self.head.last, 0, 0, 0, 0
        self.removed: dict[Key, Row] = {}
        self.added: dict[Key, Row] = {}
        self.filled: dict[Key, Row] = {}
        self._added_by: dict[tuple[int, str], dict[Any, dict[Key, Row]]] = {}  # indexes of `added`, built on demand
        self._ahead: dict[tuple[int, str], tuple[frozenset[str], Mapping[Any, list[Row]]]] = {}

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Find the selected rows, including uncommitted changes, each with `kind`, its key and the named columns."""
        if wanted.is_empty:
            return []
        kind = wanted.kind
        found = self._find_ahead(wanted, columns)
        if not self.added and not self.removed and not self._ahead:
            return found
        kept = [row for row in found if key_of(kind, row) not in self.removed]
        kept += [row for row in self._list_added(wanted) if wanted.admits(row)]
        return wanted.arrange(kept) if kept else []

    def find_one(self, wanted: Select, columns: Sequence[str]) -> Row | None:
        """Find the first selected row, or None."""
        found = self.find(wanted, columns)
        return found[0] if found else None

    def read_ahead(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Read the rows for all values of one column in one query, so that `find` needs no query for any of them."""
        found = self.find_stored(wanted, columns)
        ((name, _, given),) = wanted.where
        by_value: dict[Any, list[Row]] = {value: [] for value in given}
        for row in found:
            by_value[row[name]].append(row)
        self._ahead[wanted.kind, name] = frozenset(columns), by_value
        return found

    def find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Find the selected rows as stored, without uncommitted changes. Do not modify them."""
        if wanted.is_empty:
            return []
        kind, names = wanted.kind, tuple(dict.fromkeys((*KEYS[wanted.kind], *columns, *self._always)))
        found = self._snapshot.find(wanted, names)
        return [{"kind": kind, **dict(zip(names, values, strict=True))} for values in found]

    def _find_ahead(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        for name, op, given in wanted.where if self._ahead and wanted.alternatives is None else ():
            read, known = self._ahead.get((wanted.kind, name), (frozenset(), {}))
            if (
                op == "in"
                and known.keys() >= set(given)
                and read.issuperset([*columns, *(n for n, _, _ in wanted.where)])
            ):
                return [row for each in dict.fromkeys(given) for row in known[each] if wanted.admits(row)]
        if wanted.limit is not None and self.removed:  # some of the first may be removed
            wanted = replace(wanted, limit=wanted.limit + len(self.removed))
        return self.find_stored(wanted, columns)

    def _list_added(self, wanted: Select) -> Collection[Row]:
        for name in INDEXED[wanted.kind]:
            values = wanted.get_values(name)
            if values is not None:
                index = self._added_by.get((wanted.kind, name)) or self._index_added(wanted.kind, name)
                return [row for value in set(values) for row in index.get(value, {}).values()]
        return [row for row in self.added.values() if row["kind"] == wanted.kind]

    def _index_added(self, kind: int, name: str) -> dict[Any, dict[Key, Row]]:
        index = self._added_by[kind, name] = defaultdict(dict)
        for key, row in self.added.items():
            if key[0] == kind:
                index[row.get(name)][key] = row
        return index

    def number(self) -> int:
        """Return the number of a new row."""
        self._last += 1
        return self._last

    def number_from(self, last: int) -> None:
        """Raise the last row number to at least `last`; new rows are numbered after it."""
        self._last = max(self._last, last)

    def fill(self, rows: Iterable[Row]) -> None:
        """Set the vectors of pending rows; a backend changes only their `vector`, `print` and `pending`."""
        for row in rows:
            self.filled[key_of(row["kind"], row)] = row
            self._pending -= row["kind"] == CHUNK

    def remove(self, rows: Iterable[Row]) -> None:
        """Remove rows found by this transaction; rows of chunks need the columns `length` and `pending`."""
        for row in rows:
            kind = row["kind"]
            key = key_of(kind, row)
            added = self.added.pop(key, None)
            if added is None:
                self.removed[key] = row
            else:
                for name in INDEXED[kind]:
                    if (kind, name) in self._added_by:
                        del self._added_by[kind, name][added.get(name)][key]
            self._count(kind, row, -1)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            kind = row["kind"]
            key = key_of(kind, row)
            self.added[key] = row
            if self._added_by:
                for name in INDEXED[kind]:
                    if (kind, name) in self._added_by:
                        self._added_by[kind, name][row.get(name)][key] = row
            self._count(kind, row, 1)

    def _count(self, kind: int, row: Row, sign: int) -> None:
        if kind == DOCUMENT:
            self._documents += sign
        elif kind == CHUNK:
            self._chunks += sign
            self._length += sign * (row["length"] or 0)  # null in a damaged row
            self._pending += sign * (row["pending"] == 1)

    def finish(self, *, is_change: bool) -> Head | None:
        """Return the head to commit, with the next change number if `is_change`; None if there is nothing to commit."""
        if not (self.added or self.removed or self.filled) and self.head == self._snapshot.head:
            return None
        head = self.head
        return replace(
            head,
            change=head.change + is_change,
            last=self._last,
            documents=head.documents + self._documents,
            chunks=head.chunks + self._chunks,
            length=head.length + self._length,
            pending=head.pending + self._pending,
        )


def key_of(kind: int, row: Mapping[str, Any]) -> Key:
    """Return the key of a row: its kind and its key columns."""
    names = KEYS[kind]
    return (kind, row[names[0]]) if len(names) == 1 else (kind, row[names[0]], row[names[1]])


Values = dict[str, Any]  # JSON values by name, in the order in which they were added


class NamedRows(Protocol):
    """Small named values of a kind beside the content: jobs, sessions, claims, records."""

    def read(self, names: Collection[str] | None = None) -> Values:
        """Read the existing values with these names, or all."""

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values with these names, or all, in place; it may be retried.

        Transactions on the same collection and kind are serialised across processes.
        """

    def purge(self) -> None:
        """Overwrite deleted and replaced values on disk, where they are known to remain."""

    def clock(self) -> float:
        """Return the time in seconds of a clock that all processes share."""


RowScores = list[tuple[int, float]]  # row numbers and scores, best first


@dataclass(frozen=True, slots=True)
class RowCandidates:
    """Candidates with the rows of their chunks; for the other fields see `clew.core.candidates.Candidates`."""

    rows: list[int]
    ids: list[str]
    is_message: NDArray[np.bool_]
    near: list[list[int]]
    matching: list[list[int]]
    by_words: dict[int, float]
    cosines: NDArray[np.float64]
    shares: NDArray[np.float64]
    strengths: NDArray[np.float64]


class Effort(NamedTuple):
    """The effort of a vector search: all vectors, or a graph with `breadth` candidates (None: its default)."""

    is_exact: bool = False
    breadth: int | None = None


USUAL: Final = Effort()


class Queries(NamedTuple):
    """A batch of queries (vectors and terms), the rankings to find for each, and additional chunks by id."""

    vectors: Matrix
    terms: Sequence[PackedTerms]
    rankings: Sequence[Ranking]
    chunk_ids: Sequence[str] = ()
    effort: Effort = USUAL


class Ranks(Protocol):
    """A search for rows by vector and by terms, at least as current as the given head."""

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks with the highest cosine, best first, ties by id."""

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks with the highest BM25 score that have any of the terms, best first, ties by id."""


class Index(Ranks, Protocol):
    """The searches of a collection."""

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """Find the k documents whose summary has the highest cosine: (id, cosine), best first, ties by id."""

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count, for each term, the chunks that have it, up to `at_most`."""

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the existing chunks among the ids, by id."""

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find the distinct chunks of the rankings of each query, and the existing chunks among the given ids."""


class Backend(Protocol):
    """The database of one collection, opened for one embedder. Several threads may use it."""

    @property
    def place(self) -> str:
        """The location, for messages."""

    @property
    def dim(self) -> int:
        """The dimension of the active vectors."""

    @property
    def index(self) -> Index:
        """The index that searches the chunks."""

    @property
    def remedy_unreadable(self) -> Remedy:
        """The remedy for tables that cannot be read to their end, if there is one."""

    def head(self) -> Head:
        """Return the head, at next to no cost; ModelSwitched if the vectors are of another model."""

    def read(self, since: Head | None = None) -> AbstractContextManager[Snapshot]:
        """Open a snapshot, the latest or any at least as new as `since`; DriverFailed for errors of the database."""

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction and commit it atomically, retrying it if others commit first.

        DriverFailed if the id of an added chunk or document is taken. Removing a row removes its staged vector, too.
        """

    def named(self, kind: str) -> NamedRows:
        """Return the named values of a kind."""

    def swap_vectors(self, change: int) -> bool:
        """Swap the active vectors with the staged ones and activate the staged model, as one change.

        Return False, without a change, if the change number is no longer `change`. Every row with a vector must have a
        staged one. Everybody who has the collection open gets ModelSwitched from then on.
        """

    def reopen(self, embedder: Embedder) -> "Backend":
        """Reopen the collection with the model that it was switched to; StoreMismatch if `embedder` is another."""

    def compact(self) -> Purge:
        """Remove the bytes of deleted rows from the disk; return what was done and what must be repeated.

        Others may read and write meanwhile, or wait for it.
        """

    def flush(self, *, with_graph: bool = True) -> None:
        """Write everything to disk and optimise the index; with `with_graph=False`, build no new graph."""

    def maintain(self) -> list[str]:
        """Remove the remains of deleted rows and old versions, maintain the indexes, and describe what was done."""

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Return free space to the file system; return problems, or None if less than `min_share` is free."""

    def describe(self) -> tuple[str, int]:
        """Return the kind of the search index, and the bytes on disk."""

    def inspect(self, *, is_quick: bool) -> Iterable[Defect]:
        """Find defects outside the rows: in files, indexes and derived data; `is_quick` skips slow checks."""

    def repair(self, defects: Sequence[Defect], ids: Sequence[str], mend: Callable[[Transaction], None]) -> None:
        """Repair the defects that `inspect` found, and the rows with `mend`, as one change.

        ids: Documents whose chunks the next put must rewrite, even if their `print` is unchanged.
        """

    def pack_facets(self, facets: str) -> Any:
        """Convert a JSON list to the form in which `find` returns `facets`."""

    def notes(self) -> list[str]:
        """Describe, in sentences, what an erasure cannot reach: backups, logs of a server."""

    def close(self) -> None:
        """Release all resources; closing twice is allowed."""
