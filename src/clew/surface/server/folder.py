"""Where the server keeps its own files: keys, uploads and feedback."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from clew.core.errors import SettingsError
from clew.drivers import is_address, is_server_address
from clew.surface.server.keys import KeyFile
from clew.surface.settings.load import Invocation

FORMER: Final = ".clew-server"  # in the current folder: where a server over a database kept its files once


def find_server_folder(start: Invocation) -> Path:
    """Find the folder of keys, uploads and feedback: that of the settings, else `.server` beside the collections.

    For a database or object storage it is in the user's data folder, under a name made of the address: a server and
    `clew keys` use the same keys, wherever they are started.
    """
    if start.settings.server.folder:
        return Path(start.settings.server.folder).expanduser().absolute()
    place = _identify_store(start.path) if is_address(start.path) else start.path
    if "://" not in place:
        return Path(place).expanduser().absolute() / ".server"
    return _find_data_folder() / "servers" / sha256(place.encode()).hexdigest()[:16]


def open_keys(start: Invocation) -> KeyFile:
    """Open the keys of the server; SettingsError if they are still where an earlier version kept them."""
    keys = KeyFile(find_server_folder(start) / "keys.json")
    former = Path(FORMER, keys.file.name).absolute()
    if is_address(start.path) and not start.settings.server.folder and former.exists() and not keys.exists():
        raise SettingsError(
            f"{former} has keys of a server that was started here, and keys are kept in {keys.file.parent} now; move "
            "the file there, or remove it to begin without keys"
        )
    return keys


def _identify_store(address: str) -> str:
    """Name what an address leads to, without user, password and options: a folder, or an address."""
    if is_server_address(address):
        from clew.drivers.store.postgres.connect.errors import identify_database

        return identify_database(address)
    from clew.drivers.store.lance.address import parse_address

    return parse_address(address).identity


def _find_data_folder() -> Path:
    """Find the folder of Clew in XDG_DATA_HOME, by default and if that is relative .local/share in the home folder."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".local" / "share") / "clew"
    except RuntimeError:
        raise SettingsError("there is no home folder to keep keys and uploads in; set server.folder") from None
