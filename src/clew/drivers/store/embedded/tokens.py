"""Token vectors in SQLite, the table `tokens`: a row beside that of each chunk which has them."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from clew.core.protocols import TokenEncoder
from clew.drivers.store.checksums import check_values, hash_values
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.read import check_ids
from clew.drivers.store.embedded.write import update_counts
from clew.drivers.store.staging import MissingVector, OnProgress, parse_missing_row
from clew.drivers.store.token_batches import KeptTokens, add_missing_tokens

_MISSING = "FROM chunks c WHERE c.row > ? AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.row = c.row AND t.model = ?)"
_TEXTS = "SELECT row, text, headings, context FROM chunks WHERE row IN (SELECT value FROM json_each(?))"
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
        self._db.executemany(
            "INSERT OR REPLACE INTO tokens(row, model, data, sum) VALUES(?, ?, ?, ?)",
            [
                (each.row, self._model, data, hash_values(each.row, self._model, data))
                for each, data in zip(missing, encoded, strict=True)
                if now.get(each.row) == each.columns
            ],
        )
        update_counts(self._db)  # a search that uses them finds something else now


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
        with self._database.reader as db:
            read = db.execute(
                "SELECT c.id, t.row, t.data, t.sum FROM chunks c JOIN tokens t ON t.row = c.row"
                " WHERE c.id IN (SELECT value FROM json_each(?)) AND t.model = ?",
                (json.dumps(list(chunk_ids)), model),
            ).fetchall()
        for chunk_id, row, data, stored in read:
            check_values(f"the token vectors of the chunk {chunk_id!r}", stored, row, model, data)
        check_ids({each[0] for each in read}, chunk_ids)
        return {chunk_id: data for chunk_id, _, data, _ in read}
