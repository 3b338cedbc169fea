"""Token vectors in SQLite: a row of `tokens` beside that of each chunk which has them, and parts of equal size."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from clew.core.protocols import TokenEncoder
from clew.drivers.store.checksums import check_values, hash_values
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.read import check_ids
from clew.drivers.store.embedded.tables import PART_BITS
from clew.drivers.store.embedded.write import update_counts
from clew.drivers.store.staging import MissingVector, OnProgress, parse_missing_row
from clew.drivers.store.token_batches import KeptTokens, add_missing_tokens

_MISSING = "FROM chunks c WHERE c.row > ? AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.row = c.row AND t.model = ?)"
_TEXTS = "SELECT row, text, headings, context FROM chunks WHERE row IN (SELECT value FROM json_each(?))"
_IDS = "SELECT row, id FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
_OF_CHUNKS = f"t.row IN ({_IDS.replace('row, id', 'row')}) AND t.model = ?"
PART_SIZE = 1008  # bytes: eight parts with what SQLite adds to each fill a page of 8 kB, and it holds whole tokens
T = TypeVar("T")


class SqliteKeptTokens:
    """The token vectors of a model as an open transaction sees them."""

    def __init__(self, db: sqlite3.Connection, model: str) -> None:
        self._db, self._model = db, model

    def find_last(self) -> int:
        """The last row that has token vectors, 0 if none has."""
        found: int | None = self._db.execute("SELECT max(row) FROM tokens").fetchone()[0]
        return found or 0

    def count_missing(self, after: int) -> int:
        """How many rows after one have none."""
        count: int = self._db.execute(f"SELECT count(*) {_MISSING}", (after, self._model)).fetchone()[0]
        return count

    def list_missing(self, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have none."""
        sql = f"SELECT c.row, c.text, c.headings, c.context {_MISSING} ORDER BY c.row LIMIT ?"
        return [parse_missing_row(columns) for columns in self._db.execute(sql, (after, self._model, limit))]

    def write(self, missing: Sequence[MissingVector], encoded: Sequence[bytes]) -> None:
        """Stores those of rows, except of those whose text has changed since."""
        rows = json.dumps([each.row for each in missing])
        now = {row: tuple(columns) for row, *columns in self._db.execute(_TEXTS, (rows,))}
        for each, data in zip(missing, encoded, strict=True):
            if now.get(each.row) != each.columns:
                continue
            values = each.row, self._model, b"", hash_values(each.row, self._model, data)
            parts = [data[start : start + PART_SIZE] for start in range(0, len(data), PART_SIZE)]
            self._db.execute("DELETE FROM tokens WHERE row = ?", (each.row,))
            self._db.execute("INSERT INTO tokens(row, model, data, sum) VALUES(?, ?, ?, ?)", values)
            self._db.executemany(
                "INSERT INTO token_parts(place, data) VALUES(?, ?)",
                [((each.row << PART_BITS) + n, part) for n, part in enumerate(parts)],
            )
        update_counts(self._db)  # a search that uses them finds something else now


def read_tokens(
    db: sqlite3.Connection, condition: str = "true", values: Sequence[str] = ()
) -> Iterator[tuple[int, str, bytes, int]]:
    """The row, the model, the token vectors and the checksum of each chunk that has them, where a condition holds."""
    read = db.execute(
        "SELECT t.row, t.model, t.data, t.sum, p.data FROM tokens t LEFT JOIN token_parts p"
        f" ON p.place BETWEEN t.row << {PART_BITS} AND (t.row + 1 << {PART_BITS}) - 1"
        f" WHERE {condition} ORDER BY t.row, p.place",
        values,
    )
    for (row, model, whole, stored), parts in groupby(read, key=itemgetter(0, 1, 2, 3)):
        yield row, model, b"".join([whole, *(part for *_, part in parts if part is not None)]), stored


def find_damaged_tokens(db: sqlite3.Connection) -> list[int]:
    """The rows of the chunks whose token vectors are not as they were written."""
    return [row for row, model, data, stored in read_tokens(db) if stored != hash_values(row, model, data)]


class TokenMethods:
    """The methods of the embedded store that keep token vectors; part of EmbeddedStore."""

    _database: Database

    def add_missing_tokens(
        self, encoder: TokenEncoder, on_progress: OnProgress | None = None, *, only_last: bool = False
    ) -> int:
        """Encodes the chunks that have no token vectors of this model; how many."""

        def run(work: Callable[[KeptTokens], T]) -> T:
            with self._database.write_transaction() as db:
                return work(SqliteKeptTokens(db, encoder.name))

        return add_missing_tokens(run, encoder, on_progress, only_last=only_last)

    def count_missing_tokens(self, model: str) -> int:
        """How many chunks have no token vectors of this model."""
        with self._database.reader as db:
            return SqliteKeptTokens(db, model).count_missing(0)

    def tokens(self, chunk_ids: Sequence[str], model: str) -> dict[str, bytes]:
        """The token vectors of those of the chunks that have them, by id."""
        wanted = json.dumps(list(chunk_ids))
        with self._database.read_transaction() as db:
            ids = dict(db.execute(_IDS, (wanted,)).fetchall())
            read = list(read_tokens(db, _OF_CHUNKS, (wanted, model)))
        for row, _, data, stored in read:
            check_values(f"the token vectors of the chunk {ids[row]!r}", stored, row, model, data)
        check_ids({ids[row] for row, *_ in read}, chunk_ids)
        return {ids[row]: data for row, _, data, _ in read}
