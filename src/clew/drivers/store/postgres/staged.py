"""The vectors of another model beside those in use: read, written and exchanged inside a caller's transaction."""

from collections.abc import Sequence

from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.stored import StagedModel
from clew.core.types import Matrix
from clew.drivers.store.embedded.staged import lack
from clew.drivers.store.postgres import codec, read
from clew.drivers.store.postgres.connect.pool import rows
from clew.drivers.store.postgres.connect.setup import Opened
from clew.drivers.store.staging import Kind, Lack

# A document of one chunk may have that chunk's vector for its summary too.
_MIRRORS = (
    "documents d JOIN summaries u ON u.row = d.row JOIN chunks c ON d.chunks = 1 AND c.doc = d.row"
    " JOIN signals g ON g.row = c.row AND g.vector = u.vector"
)
_LACKING = {
    "chunks": "SELECT o.row, o.text, o.headings, o.context FROM chunks o WHERE o.collection = {0} AND o.row > %s"
    " AND NOT EXISTS (SELECT FROM shadows s WHERE s.row = o.row)",
    "summaries": "SELECT o.row, o.summary FROM documents o WHERE o.collection = {0} AND o.row > %s"
    " AND EXISTS (SELECT FROM summaries u WHERE u.row = o.row)"
    " AND NOT EXISTS (SELECT FROM summary_shadows s WHERE s.row = o.row)"
    f" AND NOT EXISTS (SELECT FROM {_MIRRORS} WHERE d.row = o.row)",
}
_SAID = {
    "chunks": "SELECT row, text, headings, context FROM chunks WHERE row = ANY(%s::bigint[]) FOR SHARE",
    "summaries": "SELECT d.row, d.summary FROM documents d JOIN summaries u ON u.row = d.row"
    " WHERE d.row = ANY(%s::bigint[]) FOR SHARE",
}
_TABLE = {"chunks": ("shadows", "signals"), "summaries": ("summary_shadows", "summaries")}


class ServerShades:
    """The shadows of a collection as an open transaction sees them."""

    def __init__(self, connection: Connection, known: Opened) -> None:
        self._connection, self._known = connection, known

    def count(self) -> int:
        """How many rows lack one that a model must make."""
        asked = (f"SELECT count(*) FROM ({sql.format(self._known.number)}) x" for sql in _LACKING.values())
        return sum(int(rows(self._connection, sql, (0,))[0][0]) for sql in asked)

    def lacking(self, kind: Kind, after: int, many: int) -> list[Lack]:
        """The next rows after one that lack theirs."""
        sql = f"{_LACKING[kind].format(self._known.number)} ORDER BY o.row LIMIT %s"
        return [lack(columns) for columns in rows(self._connection, sql, (after, many))]

    def write(self, kind: Kind, lacks: Sequence[Lack], vectors: Matrix) -> None:
        """Gives rows their shadows, but for those that say something else by now."""
        said = rows(self._connection, _SAID[kind], (codec.bigints([each.row for each in lacks]),))
        now = {row: tuple(rest) for row, *rest in said}
        still = [at for at, each in enumerate(lacks) if now.get(each.row) == each.said]
        if still:
            self._connection.execute(
                f"INSERT INTO {_TABLE[kind][0]}(row, collection, vector) SELECT u.row, %s, u.vector"
                " FROM unnest(%s::bigint[], %s::vector[]) AS u(row, vector)"
                " ON CONFLICT (row) DO UPDATE SET vector = excluded.vector",
                (
                    self._known.number,
                    codec.bigints([lacks[at].row for at in still]),
                    codec.vectors(vectors[still], self._known.vector),
                ),
            )

    def mirror(self) -> None:
        """Gives the summaries that share the vector of their document's only chunk the shadow of that chunk."""
        self._connection.execute(
            f"INSERT INTO summary_shadows(row, collection, vector) SELECT d.row, d.collection, s.vector FROM {_MIRRORS}"
            f" JOIN shadows s ON s.row = c.row WHERE d.collection = {self._known.number}"
            " ON CONFLICT (row) DO UPDATE SET vector = excluded.vector"
        )


def shadow(connection: Connection, number: int) -> StagedModel | None:
    """The model whose vectors stand beside those in use."""
    ((name, dim, was_used),) = rows(
        connection, "SELECT shadow, shadow_dim, shadow_was_used FROM collections WHERE number = %s", (number,)
    )
    return StagedModel(name, dim, was_used) if name else None


def begin(connection: Connection, number: int, embedder: str, dim: int) -> None:
    """Makes room for the vectors of another model, if there is none yet."""
    connection.execute(
        "UPDATE collections SET shadow = %s, shadow_dim = %s, shadow_was_used = false"
        " WHERE number = %s AND shadow IS NULL",
        (embedder, dim, number),
    )


def discard(connection: Connection, number: int) -> bool:
    """Forgets the vectors of the other model; whether there were any."""
    for table, _ in _TABLE.values():
        connection.execute(f"DELETE FROM {table} WHERE collection = %s", (number,))
    sql = "UPDATE collections SET shadow = NULL, shadow_dim = NULL WHERE number = %s AND shadow IS NOT NULL RETURNING 1"
    return bool(rows(connection, sql, (number,)))


def share(connection: Connection, known: Opened) -> None:
    """Waits until no switch is under way, and lets none begin before the transaction ends; StoreMismatch after one."""
    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (switch_key(known.number),))
    read.still_ours(connection, known)


def hold(connection: Connection, number: int) -> None:
    """Waits until no change is under way, and lets none begin before the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (switch_key(number),))


def swap(connection: Connection, number: int) -> None:
    """Exchanges the vectors in use for those beside them: one statement sees both as they were."""
    connection.execute("SELECT set_config('clew.switching', 'on', true)")
    for beside, used in _TABLE.values():
        connection.execute(
            f"WITH a AS (UPDATE {used} u SET vector = s.vector FROM {beside} s"
            f" WHERE s.row = u.row AND u.collection = {number}),"
            f" b AS (UPDATE {beside} s SET vector = u.vector FROM {used} u"
            f" WHERE u.row = s.row AND s.collection = {number}) SELECT 1"
        )
    connection.execute(
        "UPDATE collections SET embedder = shadow, dim = shadow_dim, shadow = embedder, shadow_dim = dim,"
        " shadow_was_used = true, change = change + 1 WHERE number = %s",
        (number,),
    )


def switch_key(number: int) -> int:
    """The lock that every change shares and a switch has alone."""
    return xxh3_64_intdigest(f"switch {number}".encode()) - (1 << 63)
