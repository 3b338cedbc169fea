"""The base of custom stores: it implements everything that can be derived from rows.

`BaseBackend` needs four methods: `snapshot` and `commit` for the rows, `read_named` and `write_named` for small values.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from clew.core.doctor import Defect, Remedy
from clew.core.errors import DriverFailed
from clew.core.protocols import Embedder
from clew.core.report import Purge
from clew.drivers.store import checksums
from clew.drivers.store.backend import (
    CHUNK,
    COLUMNS,
    DOCUMENT,
    KEYS,
    STAGED,
    Backend,
    Columns,
    Head,
    Index,
    Key,
    NamedRows,
    Row,
    Select,
    Snapshot,
    T,
    Transaction,
    Values,
    key_of,
    select,
)
from clew.drivers.store.embed import check_model_in_use, model_switched_error, other_model_error
from clew.drivers.store.scan import ScanIndex

MAX_ATTEMPTS: Final = 1000  # of a transaction while others commit first
REQUIRED: Final = ("snapshot", "commit", "read_named", "write_named")


class OwnSnapshot(Protocol):
    """One state of a custom database: its head and its rows."""

    @property
    def head(self) -> Head | None:
        """The head that was committed last; None if there is no collection yet."""

    def find(self, wanted: Select, columns: Sequence[str]) -> Iterable[Row]:
        """Find the selected rows; `wanted.choose(rows)` picks them from all rows of the kind."""


class BaseBackend:
    """A backend over `snapshot`, `commit`, `read_named` and `write_named`; see `Backend`.

    place: The location of the collection, for messages.
    """

    remedy_unreadable: Remedy = ""
    embedder: str = ""
    dim: int = 0
    index: Index
    _is_closed = False

    def __init__(self, place: str) -> None:
        self.place = place

    # -- the methods to implement; convert errors of the database to DriverFailed

    def snapshot(self) -> AbstractContextManager[OwnSnapshot]:
        """Open a snapshot, which does not change while others write."""
        raise NotImplementedError

    def commit(self, before: Head | None, head: Head, removed: Collection[Key], added: Mapping[Key, Row]) -> bool:
        """Remove rows, then add rows, and replace the head, atomically.

        Return False, without a change, if the stored head is no longer `before`. Every commit has a new `head.version`.
        """
        raise NotImplementedError

    def read_named(self, kind: str) -> Mapping[str, str]:
        """Return the texts of a kind by name, in the order in which they were added."""
        raise NotImplementedError

    def write_named(self, kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Replace the texts of a kind by `after`; if they are no longer `before`, change nothing and return False."""
        raise NotImplementedError

    # -- opening

    def read_embedder(self) -> str | None:
        """Return the name of the collection's embedder; None if there is no collection."""
        head = self._read_head()
        return head.embedder if head else None

    def open(self, embedder: str, dim: int) -> None:
        """Open or create the collection for a model; StoreMismatch if it has vectors of another model."""
        self.embedder, self.dim, self._is_closed = embedder, dim, False
        self.index = ScanIndex(self.read)
        if self._read_head() is None:
            self.commit(None, Head(embedder, dim), (), {})
        head = self._read_head()
        if head is None:
            raise DriverFailed(f"{self.place}: the collection that was made is not there; `commit` does not commit")
        if (head.embedder, head.dim) != (embedder, dim):
            raise other_model_error(self.place, head.embedder, head.dim, embedder, dim)

    def _read_head(self) -> Head | None:
        with self.snapshot() as snapshot:
            return snapshot.head

    def reopen(self, embedder: Embedder) -> "Backend":
        """Open the same collection for the model that it was switched to."""
        head = self._read_head() or Head("", 0)
        check_model_in_use(self.place, embedder, head.embedder, head.dim)
        other = copy(self)
        other.open(embedder.name, embedder.dim)
        return other

    def close(self) -> None:
        """Close the backend; later calls raise DriverFailed."""
        self._is_closed = True

    # -- rows

    def head(self) -> Head:
        """Return the head."""
        with self.read() as snapshot:
            self._check_model(snapshot.head)
            return snapshot.head

    def _check_model(self, head: Head) -> None:
        if head.embedder != self.embedder:
            raise model_switched_error(self.place, head.embedder, self.embedder)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DriverFailed(f"{self.place} is closed; open it again")

    @contextmanager
    def read(self, since: Head | None = None) -> Iterator[Snapshot]:
        """Open a snapshot for several reads."""
        self._check_open()
        with self.snapshot() as snapshot:
            if snapshot.head is None:
                raise DriverFailed(f"{self.place} was removed meanwhile; open it again")
            yield _CheckedSnapshot(snapshot, snapshot.head, self._check_model)

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction, retrying it if others commit first."""
        for _ in range(MAX_ATTEMPTS):
            with self.read() as snapshot:
                before = snapshot.head
                self._check_model(before)
                tx = Transaction(snapshot)
                result = decide(tx)
                head = tx.finish(is_change=is_change)
                if head is None:
                    return result
                check_ids(tx)
                lost = (key_of(STAGED, row) for row in find_lost_vectors(tx, before, head))
                removed, added = {*tx.removed, *tx.filled, *lost}, complete_rows(tx)
            if self.commit(before, replace(head, version=before.version + 1), removed, added):
                return result
        raise DriverFailed(f"{self.place}: others changed the collection {MAX_ATTEMPTS} times meanwhile; try again")

    def named(self, kind: str) -> NamedRows:
        """Return the named values of a kind."""
        return _OwnNamed(self, kind)

    def swap_vectors(self, change: int) -> bool:
        """Swap the active vectors with the staged ones, in one transaction over all rows with a vector."""

        def swap(tx: Transaction) -> bool:
            head = tx.head.swap_models(change)
            if head is None:
                return False
            staged = {row["row"]: row for row in tx.find(select(STAGED), COLUMNS[STAGED])}
            rows = (row for kind in (CHUNK, DOCUMENT) for row in tx.find(select(kind), COLUMNS[kind]))
            used = [row for row in rows if row["vector"] is not None or row["pending"]]
            if any(row["row"] not in staged for row in used):
                return False
            tx.remove([*used, *staged.values()])
            tx.add({**row, "vector": staged[row["row"]]["vector"], "pending": None} for row in used)
            had = (row for row in used if row["vector"] is not None)
            tx.add({"kind": STAGED, "row": row["row"], "vector": row["vector"]} for row in had)
            tx.head = replace(head, change=change, pending=tx.head.pending)  # `finish` counts both
            return True

        return self.write(swap)

    def pack_facets(self, facets: str) -> Any:
        """Return the facets as they are."""
        return facets

    # -- upkeep

    def flush(self, *, with_graph: bool = True) -> None:
        """Do nothing: a commit leaves nothing to do."""
        self._check_open()

    def maintain(self) -> list[str]:
        """Do nothing: nothing needs upkeep."""
        return []

    def reclaim_room(self, min_share: float) -> list[str] | None:
        """Return None: free space is unknown."""
        return None

    def describe(self) -> tuple[str, int]:
        """Return the kind of the index, and 0 for the unknown size."""
        return "exact, by scanning", 0

    def compact(self) -> Purge:
        """Do nothing: it is unknown whether deleted rows leave bytes behind, as `notes` says."""
        return Purge()

    def notes(self) -> list[str]:
        """Describe what an erasure may leave behind."""
        return [f"whether deleted rows leave bytes behind in {self.place}, and in its backups, is not known to Clew"]

    # -- doctor

    def inspect(self, *, is_quick: bool) -> Iterable[Defect]:
        """Find nothing: nothing is derived from the rows."""
        return ()

    def repair(self, defects: Sequence[Defect], ids: Sequence[str], mend: Callable[[Transaction], None]) -> None:
        """Mend the rows, and make the next put rewrite the chunks of these documents."""

        def repair(tx: Transaction) -> None:
            mend(tx)
            docs = [row["row"] for row in tx.find(select(DOCUMENT, id=set(ids)), ("row",))]
            chunks = tx.find(select(CHUNK, doc=docs), COLUMNS[CHUNK])
            tx.remove(chunks)
            tx.add({**row, "print": 0} for row in chunks)  # no fingerprint is 0, so the next put replaces all

        self.write(repair, is_change=False)


@dataclass(frozen=True, slots=True)
class _CheckedSnapshot:
    """A snapshot over a custom one that returns columns; ModelSwitched for vectors of another model."""

    snapshot: OwnSnapshot
    head: Head
    check_model: Callable[[Head], None]

    def find(self, wanted: Select, columns: Sequence[str]) -> list[Columns]:
        """Find columns of the selected rows."""
        if wanted.is_empty:
            return []
        if "vector" in columns:
            self.check_model(self.head)
        names = dict.fromkeys((*KEYS[wanted.kind], *columns, *filter(None, [wanted.order.removeprefix("-")])))
        found = self.snapshot.find(wanted, tuple(names))
        return [tuple(map(row.get, columns)) for row in found]


class NamedTexts:
    """The values of a kind, stored as JSON; see `NamedRows`. A backend implements `load_texts` and `change`."""

    def load_texts(self, names: Collection[str] | None = None) -> Mapping[str, str]:
        """Load the existing texts with these names, or all, in the order in which they were added."""
        raise NotImplementedError

    def read(self, names: Collection[str] | None = None) -> Values:
        """Read the existing values with these names, or all."""
        return {name: json.loads(text) for name, text in self.load_texts(names).items()}

    def purge(self) -> None:
        """Do nothing: nothing is known to remain on disk."""

    def clock(self) -> float:
        """Return the time of this machine's clock in seconds."""
        return time.time()


