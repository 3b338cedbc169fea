"""The sessions of a collection in its database."""

import json
import sqlite3
from collections.abc import Sequence

from clew.core.session import ChangeSession, StoredSession, messages_to_json, parse_messages
from clew.drivers.store.checksums import check
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.sums import SESSION


class EmbeddedSessions:
    """The sessions by name; see `SessionStore`."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> StoredSession | None:
        """The session of that name, or None."""
        with self._database.reader as db:
            return _read_session(db, name)

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replaces a session by what `change` makes of it, in one transaction."""
        with self._database.write_transaction() as db:
            made = change(_read_session(db, name) or StoredSession())
            db.execute(
                "INSERT OR REPLACE INTO sessions(name, documents, messages, used, kept) VALUES(?, ?, ?, ?, ?)",
                (name, json.dumps(made.documents), messages_to_json(made.messages), made.used, made.kept),
            )
        return made

    def drop(self, names: Sequence[str]) -> int:
        """Deletes sessions; returns how many existed."""
        with self._database.write_transaction() as db:
            return db.execute(
                "DELETE FROM sessions WHERE name IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
            ).rowcount

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Deletes old sessions that are not kept; returns how many."""
        sql = (
            "DELETE FROM sessions WHERE NOT kept AND name <> ?1 AND (used < ?2 OR name IN"
            " (SELECT name FROM sessions WHERE NOT kept ORDER BY name = ?1 DESC, used DESC LIMIT -1 OFFSET ?3))"
        )
        with self._database.write_transaction() as db:
            return db.execute(sql, (current, used_since, max_sessions)).rowcount

    def names(self) -> list[str]:
        """The names of all sessions, sorted."""
        with self._database.reader as db:
            return [name for (name,) in db.execute("SELECT name FROM sessions ORDER BY name")]


def _read_session(db: sqlite3.Connection, name: str) -> StoredSession | None:
    sql = f"SELECT {', '.join(SESSION)}, sum FROM sessions WHERE name = ?"
    found = db.execute(sql, (name,)).fetchone()
    if found is None:
        return None
    *columns, stored = found
    check(f"the session {name!r}", stored, *columns)
    _, documents, messages, used, kept = columns
    return StoredSession(tuple(json.loads(documents)), parse_messages(messages), used, bool(kept))
