"""The Lance backend: one collection as a dataset of rows, in a folder or in object storage."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any

import lance
import pyarrow as pa

from clew.core.errors import DriverFailed, NotFound, ReadOnlyStore, StoreMismatch
from clew.core.protocols import Embedder
from clew.core.report import Purge
from clew.core.settings import StoreConfig
from clew.core.stored import CollectionRecord
from clew.core.suggest import format_suggestion
from clew.core.time import from_iso, parse_iso_or_none
from clew.core.types import Vector
from clew.drivers.store.backend import DOCUMENT, STAGED, Head, Select, T, Transaction, select
from clew.drivers.store.base import BaseBackend, check_ids, complete_rows, find_lost_vectors
from clew.drivers.store.embed import check_model_in_use, other_model_error
from clew.drivers.store.lance import indexes
from clew.drivers.store.lance.address import Address, parse_address
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import ARRAYS, HEAD, SCALARS, LanceHead, make_schema, make_table
from clew.drivers.store.lance.search import LanceIndex
from clew.drivers.store.lance.snapshot import LanceSnapshot, find_version, read_snapshot
from clew.drivers.store.lance.table import MAX_PAUSE, PAUSE, Change, LanceNamed, Paused, Table
from clew.drivers.store.store import DEFAULTS, make_opener

NAMED = (  # kinds of values
    *("jobs", "sessions", "claims", "calibration", "erasing"),
    *("tuned", "evaluations", "feedback", "keys"),
)
_NAMES = "collections.lance"  # the list of collections: an object store has no folders to list


MAX_CLEANINGS = 20  # attempts while others change the files
_OF_CONTENT = ("jobs", "claims", "calibration", "erasing")  # read-only when a past version is open


class LanceBackend(BaseBackend):
    """One collection; see `Backend`. Several threads, programs and machines may use it at once.

    With `config.as_of` it shows the version of that time, read-only.
    """

    def __init__(self, url: str, *, collection: str, embedder: str, dim: int, config: StoreConfig = DEFAULTS) -> None:
        self._url, self._collection, self._config = url, collection, config
        self.embedder, self.dim = embedder, dim
        self._address = parse_address(url)
        self._as_of = parse_iso_or_none(config.as_of)
        self._table = open_table(self._address, collection)
        self.place = self._table.place
        self._lock = Lock()
        self._snapshot: LanceSnapshot | None = None
        self._named = {kind: self._open_named(kind) for kind in NAMED}
        self.index = LanceIndex(self.place, self._read_since)
        self._open()

    def _open_named(self, kind: str) -> LanceNamed:
        table = open_table(self._address, self._collection, kind)
        if kind in _OF_CONTENT:
            return LanceNamed(table, check=self._check_writable)
        return LanceNamed(table)

    def _open(self) -> None:
        """Create the collection if it is missing; StoreMismatch if another model filled it."""
        if not self._table.exists():
            if self._as_of is not None:
                raise NotFound(f"{self.place} is not there, so it has no versions")
            created, is_half = datetime.now(UTC).isoformat(), self._config.vectors == "half"
            first = LanceHead(self.embedder, self.dim, created=created, is_half=is_half)
            self._table.create(make_table([first.to_row()], make_schema(first)))
        head = self._read_latest().head
        if (head.embedder, head.dim) != (self.embedder, self.dim):
            raise other_model_error(self.place, head.embedder, head.dim, self.embedder, self.dim)
        names = open_names(self._address)
        if self._as_of is None and self._collection not in names.read():
            names.change(lambda known: known.setdefault(self._collection, True))

    # -- reads

    def head(self) -> LanceHead:
        """Return the head; ModelSwitched if the collection has another model now."""
        head = self._read_latest().head
        self._check_model(head)
        return head

    @contextmanager
    def read(self, since: Head | None = None) -> Iterator[LanceSnapshot]:
        """Open the last version, or the one of a head if that is in memory."""
        yield self._read_latest() if since is None else self._read_since(since)

    def _read_since(self, head: Head) -> LanceSnapshot:
        """Read the version of a head, or a later one."""
        known = self._snapshot
        return known if known is not None and known.head.version == head.version else self._read_latest()

    def _read_latest(self) -> LanceSnapshot:
        """Read the last version, or the one of `as_of`."""
        dataset = self._table.latest()
        with self._lock, translate_errors(self.place):
            known = self._snapshot
            if known is not None and (known.dataset.version >= dataset.version or self._as_of is not None):
                return known
            if self._as_of is not None:
                dataset = find_version(dataset, self._as_of, self.place)
            self._snapshot = self._load(dataset, known)
            return self._snapshot

    def _load(self, dataset: lance.LanceDataset, before: LanceSnapshot | None) -> LanceSnapshot:
        return read_snapshot(dataset, self.place, self._config.exact_below, before, self.embedder)

    # -- changes

    def _check_writable(self) -> None:
        if self._as_of is not None:
            raise ReadOnlyStore(f"{self.place} is opened as of {self._as_of.isoformat()}, and the past stays as it is")

    def write(self, decide: Callable[[Transaction], T], *, is_change: bool = True) -> T:
        """Run a transaction, waiting for an erasure, and retrying it if others commit first."""
        result = self._write(decide, is_change=is_change)
        with suppress(OSError, RuntimeError):  # the write is done, and the next one will join them
            indexes.join_small_fragments(self._table.copy())
        return result

    def _write(self, decide: Callable[[Transaction], T], *, is_change: bool, is_eraser: bool = False) -> T:
        self._check_writable()

        def attempt(dataset: lance.LanceDataset) -> tuple[Change | None, T]:
            snapshot = self._read_latest()
            with translate_errors(self.place):
                if snapshot.dataset.version != dataset.version:
                    snapshot = self._load(dataset, snapshot)
            if snapshot.head.paused > time.time() and not is_eraser:
                raise Paused
            self._check_model(snapshot.head)
            tx = Transaction(snapshot, always=("_rowaddr",))
            result = decide(tx)
            return _make_change(snapshot, tx, is_change=is_change), result

        return self._table.run(attempt)

    def named(self, kind: str) -> LanceNamed:
        """Return the named values of a kind."""
        return self._named[kind]

    def swap_vectors(self, change: int) -> bool:
        """Rewrite all rows with the active and staged vectors swapped."""
        self._check_writable()
        while (snapshot := self._read_latest()).head.paused > time.time():
            time.sleep(PAUSE)
        head = snapshot.head.swap_models(change)
        if head is None:
            return False
        with translate_errors(self.place):
            staged: dict[int, Vector] = dict(snapshot.find(select(STAGED), ("row", "vector")))
            used = (row for rows in snapshot.scan_batches("vector IS NOT NULL", ["row"]) for row in rows)
            if any(row["row"] not in staged for row in used):
                return False
            schema = make_schema(head)

            def make_batches() -> Iterator[pa.RecordBatch]:
                yield from make_table([head.to_row()], schema).to_batches()
                for rows in snapshot.scan_batches(f"kind NOT IN ({HEAD}, {STAGED})", (*SCALARS, *ARRAYS)):
                    kept = [
                        {"kind": STAGED, "row": row["row"], "vector": row["vector"]}
                        for row in rows
                        if row["vector"] is not None
                    ]
                    made = [
                        {**row, "vector": staged[row["row"]], "pending": None} if row["row"] in staged else row
                        for row in rows
                    ]
                    yield from make_table([*made, *kept], schema).to_batches()

            reader = pa.RecordBatchReader.from_batches(schema, make_batches())
            return self._table.replace(snapshot.dataset, reader, schema)

    def reopen(self, embedder: Embedder) -> "LanceBackend":
        """Open the same collection for the model that it was switched to."""
        head = self._read_latest().head
        check_model_in_use(self.place, embedder, head.embedder, head.dim)
        name, dim = embedder.name, embedder.dim
        return LanceBackend(self._url, collection=self._collection, embedder=name, dim=dim, config=self._config)

    # -- upkeep

    def compact(self) -> Purge:
        """Rewrite the fragments with deleted rows, and remove all older versions and the indexes."""
        self._write(_pause, is_change=False, is_eraser=True)  # earlier transactions are rejected, later ones wait
        try:
            return self._clean()
        finally:
            self._write(_resume, is_change=False, is_eraser=True)

    def _clean(self) -> Purge:
        with translate_errors(self.place):
            for index in self._table.latest().describe_indices():
                self._table.copy().drop_index(index.name)
            attempts = (indexes.join_fragments(self._table.copy(), all_deletions=True) for _ in range(MAX_CLEANINGS))
            is_done = any(attempts)
        self._table.forget_versions(timedelta(0))
        for kind in NAMED:
            if kind != "erasing":
                self._named[kind].purge()
        if not is_done:
            return Purge(again=("others changed the collection again and again meanwhile; run the erasure again",))
        return Purge(("fragments with deleted rows: written again; indexes and all older versions: removed",))

    def notes(self) -> list[str]:
        """Describe what an erasure of the datasets cannot reach."""
        return [
            "backups, copies of the bucket, versions that the object store itself keeps, and exports are their "
            "owners': they keep what was erased until they are removed"
        ]

    def flush(self, *, with_graph: bool = True) -> None:
        """Join fragments and build the indexes that are due; without `with_graph`, not the vector index."""
        if self._as_of is not None:
            return
        keep, exact_below = timedelta(days=self._config.keep_versions), self._config.exact_below
        with translate_errors(self.place):
            indexes.keep_up(self._table, self._read_latest().head, exact_below, keep, vectors=with_graph)

    def maintain(self) -> list[str]:
        """Join fragments, update the indexes and remove old versions; describe what was done.

        A vector index whose partitions have grown fourfold is rebuilt. Others can search and write meanwhile.
        """
        if self._as_of is not None:
            return []
        before = self._table.copy()
        fragments, versions = len(before.get_fragments()), {each["version"] for each in before.versions()}
        self.flush()
        with translate_errors(self.place):
            done = self._table.change_indexes(partial(indexes.learn_partitions, head=self._read_latest().head))
            now = self._table.copy()
            joined, removed = len(now.get_fragments()), versions - {each["version"] for each in now.versions()}
            names = sorted(index.name for index in now.describe_indices())
        if joined < fragments:
            done.append(f"joined {fragments} fragments to {joined}")
        if removed:
            done.append(f"removed {len(removed)} old versions")
        return [*done, f"indexes kept up: {', '.join(names)}"] if names else done

    def describe(self) -> tuple[str, int]:
        """Return the kind of the search index, and the bytes of this version."""
        snapshot = self._read_latest()
        with translate_errors(self.place):
            size = measure_bytes(snapshot.dataset)
            if snapshot.segments is not None:
                return "exact, in memory", size
            uses_index = indexes.has_index(snapshot.dataset, indexes.VECTOR_INDEX)
            return "Lance IVF-PQ, re-ranked" if uses_index else "exact, in Lance", size

    def pack_facets(self, facets: str) -> frozenset[str]:
        """Return the facets as a set."""
        return frozenset(json.loads(facets))

    def close(self) -> None:
        """Release all datasets."""
        self._table.close()
        for each in self._named.values():
            each.close()


def _make_change(snapshot: LanceSnapshot, tx: Transaction, *, is_change: bool) -> Change | None:
    """Make the change of a transaction; DriverFailed if the id of an added row is taken."""
    head = tx.finish(is_change=is_change)
    if head is None:
        return None
    assert isinstance(head, LanceHead)
    check_ids(tx)
    added = complete_rows(tx)
    filled = [row for key, row in added.items() if key in tx.filled]
    removed = [*tx.removed.values(), *find_lost_vectors(tx, snapshot.head, head), *filled]
    addresses = {snapshot.address, *(row["_rowaddr"] for row in removed)}
    return Change(addresses, make_table([head.to_row(), *added.values()], make_schema(head)))


def _pause(tx: Transaction) -> None:
    assert isinstance(tx.head, LanceHead)
    erased = datetime.now(UTC).isoformat(timespec="seconds")
    tx.head = replace(tx.head, erased=erased, paused=time.time() + MAX_PAUSE)


def _resume(tx: Transaction) -> None:
    assert isinstance(tx.head, LanceHead)
    tx.head = replace(tx.head, paused=0.0)


open_store = make_opener(LanceBackend)


def open_names(address: Address) -> LanceNamed:
    """Open the list of collections below an address."""
    return LanceNamed(Table(address.join(_NAMES), address.place, address.options))


def open_table(address: Address, collection: str, name: str = "content") -> Table:
    """Open the content dataset of a collection, or one of its other datasets."""
    place = f"collection {collection!r} in {address.place}"
    return Table(address.join(collection, f"{name}.lance"), place, address.options)


def read_stored_embedder_name(url: str, collection: str, as_of: str = "") -> str | None:
    """Read the name of a collection's embedder, now or at a time; None if there is no such collection."""
    table = open_table(parse_address(url), collection)
    if not table.exists():
        return None
    with translate_errors(table.place):
        at, latest = parse_iso_or_none(as_of), table.latest()
        return read_snapshot(find_version(latest, at, table.place) if at else latest, table.place).head.embedder


