"""The sessions of a collection on the server."""

import json
from collections.abc import Sequence

from psycopg import Connection

from clew.core.session import ChangeSession, StoredSession, messages_to_json, parse_messages
from clew.drivers.store.postgres.connect.pool import Pool, fetch_rows

_READ = "SELECT documents, messages, used, kept FROM sessions WHERE collection = %s AND name = %s"


class PostgresSessions:
    """The sessions by name; see `SessionStore`."""

    __slots__ = ("_number", "_pool")

    def __init__(self, pool: Pool, number: int) -> None:
        self._pool, self._number = pool, number

    def get(self, name: str) -> StoredSession | None:
        """The session of that name, or None."""
        found = self._pool.fetch_rows(_READ, (self._number, name))
        return _parse_session(*found[0]) if found else None

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replaces a session by what `change` makes of it, while others that want to wait."""

        def update(connection: Connection) -> StoredSession:
            connection.execute(
                "INSERT INTO sessions(collection, name, used) VALUES(%s, %s, 0) ON CONFLICT DO NOTHING",
                (self._number, name),
            )
            [row] = fetch_rows(connection, f"{_READ} FOR UPDATE", (self._number, name))
            made = change(_parse_session(*row))
            connection.execute(
                "UPDATE sessions SET documents = %s, messages = %s, used = %s, kept = %s"
                " WHERE collection = %s AND name = %s",
                (
                    json.dumps(made.documents),
                    messages_to_json(made.messages),
                    made.used,
                    made.kept,
                    self._number,
                    name,
                ),
            )
            return made

        return self._pool.run_transaction(update)

    def drop(self, names: Sequence[str]) -> int:
        """Deletes sessions; returns how many existed."""
        sql = "DELETE FROM sessions WHERE collection = %s AND name = ANY(%s) RETURNING name"
        return self._pool.run_transaction(
            lambda connection: len(fetch_rows(connection, sql, (self._number, list(names))))
        )

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Deletes old sessions that are not kept; returns how many."""
        sql = (
            "DELETE FROM sessions WHERE collection = %(collection)s AND NOT kept AND name <> %(current)s"
            " AND (used < %(since)s OR name IN (SELECT name FROM sessions WHERE collection = %(collection)s AND NOT"
            " kept ORDER BY name = %(current)s DESC, used DESC OFFSET %(most)s)) RETURNING name"
        )
        given = {"collection": self._number, "current": current, "since": used_since, "most": max_sessions}
        return self._pool.run_transaction(lambda connection: len(fetch_rows(connection, sql, given)))

    def names(self) -> list[str]:
        """The names of all sessions, sorted."""
        sql = "SELECT name FROM sessions WHERE collection = %s ORDER BY name"
        return [name for (name,) in self._pool.fetch_rows(sql, (self._number,))]


def _parse_session(documents: str, messages: str, used: float, kept: bool) -> StoredSession:
    return StoredSession(tuple(json.loads(documents)), parse_messages(messages), used, kept)
