"""What a database brings to the store: rows, transactions, named values and an index; it knows nothing of documents.

`Store` decides every verb over these few methods, so all backends behave alike; `tests/contracts` says what they owe.
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
Row = dict[str, Any]  # by the name of the column; what is missing is null
Columns = tuple[Any, ...]  # of a row, in the order in which they were asked for
Key = tuple[Any, ...]
Operator = Literal["in", "<", ">"]
T = TypeVar("T")
# The columns of each kind of row. `facets` is a JSON list when it is added, `terms`, `counts` and `vector` are arrays,
# all else is a number, a text or None. `doc` is the number of a document's row. `pending` is 1 where a vector is still
# to be made, else null. Rows are found by columns in INDEXED.
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
    """What is said of the whole collection; every change makes it anew."""

    embedder: str
    dim: int
    change: int = 0
    documents: int = 0
    chunks: int = 0
    length: int = 0  # of all chunks in terms
    last: int = 0  # the greatest number of a row so far
    pending: int = 0  # chunks whose vector is still to be made
    staged: StagedModel | None = None
    version: int = 0  # of the backend: another one if anything changed, even where the change number stays

    @property
    def average_length(self) -> float:
        """The mean number of terms of a chunk."""
        return self.length / self.chunks if self.chunks else 0.0

    def swap_models(self, change: int) -> Self | None:
        """Return the next head, with the staged model in use; None after another change, or if no model is staged."""
        if self.change != change or self.staged is None:
            return None
        model, before = self.staged, StagedModel(self.embedder, self.dim, was_used=True)
        return replace(self, embedder=model.embedder, dim=model.dim, change=change + 1, pending=0, staged=before)


@dataclass(slots=True)
class Select:
    """Rows of a kind for which all of the conditions hold, and one of the alternatives of a filter if there are any.

    order: The column by which they come, "-" before it for the greatest first; "" for any order.
    limit: How many of them at most, the first in this order.
    """

    kind: int
    where: tuple[tuple[str, Operator, Any], ...] = ()
    alternatives: tuple[Condition, ...] | None = None
    order: str = ""
    limit: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no row can be meant."""
        return self.alternatives == () or any(op == "in" and not given for _, op, given in self.where)

    @property
    def is_filtered(self) -> bool:
        """Whether the alternatives may exclude a row."""
        return self.alternatives is not None and not any(each.is_empty for each in self.alternatives)

    def get_values(self, column: str) -> Collection[Any] | None:
        """Return the values that a column may have; None if any."""
        return next((given for name, op, given in self.where if op == "in" and name == column), None)

    def admits(self, row: Mapping[str, Any]) -> bool:
        """Return whether the conditions hold for a row of the kind, whatever the alternatives."""
        return all(_TESTS[op](row.get(name), given) for name, op, given in self.where)

    def admits_facets(self, facets: str) -> bool:
        """Return whether facets fulfil one of the alternatives, whatever the time."""
        present = frozenset(json.loads(facets))
        return any(each.admits_facets(present) for each in self.alternatives or ())

    def choose(self, rows: Iterable[Row]) -> list[Row]:
        """Choose the rows that are meant, of rows of the kind as they were added; for a backend that has no queries."""
        return self.arrange(row for row in rows if self.admits(row) and self._admits_filter(row))

    def _admits_filter(self, row: Mapping[str, Any]) -> bool:
        if not self.is_filtered:
            return self.alternatives != ()
        present, seconds = frozenset(json.loads(row.get("facets") or "[]")), row.get("seconds")
        return any(each.admits_facets(present) and each.admits_time(seconds) for each in self.alternatives or ())

    def arrange(self, rows: Iterable[Row]) -> list[Row]:
        """Arrange rows in the order that is asked for, as many as are."""
        found = list(rows)
        if self.order:
            name = self.order.removeprefix("-")
            found.sort(key=lambda row: row[name], reverse=self.order.startswith("-"))
        return found if self.limit is None else found[: self.limit]


def select(kind: int, alternatives: Sequence[Condition] | None = None, **columns: Collection[Any]) -> Select:
    """Select rows of a kind whose columns have one of the given values each."""
    where = tuple([(name, "in", values) for name, values in columns.items()])
    return Select(kind, where, None if alternatives is None else tuple(alternatives))  # type: ignore[arg-type]


