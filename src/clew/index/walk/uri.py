"""The uri of a file in a collection, independent of the working directory."""

import os
from contextlib import suppress
from pathlib import Path

from clew.core.ids import make_document_id


def make_file_uri(path: Path, root: Path) -> str:
    """Make the uri of a file: its path relative to the root if below it, else its absolute path."""
    absolute = Path(os.path.realpath(path))  # a loop of links is left as it is
    return (absolute.relative_to(root) if absolute.is_relative_to(root) else absolute).as_posix()


class FileUris:
    """A maker of uris for many files: resolves a folder once for consecutive files in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: str | None = None
        self._prefix = ""

    def make(self, path: Path) -> str:
        """Make the uri of a file, like make_file_uri."""
        if os.path.islink(path):  # noqa: PTH114 (False for one that may not be looked at)
            return make_file_uri(path, self._root)
        folder, name = os.path.split(path)
        if folder != self._folder:
            uri = make_file_uri(Path(folder), self._root)
            self._folder, self._prefix = folder, "" if uri == "." else f"{uri.removesuffix('/')}/"
        return f"{self._prefix}{name}"


def resolve_document_ids(name: str, root: Path) -> list[str]:
    """List the possible ids of a document that a user named by id, uri or path."""
    ids = [name, make_document_id(name)]
    with suppress(OSError, ValueError, RuntimeError):  # the name may not be a valid path
        ids.append(make_document_id(make_file_uri(Path(name), root)))
    return ids