def list_collections(url: str) -> list[CollectionRecord]:
    """List the collections below an address, by name."""
    address = parse_address(url)
    found: list[CollectionRecord | None] = []
    for name in sorted(open_names(address).read()):
        try:
            found.append(_read_record(open_table(address, name), name))
        except (DriverFailed, StoreMismatch) as error:
            found.append(CollectionRecord(name, problem=error.message))
    return [record for record in found if record]


def _read_record(table: Table, name: str) -> CollectionRecord | None:
    if not table.exists():
        return None
    with translate_errors(table.place):
        snapshot = read_snapshot(table.latest(), table.place)
        times = [updated for (updated,) in snapshot.find(Select(DOCUMENT), ("updated",))]
        size = measure_bytes(snapshot.dataset)
    head, updated = snapshot.head, from_iso(max(times, default=None))
    return CollectionRecord(name, head.documents, head.chunks, head.embedder, from_iso(head.created), updated, size)


def measure_bytes(dataset: Any) -> int:
    """Add up the known sizes of the files of a version."""
    return sum(file.file_size_bytes or 0 for each in dataset.get_fragments() for file in each.metadata.files)


def drop_collection(url: str, name: str) -> CollectionRecord:
    """Remove a collection with all its datasets; return its last record, or raise NotFound."""
    address = parse_address(url)
    known = {record.name: record for record in list_collections(url)}
    if name not in known:
        hint = format_suggestion(name, known) or "`clew collections` lists them"
        raise NotFound(f"there is no collection {name!r} in {address.place}; {hint}")
    open_names(address).change(lambda names: names.pop(name, None))
    for each in ("content", *NAMED):
        open_table(address, name, each).drop()
    return known[name]
