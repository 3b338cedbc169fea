"""What a file is called in a collection: the same wherever one stands when it is added."""

from contextlib import suppress
from pathlib import Path

from clew.core.ids import document_id


def uri_of(path: Path, root: Path) -> str:
    """The address of a file: from the root where it lies below it, else the whole path."""
    whole = path.absolute().resolve()
    return (whole.relative_to(root) if whole.is_relative_to(root) else whole).as_posix()


def ids_of(name: str, root: Path) -> list[str]:
    """The ids that a document may have which is called so: by its id, by its address, or by its path from here."""
    ids = [name, document_id(name)]
    with suppress(OSError, ValueError, RuntimeError):  # it may not be a path at all
        ids.append(document_id(uri_of(Path(name), root)))
    return ids