def check_texts(kind: str, rows: Iterable[Sequence[Any]]) -> dict[str, str]:
    """Return texts by name, from rows of (name, text, checksum); CollectionDamaged for a wrong checksum."""
    texts: dict[str, str] = {}
    for name, value, stored in rows:
        checksums.check(f"{name or 'the text'!r} of {kind}", stored, kind, name, value)
        texts[name] = value
    return texts


def change_texts(
    before: Mapping[str, str], decide: Callable[[Values], T], names: Collection[str] | None = None
) -> tuple[T, dict[str, str]]:
    """Run `decide` on the values with these names, or all; return its result, and all texts afterwards."""
    values = {name: json.loads(text) for name, text in before.items() if names is None or name in names}
    others = before.keys() - values.keys()
    result = decide(values)
    made = {name: json.dumps(value) for name, value in values.items()}
    return result, {name: text for name, text in before.items() if name in others or name in made} | made


class _OwnNamed(NamedTexts):
    """The values of a kind over `read_named` and `write_named`."""

    def __init__(self, backend: BaseBackend, kind: str) -> None:
        self._backend, self._kind = backend, kind

    def load_texts(self, names: Collection[str] | None = None) -> Mapping[str, str]:
        """Load the existing texts with these names, or all."""
        self._backend._check_open()
        texts = self._backend.read_named(self._kind)
        return {name: text for name, text in texts.items() if names is None or name in names}

    def change(self, decide: Callable[[Values], T], names: Collection[str] | None = None) -> T:
        """Run a transaction that changes the values, retrying it if others commit first."""
        for _ in range(MAX_ATTEMPTS):
            before = self.load_texts()
            result, after = change_texts(before, decide, names)
            if after == before or self._backend.write_named(self._kind, before, after):
                return result
        raise DriverFailed(f"{self._backend.place}: others changed {self._kind} {MAX_ATTEMPTS} times; try again")


