"""The collections below an address: which there are, and the removal of one."""

from clew.core.collection import CollectionRecord
from clew.core.errors import NotFound
from clew.core.suggest import format_suggestion
from clew.core.time import from_iso
from clew.drivers.store.lance.address import Address, parse_address
from clew.drivers.store.lance.content import Content
from clew.drivers.store.lance.entries import EntryTable
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import DOCUMENT
from clew.drivers.store.lance.select import select
from clew.drivers.store.lance.staged_datasets import drop_staged, list_staged
from clew.drivers.store.lance.table import Table

NAMES = "collections.lance"  # which collections there are: an object store has no folders to list
BESIDE = ("jobs", "sessions", "claims", "records", "erasures")


def open_names(address: Address) -> EntryTable:
    """The names of the collections below an address."""
    return EntryTable(address.join(NAMES), address.place, address.options)


def open_content_table(address: Address, collection: str) -> Table:
    """The dataset of a collection."""
    place = f"collection {collection!r} in {address.place}"
    return Table(address.join(collection, "content.lance"), place, address.options)


def open_entries(address: Address, collection: str, name: str) -> EntryTable:
    """A dataset beside a collection."""
    return EntryTable(address.join(collection, f"{name}.lance"), address.place, address.options)


def read_stored_embedder_name(url: str, collection: str) -> str | None:
    """The name of the embedder that a collection was filled with; None if there is no such collection."""
    table = open_content_table(parse_address(url), collection)
    if not table.exists():
        return None
    return Content(table, embedder="", dim=0, exact_below=0).read().head.embedder


def list_collections(url: str) -> list[CollectionRecord]:
    """The collections below an address, by name."""
    address = parse_address(url)
    names = sorted(open_names(address).read())
    found = (_read_record(address, name) for name in names)
    return [record for record in found if record is not None]


def _read_record(address: Address, name: str) -> CollectionRecord | None:
    table = open_content_table(address, name)
    if not table.exists():
        return None
    snapshot = Content(table, embedder="", dim=0, exact_below=0).read()
    with translate_errors(table.place):
        times = [row["updated"] for row in snapshot.find(select(DOCUMENT), ("updated",))]
        size = measure_bytes(snapshot.dataset)
    head = snapshot.head
    return CollectionRecord(
        name,
        head.documents,
        head.chunks,
        head.embedder,
        from_iso(head.created),
        from_iso(max(times, default=None)),
        size,
    )


def measure_bytes(dataset: object) -> int:
    """The size of the files of the last version, as far as Lance knows it."""
    fragments = dataset.get_fragments()  # type: ignore[attr-defined]
    return sum(file.file_size_bytes or 0 for each in fragments for file in each.metadata.files)


def drop_collection(url: str, name: str) -> CollectionRecord:
    """Removes a collection with everything beside it; what it was, or NotFound."""
    address = parse_address(url)
    known = {record.name: record for record in list_collections(url)}
    if name not in known:
        hint = format_suggestion(name, known) or "`clew collections` lists them"
        raise NotFound(f"there is no collection {name!r} in {address.place}; {hint}")
    open_names(address).change(lambda names: names.pop(name, None))
    table = open_content_table(address, name)
    with translate_errors(table.place):
        for uri in list_staged(table.folder, address.options):
            drop_staged(uri, address.options)
    table.drop()
    for each in BESIDE:
        open_entries(address, name, each).drop()
    return known[name]
