"""The verbs on whole collections, none of them opened: list those of a place, drop one, accept what is left of one."""

from pathlib import Path

from clew import drivers
from clew.core.doctor import DoctorReport
from clew.core.errors import SettingsError
from clew.core.stored import CollectionRecord, DroppedCollection

MAX_NAME_BYTES = 200  # of a name, which may be that of a folder


def list_collections(path: str | Path) -> list[CollectionRecord]:
    """List the collections in a folder or on a server ("postgresql://…", "s3://…"), by name.

    One that cannot be opened is listed with its `problem`. NotFound if there is no such folder.
    """
    _check_can_be_listed(path)
    return drivers.list_collections(path)


def drop_collection(path: str | Path, name: str) -> DroppedCollection:
    """Remove a collection with all its documents, jobs and saved chats, for good; return what it was.

    On a server every row and index of it is deleted, at once. In a folder what is Clew's is deleted, and the folder if
    nothing else is in it; `left` names what stays. NotFound if there is none of that name; DriverFailed, and nothing is
    removed, while a folder's collection is open in this or another process.
    """
    _check_can_be_listed(path)
    check_collection_name(name)
    return drivers.drop_collection(path, name)


def check_collection_name(name: str) -> None:
    """Raise SettingsError if a name cannot be that of a collection."""
    if not name or name.startswith(".") or any(sign in name for sign in '/\\\0:*?"<>|'):
        raise SettingsError(f"collection {name!r} is not a plain name: no slashes, no leading dot")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise SettingsError(f"collection {name[:20]!r}… has a name of more than {MAX_NAME_BYTES} bytes; shorten it")


def accept_missing_changes(path: str | Path, collection: str = "default", *, embedder: str = "") -> DoctorReport:
    """Let a collection in a folder be opened that is refused as a whole; return what was wrong with it, if anything.

    A log that was damaged or deleted takes the changes that were only in it, and Clew then refuses to open the
    collection as if they had never been. This accepts what is there; add the sources again. A damaged record of the
    collection (its counts, its embedder) is made again from the tables; `embedder` names the embedder where nothing
    else does.
    """
    check_collection_name(collection)
    return DoctorReport(drivers.accept_what_is_there(path, collection, embedder))


def _check_can_be_listed(path: str | Path) -> None:
    if str(path) == drivers.MEMORY:
        raise SettingsError("a collection in memory belongs to its engine alone; give a folder or postgresql://…")
