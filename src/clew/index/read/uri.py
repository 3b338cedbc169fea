"""The uri of a file in a collection, independent of the working directory."""

from contextlib import suppress
from pathlib import Path

from clew.core.ids import make_document_id


def make_file_uri(path: Path, root: Path) -> str:
    """The uri of a file: relative to the root if it is below it, else the absolute path."""
    absolute = path.absolute().resolve()
    return (absolute.relative_to(root) if absolute.is_relative_to(root) else absolute).as_posix()


def resolve_document_ids(name: str, root: Path) -> list[str]:
    """The ids that a name given by a user may stand for: the id itself, that of a uri, or that of a path from here."""
    ids = [name, make_document_id(name)]
    with suppress(OSError, ValueError, RuntimeError):  # it may not be a path at all
        ids.append(make_document_id(make_file_uri(Path(name), root)))
    return ids
