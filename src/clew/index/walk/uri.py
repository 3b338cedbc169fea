"""The uri of a file in a collection, independent of the working directory."""

import os
from contextlib import suppress
from pathlib import Path

from clew.core.ids import make_document_id


def make_file_uri(path: Path, root: Path) -> str:
    """Make the uri of a file: relative to the root if it is below it, else the absolute path."""
    absolute = Path(os.path.realpath(path))  # a loop of links is left as it is
    return (absolute.relative_to(root) if absolute.is_relative_to(root) else absolute).as_posix()


class FileUris:
    """Makes the uris of many files: where a folder really is, is looked up once for the files in it that follow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: str | None = None
        self._prefix = ""

    def make(self, path: Path) -> str:
        """Make the uri of a file, as make_file_uri makes it."""
        if os.path.islink(path):  # noqa: PTH114 (False for one that may not be looked at)
            return make_file_uri(path, self._root)
        folder, name = os.path.split(path)
        if folder != self._folder:
            uri = make_file_uri(Path(folder), self._root)
            self._folder, self._prefix = folder, "" if uri == "." else f"{uri.removesuffix('/')}/"
        return f"{self._prefix}{name}"


def resolve_document_ids(name: str, root: Path) -> list[str]:
    """List the ids that a user's name of a document may stand for: the id itself, a uri, or a path from here."""
    ids = [name, make_document_id(name)]
    with suppress(OSError, ValueError, RuntimeError):  # it may not be a path at all
        ids.append(make_document_id(make_file_uri(Path(name), root)))
    return ids
