"""The verbs on unopened collections: list all at a path, drop one, accept the rest of a damaged one."""

from pathlib import Path

from clew import drivers
from clew.core.doctor import DoctorReport
from clew.core.errors import SettingsError
from clew.core.stored import CollectionRecord, DroppedCollection

MAX_NAME_BYTES = 200  # the name may become a folder's


def list_collections(path: str | Path) -> list[CollectionRecord]:
    """List the collections in a folder or on a server ("postgresql://…", "s3://…"), by name.

    A collection that cannot be opened is listed with its `problem`. Raise NotFound if there is no such folder.
    """
    _check_can_be_listed(path)
    return drivers.list_collections(path)


def drop_collection(path: str | Path, name: str) -> DroppedCollection:
    """Delete a collection with all its documents, jobs and saved chats; return what was deleted.

    On a server all its rows and indexes are deleted. In a folder Clew's files are deleted, and the folder itself if it
    is then empty; `left` names other files. Raise NotFound if there is no such collection, and DriverFailed, with
    nothing removed, while a collection in a folder is open in this or another process.
    """
    _check_can_be_listed(path)
    check_collection_name(name)
    return drivers.drop_collection(path, name)


def check_collection_name(name: str) -> None:
    """Raise SettingsError if a name is not valid for a collection."""
    if not name or name.startswith(".") or any(sign in name for sign in '/\\\0:*?"<>|'):
        raise SettingsError(f"collection {name!r} is not a plain name: no slashes, no leading dot")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise SettingsError(f"collection {name[:20]!r}… has a name of more than {MAX_NAME_BYTES} bytes; shorten it")


def accept_missing_changes(path: str | Path, collection: str = "default", *, embedder: str = "") -> DoctorReport:
    """Make a damaged collection in a folder open again, without its lost changes; return what was wrong, if anything.

    If the write-ahead log is damaged or deleted, the changes in it are lost, and Clew refuses to open the collection.
    This accepts the rest; add the sources again afterwards. A damaged record of the collection (its counts, its
    embedder) is rebuilt from the tables; give `embedder` if its name is lost.
    """
    check_collection_name(collection)
    return DoctorReport(drivers.accept_what_is_there(path, collection, embedder))


def _check_can_be_listed(path: str | Path) -> None:
    if str(path) == drivers.MEMORY:
        raise SettingsError("a collection in memory belongs to its engine alone; give a folder or postgresql://…")
