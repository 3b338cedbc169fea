"""The records of a collection on the server."""

from psycopg import Connection

from clew.core.protocols.records import RecordKind
from clew.drivers.store.postgres.connect.pool import Pool

_INSERT = "INSERT INTO records(collection, kind, name, text) VALUES(%s, %s, %s, %s)"


class PostgresRecords:
    """The records by kind and name, each in one or more rows; see `RecordStore`."""

    __slots__ = ("_number", "_pool")

    def __init__(self, pool: Pool, number: int) -> None:
        self._pool, self._number = pool, number

    def names(self, kind: RecordKind) -> list[str]:
        """The names of the texts of a kind, sorted."""
        sql = "SELECT DISTINCT name FROM records WHERE collection = %s AND kind = %s ORDER BY name"
        return [name for (name,) in self._pool.fetch_rows(sql, (self._number, kind))]

    def read(self, kind: RecordKind, name: str = "") -> str:
        """The text, empty if there is none."""
        sql = "SELECT text FROM records WHERE collection = %s AND kind = %s AND name = %s ORDER BY number"
        return "".join(text for (text,) in self._pool.fetch_rows(sql, (self._number, kind, name)))

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replaces a text in one transaction; an empty one deletes it."""

        def replace(connection: Connection) -> None:
            given = (self._number, kind, name)
            connection.execute("DELETE FROM records WHERE collection = %s AND kind = %s AND name = %s", given)
            if text:
                connection.execute(_INSERT, (*given, text))

        self._pool.run_transaction(replace)

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Adds a row."""
        given = (self._number, kind, name, text)
        self._pool.run_transaction(lambda connection: connection.execute(_INSERT, given))

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """The rows of the text."""
        named = f", name '{name}'" if name else ""
        return f"the text in the table clew.records (kind '{kind}'{named})"

    def locate(self, kind: RecordKind, name: str = "") -> None:
        """None: there is no file."""
