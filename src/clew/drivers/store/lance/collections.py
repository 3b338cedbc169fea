"""The collections below an address: which there are, and the removal of one."""

from typing import Any

from clew.core.collection import CollectionRecord
from clew.core.errors import DriverFailed, NotFound, StoreMismatch
from clew.core.suggest import format_suggestion
from clew.core.time import from_iso
from clew.drivers.store.backend import DOCUMENT, Select
from clew.drivers.store.lance.address import Address, parse_address
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.named import LanceNamed
from clew.drivers.store.lance.snapshot import read_snapshot
from clew.drivers.store.lance.table import Table

NAMED = (  # kinds of values
    *("jobs", "sessions", "claims", "calibration", "erasing"),
    *("tuned", "evaluations", "feedback", "keys"),
)
_NAMES = "collections.lance"  # which collections there are: an object store has no folders to list


def open_names(address: Address) -> LanceNamed:
    """The names of the collections below an address."""
    return LanceNamed(Table(address.join(_NAMES), address.place, address.options))


def open_table(address: Address, collection: str, name: str = "content") -> Table:
    """The dataset of a collection, or one beside it."""
    place = f"collection {collection!r} in {address.place}"
    return Table(address.join(collection, f"{name}.lance"), place, address.options)


def read_stored_embedder_name(url: str, collection: str) -> str | None:
    """The name of the embedder that a collection was filled with; None if there is no such collection."""
    table = open_table(parse_address(url), collection)
    if not table.exists():
        return None
    with translate_errors(table.place):
        return read_snapshot(table.latest(), table.place).head.embedder


def list_collections(url: str) -> list[CollectionRecord]:
    """The collections below an address, by name."""
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
    """The size of the files of the last version, as far as Lance knows it."""
    return sum(file.file_size_bytes or 0 for each in dataset.get_fragments() for file in each.metadata.files)


def drop_collection(url: str, name: str) -> CollectionRecord:
    """Removes a collection with everything beside it; what it was, or NotFound."""
    address = parse_address(url)
    known = {record.name: record for record in list_collections(url)}
    if name not in known:
        hint = format_suggestion(name, known) or "`clew collections` lists them"
        raise NotFound(f"there is no collection {name!r} in {address.place}; {hint}")
    open_names(address).change(lambda names: names.pop(name, None))
    for each in ("content", *NAMED):
        open_table(address, name, each).drop()
    return known[name]
