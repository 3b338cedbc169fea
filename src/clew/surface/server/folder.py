"""Where the server keeps its own files: keys, uploads and feedback."""

from pathlib import Path

from clew.drivers import is_address
from clew.surface.settings.load import Invocation


def find_server_folder(start: Invocation) -> Path:
    """The folder of keys, uploads and feedback: that of the settings, else `.server` beside the collections."""
    if start.settings.server.folder:
        return Path(start.settings.server.folder).expanduser().absolute()
    if is_address(start.path):
        return Path(".clew-server").absolute()
    return Path(start.path).expanduser().absolute() / ".server"
