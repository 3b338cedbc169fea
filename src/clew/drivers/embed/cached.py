"""An embedder around another that keeps its vectors in one SQLite file, so that a text is embedded once, ever.

The file is opened for each call and closed after it: nothing is held between calls, so threads, processes and forks
share it freely, and there is nothing to close.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from clew.core.errors import DriverFailed
from clew.core.ids import digest
from clew.core.protocols import Embedder, Role
from clew.core.types import Matrix, Vector

WAIT = 60.0  # seconds for another writer to finish
AT_ONCE = 500  # keys in one statement; SQLite's limit was once 999

_OUTSIDE = (  # what is wrong is not in the file
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
_TABLE = """CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (model, role, digest)) WITHOUT ROWID"""


class CachedEmbedder:
    """The same vectors as another embedder's, from a file where they are known.

    `hits` counts the texts that were not embedded for being known or said twice, `misses` those that were.
    """

    def __init__(self, embedder: Embedder, path: str | Path) -> None:
        self._embedder = embedder
        self._path = Path(path)
        self._lock = Lock()
        self.hits = 0
        self.misses = 0
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverFailed(f"no cache of vectors can be kept at {path}: {error}; name another file") from error
        with self._open():
            pass  # a broken file is told of now, not at the first search

    @property
    def name(self) -> str:
        """The name of the embedder inside: the vectors are its own."""
        return self._embedder.name

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return self._embedder.dim

    @property
    def max_tokens(self) -> int:
        """How many tokens the model takes at once."""
        return self._embedder.max_tokens

    @property
    def min_similarity(self) -> float:
        """The cosine below which two texts are unrelated for this model."""
        return self._embedder.min_similarity

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of the model each text has."""
        return self._embedder.count(texts)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit row a text, in order; only what is not in the file is embedded, each text once."""
        keys = [digest(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        known = self._read(role, list(wanted)) if wanted else {}
        missing = [key for key in wanted if key not in known]
        if missing:
            rows = self._embedder.embed([wanted[key] for key in missing], role=role)
            fresh = dict(zip(missing, rows, strict=True))
            self._write(role, fresh)
            known |= fresh
        with self._lock:
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self.dim), np.float32)

    def _read(self, role: Role, keys: Sequence[str]) -> dict[str, Vector]:
        known: dict[str, Vector] = {}
        width = 4 * self.dim
        with self._open() as connection:
            for start in range(0, len(keys), AT_ONCE):
                some = keys[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                found = connection.execute(
                    f"SELECT digest, vector FROM vectors WHERE model = ? AND role = ? AND digest IN ({marks})",
                    (self.name, role, *some),
                )
                # A row of another width was left by a model that has changed under its name.
                known |= {key: np.frombuffer(data, "<f4") for key, data in found if len(data) == width}
        return known

    def _write(self, role: Role, fresh: dict[str, Vector]) -> None:
        rows = [(self.name, role, key, np.asarray(row, "<f4").tobytes()) for key, row in fresh.items()]
        with self._open() as connection, connection:  # the second commits
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=WAIT)) as connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than is needed
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                advice = "another process writes to it; try again"
            elif code in _OUTSIDE:
                advice = "check the disk and who may write there, or name another file"
            else:
                advice = "delete the file, it will be made anew"
            raise DriverFailed(f"the cache of vectors {self._path} cannot be used ({error}): {advice}") from error