def named_documents(alternatives: Sequence[Condition]) -> set[str] | None:
    """Return the ids of the only documents that a filter can admit; None if it names none."""
    named = [find_named_documents(each) for each in alternatives]
    return None if None in named else {doc_id for each in named for doc_id in each or ()}


class Snapshot(Protocol):
    """One state of a collection."""

    @property
    def head(self) -> Head:
        """What is said of the whole."""

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find the named columns of the rows that are meant, in this order.

        CollectionDamaged if `facets`, `vector`, `terms` or `counts` is asked for and not as written, ModelSwitched if
        `vector` is, and is of another model by now.
        """


class Transaction:
    """A transaction that is being decided: the rows of a snapshot by name, with its own changes over them.

    always: Columns that every row is to have besides those that are asked for.
    """

    def __init__(self, snapshot: Snapshot, always: Sequence[str] = ()) -> None:
        self._snapshot, self._always = snapshot, always
        self.head = snapshot.head
        self._last, self._documents, self._chunks, self._length, self._pending = self.head.last, 0, 0, 0, 0
        self.removed: dict[Key, Row] = {}
        self.added: dict[Key, Row] = {}
        self.filled: dict[Key, Row] = {}
        self._added_by: dict[tuple[int, str], dict[Any, dict[Key, Row]]] = {}  # as far as it was asked for
        self._ahead: dict[tuple[int, str], tuple[frozenset[str], Mapping[Any, list[Row]]]] = {}

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Find the rows that are meant, as they will be, each with `kind`, its key and at least the named columns."""
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
        """Find the row that is meant, if there is one."""
        found = self.find(wanted, columns)
        return found[0] if found else None

    def read_ahead(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Read the rows of a condition of one column at once; `find` then has those of each value without another."""
        found = self.find_stored(wanted, columns)
        ((name, _, given),) = wanted.where
        by_value: dict[Any, list[Row]] = {value: [] for value in given}
        for row in found:
            by_value[row[name]].append(row)
        self._ahead[wanted.kind, name] = frozenset(columns), by_value
        return found

    def find_stored(self, wanted: Select, columns: Sequence[str]) -> list[Row]:
        """Find the rows that are meant, as they are; they are never changed."""
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
        if wanted.limit is not None and self.removed:  # some of the first may go
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
        """Let new rows be numbered after this one, if it is not before the last."""
        self._last = max(self._last, last)

    def fill(self, rows: Iterable[Row]) -> None:
        """Give rows that are pending their vector; a backend changes only `vector`, `print` and `pending` of them."""
        for row in rows:
            self.filled[key_of(row["kind"], row)] = row
            self._pending -= row["kind"] == CHUNK

    def remove(self, rows: Iterable[Row]) -> None:
        """Remove rows that were found here; of a chunk its length, and whether it is pending, have to be known."""
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
            self._length += sign * (row["length"] or 0)  # damage may have taken it
            self._pending += sign * (row["pending"] == 1)

    def finish(self, *, is_change: bool) -> Head | None:
        """Return the head to commit, with the next change number if this is a change; None if nothing is to commit."""
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
    """Return the kind of a row and the columns that are its own alone."""
    names = KEYS[kind]
    return (kind, row[names[0]]) if len(names) == 1 else (kind, row[names[0]], row[names[1]])


Values = dict[str, Any]  # values of JSON by name, in the order in which they were added


class NamedRows(Protocol):
    """Small values of a kind that are kept by name beside the content: jobs, sessions, claims, records."""

    def read(self, names: Collection[str] | None = None) -> Values:
        """Read the values of these names that exist, or all."""

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values of these names, or all, in place; it may be run again.

        No two of a collection and kind run at once, in any process.
        """

    def purge(self) -> None:
        """Take from the disk what was deleted or replaced, as far as that is known."""

    def clock(self) -> float:
        """Return the seconds of a clock that all processes share."""


RowScores = list[tuple[int, float]]  # the numbers of rows and their scores, best first


@dataclass(frozen=True, slots=True)
class RowCandidates:
    """Candidates by the rows of their chunks; the columns are those of `clew.core.candidates.Candidates`."""

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
    """How thoroughly vectors are compared: all of them, or by a graph that keeps so many candidates (or its usual)."""

    is_exact: bool = False
    breadth: int | None = None


USUAL: Final = Effort()


class Queries(NamedTuple):
    """Queries that are searched together, a vector and its terms each, what to find for each, and more chunks by id."""

    vectors: Matrix
    terms: Sequence[PackedTerms]
    rankings: Sequence[Ranking]
    chunk_ids: Sequence[str] = ()
    effort: Effort = USUAL


class Ranks(Protocol):
    """Finds rows by vector and by terms. It follows the change number: at least up to the given head."""

    def nearest(self, head: Head, vector: Vector, k: int, where: Filter, effort: Effort) -> RowScores:
        """Find the k chunks of greatest cosine, best first, ties by id."""

    def matching(self, head: Head, terms: PackedTerms, k: int, where: Filter) -> RowScores:
        """Find the k chunks of greatest BM25 score that have any of the terms, best first, ties by id."""


class Index(Ranks, Protocol):
    """All that is searched in a collection."""

    def nearest_documents(self, head: Head, vector: Vector, k: int, where: Filter) -> list[tuple[str, float]]:
        """Find the k documents whose own vector has the greatest cosine, best first, ties by id; return their ids."""

    def count_having(self, head: Head, hashes: Hashes, at_most: int | None) -> list[int]:
        """Count the chunks that have each of the terms, up to `at_most`."""

    def vectors(self, head: Head, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors of the chunks that exist among the ids, by id."""

    def candidates(self, head: Head, queries: Queries) -> list[RowCandidates]:
        """Find what the rankings of each query find, and the chunks as far as they exist, each once."""


class Backend(Protocol):
    """The database of one collection, opened for one embedder. Several threads may use it."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    @property
    def dim(self) -> int:
        """The width of the vectors in use."""

    @property
    def index(self) -> Index:
        """What searches the chunks."""

    @property
    def remedy_unreadable(self) -> Remedy:
        """The remedy for tables that cannot be read to their end, if there is one."""

    def head(self) -> Head:
        """Return what is said of the whole, at next to no cost; ModelSwitched if the vectors are of another model."""

    def read(self, since: Head | None = None) -> AbstractContextManager[Snapshot]:
        """Return one state for several reads, the last or any since a head; DriverFailed for a database's errors."""

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction, committed whole or not at all; it is decided again if others were faster.

        DriverFailed if the id of an added chunk or document is taken; of a removed row, its staged vector goes too.
        """

    def named(self, kind: str) -> NamedRows:
        """Return the values of a kind."""

    def swap_vectors(self, change: int) -> bool:
        """Exchange the vectors in use with the staged ones, whose model is then in use, as one change.

        False, and nothing happens, if the change number is another by now. Every row that has a vector has a staged
        one. Whoever has the collection open gets ModelSwitched from then on.
        """

    def reopen(self, embedder: Embedder) -> "Backend":
        """Open the same collection for the model it has by now, in place of this; StoreMismatch if it is another."""

    def compact(self) -> Purge:
        """Remove from the disk what deletions left there, to the bytes; return what was done, and what is to do again.

        Others may read and write meanwhile, or wait for it.
        """

    def flush(self, *, with_graph: bool = True) -> None:
        """Return when all writes are on disk and the index is in its best shape; without a new graph if not asked."""

    def maintain(self) -> list[str]:
        """Remove what deleted rows and old versions leave behind, keep up the indexes, and say what was done."""

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Give free room back to the disk; return what could not be done, None if less than such a share is free."""

    def describe(self) -> tuple[str, int]:
        """Return the kind of the index that searches, and the bytes on disk."""

    def inspect(self, *, is_quick: bool) -> Iterable[Defect]:
        """Find what is wrong with what no row says: files, indexes, derived things; quickly, without slow checks."""

    def repair(self, defects: Sequence[Defect], ids: Sequence[str], mend: Callable[[Transaction], None]) -> None:
        """Mend what `inspect` finds, and the rows by `mend`, as one change.

        ids: Documents whose chunks are written anew by the next put, even if their `print` is the same.
        """

    def pack_facets(self, facets: str) -> Any:
        """Pack a JSON list as what `find` gives as `facets`."""

    def notes(self) -> list[str]:
        """Return what is beyond the reach of an erasure, as sentences: backups, logs of a server."""

    def close(self) -> None:
        """Release all resources; closing twice is allowed."""