def check_ids(tx: Transaction) -> None:
    """Raise DriverFailed if the id of an added document or chunk is taken or not unique."""
    kept = {(row["kind"], row["id"]) for row in tx.removed.values() if "id" in row}
    added = [(row["kind"], row["id"]) for row in tx.added.values() if row["kind"] in (DOCUMENT, CHUNK)]
    new = set(added) - kept
    by_kind = ((kind, {each for one, each in new if one == kind}) for kind in (DOCUMENT, CHUNK))
    stored = [row for kind, ids in by_kind if ids for row in tx.find_stored(select(kind, id=ids), ("id",))]
    left = [(row["kind"], row["id"]) for row in stored if key_of(row["kind"], row) not in tx.removed]
    taken = [each for kind, each in left if (kind, each) in new]
    if len(set(added)) < len(added) or taken:
        which = taken[0] if taken else next(each for kind, each in added if added.count((kind, each)) > 1)
        raise DriverFailed(
            f"a chunk id is given twice, or is taken by another document ({which!r}); nothing was stored"
        )


def complete_rows(tx: Transaction) -> dict[Key, Row]:
    """Return the complete rows to write: added rows, and stored rows that get their vector.

    A chunk that only moved keeps its stored vector.
    """
    rows = dict(tx.added)
    for kind in (CHUNK, DOCUMENT):
        numbers = [key[1] for key in tx.filled if key[0] == kind]
        for row in tx.find_stored(select(kind, row=numbers), COLUMNS[kind]):
            key = key_of(kind, row)
            rows[key] = {**row, **tx.filled[key], "pending": None}
    moved = [
        key[1] for key, row in tx.added.items() if key[0] == CHUNK and not row["pending"] and row["vector"] is None
    ]
    for row in tx.find_stored(select(CHUNK, row=moved), ("vector",)):
        rows[CHUNK, row["row"]] = {**rows[CHUNK, row["row"]], "vector": row["vector"]}
    return rows


def find_lost_vectors(tx: Transaction, before: Head, head: Head) -> list[Row]:
    """Find the staged vectors that a transaction deletes: those of removed rows, or all if it ends the staging."""
    if before.staged is None:
        return []
    gone = [key[1] for key in tx.removed if key[0] in (DOCUMENT, CHUNK) and key not in tx.added]
    return tx.find_stored(select(STAGED) if head.staged is None else select(STAGED, row=gone), ())
