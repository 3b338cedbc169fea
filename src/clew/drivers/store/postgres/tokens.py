"""Token vectors in PostgreSQL, the table `tokens`: a row beside that of each chunk which has them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from psycopg import Connection

from clew.core.protocols import TokenEncoder
from clew.drivers.store.checksums import damaged_error
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows
from clew.drivers.store.postgres.connect.setup import OpenCollection
from clew.drivers.store.staging import MissingVector, OnProgress, parse_missing_row
from clew.drivers.store.token_batches import KeptTokens, add_missing_tokens

_MISSING = (
    "FROM chunks c WHERE c.collection = %s AND c.row > %s"
    " AND NOT EXISTS (SELECT FROM tokens t WHERE t.row = c.row AND t.model = %s)"
)
_TEXTS = "SELECT row, text, headings, context FROM chunks WHERE row = ANY(%s::bigint[]) FOR SHARE"
DAMAGED = "collection = %s AND sum IS DISTINCT FROM decode(md5(data), 'hex')"
T = TypeVar("T")


class PostgresKeptTokens:
    """The token vectors of a model as an open transaction sees them."""

    def __init__(self, connection: Connection, number: int, model: str) -> None:
        self._connection, self._number, self._model = connection, number, model

    def find_last(self) -> int:
        """The last row that has token vectors, 0 if none has."""
        sql = "SELECT coalesce(max(row), 0) FROM tokens WHERE collection = %s"
        return int(fetch_rows(self._connection, sql, (self._number,))[0][0])

    def count_missing(self, after: int) -> int:
        """How many rows after one have none."""
        given = (self._number, after, self._model)
        return int(fetch_rows(self._connection, f"SELECT count(*) {_MISSING}", given)[0][0])

    def list_missing(self, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have none."""
        sql = f"SELECT c.row, c.text, c.headings, c.context {_MISSING} ORDER BY c.row LIMIT %s"
        given = (self._number, after, self._model, limit)
        return [parse_missing_row(columns) for columns in fetch_rows(self._connection, sql, given)]

    def write(self, missing: Sequence[MissingVector], encoded: Sequence[bytes]) -> None:
        """Stores those of rows, except of those whose text has changed since."""
        texts = fetch_rows(self._connection, _TEXTS, ([each.row for each in missing],))
        now = {row: tuple(columns) for row, *columns in texts}
        unchanged = [at for at, each in enumerate(missing) if now.get(each.row) == each.columns]
        self._connection.execute(
            "INSERT INTO tokens(row, collection, model, data) SELECT u.row, %s, %s, u.data"
            " FROM unnest(%s::bigint[], %s::bytea[]) AS u(row, data)"
            " ON CONFLICT (row) DO UPDATE SET (model, data) = (excluded.model, excluded.data)",
            (self._number, self._model, [missing[at].row for at in unchanged], [encoded[at] for at in unchanged]),
        )
        self._connection.execute("UPDATE collections SET change = change + 1 WHERE number = %s", (self._number,))


class TokenMethods:
    """The methods of the server store that keep token vectors; part of PostgresStore."""

    _pool: Pool
    _collection: OpenCollection

    def add_missing_tokens(
        self, encoder: TokenEncoder, on_progress: OnProgress | None = None, *, only_last: bool = False
    ) -> int:
        """Encodes the chunks that have no token vectors of this model; how many."""

        def run(work: Callable[[KeptTokens], T]) -> T:
            return self._pool.run_transaction(
                lambda connection: work(PostgresKeptTokens(connection, self._collection.number, encoder.name))
            )

        return add_missing_tokens(run, encoder, on_progress, only_last=only_last)

    def count_missing_tokens(self, model: str) -> int:
        """How many chunks have no token vectors of this model."""
        number = self._collection.number
        return self._pool.run_read(lambda connection: PostgresKeptTokens(connection, number, model).count_missing(0))

    def tokens(self, chunk_ids: Sequence[str], model: str) -> dict[str, bytes]:
        """The token vectors of those of the chunks that have them, by id."""
        sql = (
            "SELECT c.id, t.data, t.sum = decode(md5(t.data), 'hex') FROM chunks c JOIN tokens t ON t.row = c.row"
            " WHERE c.collection = %s AND c.id = ANY(%s) AND t.model = %s"
        )
        read = self._pool.fetch_rows(sql, (self._collection.number, list(chunk_ids), model))
        for chunk_id, _, is_whole in read:
            if not is_whole:
                raise damaged_error(f"the token vectors of the chunk {chunk_id!r}")
        return {chunk_id: bytes(data) for chunk_id, data, _ in read}
