"""Where the server keeps its own files, which are uploads, and its keys."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from clew.core.errors import SettingsError
from clew.drivers import is_address, is_server_address
from clew.surface.server.keys import Keys
from clew.surface.settings.load import Invocation

FORMER: Final = ".clew-server"  # in the current folder: where a server over a database kept its files once


def find_server_folder(start: Invocation) -> Path:
    """Find the folder of uploads: that of the settings, else `.server` beside the collections.

    For a database or object storage it is in the user's data folder, under a name made of the address.
    """
    if start.settings.server.folder:
        return Path(start.settings.server.folder).expanduser().absolute()
    place = _identify_store(start.path) if is_address(start.path) else start.path
    if "://" not in place:
        return Path(place).expanduser().absolute() / ".server"
    return _find_data_folder() / "servers" / sha256(place.encode()).hexdigest()[:16]


def open_keys(start: Invocation) -> Keys:
    """Open the keys of the server; SettingsError while a file of an earlier version has keys."""
    places = [find_server_folder(start)]
    if is_address(start.path) and not start.settings.server.folder:
        places.append(Path(FORMER).absolute())
    for file in (place / "keys.json" for place in places):
        if os.path.lexists(file):
            raise SettingsError(
                f"{file} has keys of an earlier version, and keys are kept in the store now: remove the file, make the "
                "keys anew with `clew keys add`, and start the server then"
            )
    return Keys(start.path, start.settings.store)


def _identify_store(address: str) -> str:
    """Name what an address leads to, without user, password and options: a folder, or an address."""
    if is_server_address(address):
        from clew.drivers.store.postgres.errors import identify_database

        return identify_database(address)
    from clew.drivers.store.lance.address import parse_address

    return parse_address(address).identity


def _find_data_folder() -> Path:
    """Find the folder of Clew in XDG_DATA_HOME, by default and if that is relative .local/share in the home folder."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".local" / "share") / "clew"
    except RuntimeError:
        raise SettingsError("there is no home folder to keep uploads in; set server.folder") from None
