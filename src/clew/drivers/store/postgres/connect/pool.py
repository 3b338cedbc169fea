"""Connections: one for each search or change that runs, never shared, replaced when it breaks."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect import errors as trouble
from clew.drivers.store.postgres.connect import planner as session

MOST: Final = 16  # connections of one store, so as many searches at once; others wait
WAIT = 10.0  # seconds that one waits for a connection, and for a server that is starting again
Row = tuple[Any, ...]
T = TypeVar("T")
# It warns of every try to connect; who asked is told by an error, so only who keeps a log reads these too.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def connect(url: str, collection: str) -> Connection:
    """A connection that sees the rows of one collection. What fails raises psycopg's errors."""
    connection = psycopg.connect(url, autocommit=True, **_options(url))
    try:
        configure(connection, collection)
    except BaseException:
        connection.close()
        raise
    return connection


def configure(connection: Connection, collection: str) -> None:
    """Makes a new connection ready: its collection, where names are looked up, how statements are planned."""
    codec.register(connection)
    # Statements are planned for what they are given, but for searches (`session`); joined in the order they are
    # written, which does not depend on how well the server knows its tables; not compiled, which takes longer than
    # running them; and have room to add up the postings of common words in memory.
    connection.execute(
        "SELECT set_config('clew.collection', %s, false), set_config('plan_cache_mode', 'force_custom_plan', false),"
        " set_config('enable_sort', 'on', false), set_config('client_encoding', 'UTF8', false),"
        " set_config('join_collapse_limit', '1', false), set_config('from_collapse_limit', '1', false),"
        " set_config('jit', 'off', false), set_config('work_mem', '32MB', false),"
        " set_config('search_path', 'clew, ' || coalesce((SELECT quote_ident(nspname) FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'), 'public'), false)",
        (collection,),
    )


class Pool:
    """The connections of one store."""

    def __init__(self, url: str, collection: str) -> None:
        self.place = trouble.place(url)
        self._url, self._collection = url, collection
        self._pool = ConnectionPool(
            url,
            kwargs={"autocommit": True, **_options(url)},
            configure=lambda connection: configure(connection, collection),
            min_size=1,
            max_size=MOST,
            timeout=WAIT,
            reconnect_timeout=WAIT,
            open=False,
        )
        self._pool.open()
        with suppress(PoolTimeout):  # the first that asks before there is one makes another; what fails it is told
            self._pool.wait(WAIT)

    def read(self, work: Callable[[Connection], T]) -> T:
        """What reading gives; on another connection, once, where the first was lost."""

        def planned(connection: Connection) -> T:
            session.plan_anew(connection)
            return work(connection)

        return self.search(planned)

    def search(self, work: Callable[[Connection], T]) -> T:
        """The same for what says itself how it is planned, or gives its few rows by any plan."""
        with trouble.failing(self.place):
            return self._twice(work)

    def ask(self, sql: str, given: Sequence[Any] = ()) -> list[Row]:
        """The rows that a simple statement gives."""
        return self.search(lambda connection: rows(connection, sql, given))

    def change(self, work: Callable[[Connection], T], *, plan: Callable[[Connection], None] = session.plan_anew) -> T:
        """What a change gives, which is done in one transaction, whole or not at all.

        Where the connection is lost before the end, nothing has happened, and it is tried once more. Where it is lost
        at the very end, nobody knows, and it is not.
        """
        with trouble.failing(self.place):
            return self._twice(lambda connection: _changed(connection, work, plan))

    def apart(self) -> Connection:
        """A connection of its own, for what takes long; the caller closes it."""
        return connect(self._url, self._collection)

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()

    def _twice(self, work: Callable[[Connection], T]) -> T:
        connection = self._taken()
        try:
            return work(connection)
        except psycopg.OperationalError as error:
            if isinstance(error, trouble.Unsure) or not connection.broken:
                raise
        finally:
            self._pool.putconn(connection)
        self._pool.check()  # where one connection was lost, others were too
        connection = self._taken()
        try:
            return work(connection)
        finally:
            self._pool.putconn(connection)

    def _taken(self) -> Connection:
        """A connection that nobody else has; who takes it gives it back. Where none can be had, the error says why."""
        try:
            return self._pool.getconn()
        except PoolTimeout:
            connect(self._url, self._collection).close()  # fails with the reason, if there is one
            raise


def rows(
    connection: Connection, sql: str, given: Sequence[Any] | Mapping[str, Any] = (), *, prepare: bool | None = None
) -> list[Row]:
    """The rows that a statement gives, vectors among them as bytes; one that comes often is best prepared at once."""
    return connection.cursor(binary=True).execute(sql, given, prepare=prepare).fetchall()


def _changed(connection: Connection, work: Callable[[Connection], T], plan: Callable[[Connection], None]) -> T:
    """What a change gives; statements whose answers nobody waits for travel together, and its seal once all are in."""
    plan(connection)
    is_sealed = False
    try:
        with connection.pipeline() as line:
            connection.execute("BEGIN")
            done = work(connection)
            if line.result_queue:
                _send_all(connection)
                line.sync()
            is_sealed = True
            connection.execute("COMMIT")
    except BaseException as error:
        if is_sealed and connection.broken and isinstance(error, psycopg.OperationalError):
            raise trouble.Unsure(str(error)) from error
        with suppress(psycopg.Error):  # a connection that is lost has forgotten it anyway
            connection.execute("ROLLBACK")
        raise
    return done


def _send_all(connection: Connection) -> None:
    """Sends what waits to be sent: psycopg waits for answers after a first part of it, and the server for the rest."""
    with DefaultSelector() as ready:
        ready.register(connection.fileno(), EVENT_READ | EVENT_WRITE)
        while connection.pgconn.flush():
            for _, events in ready.select():
                if events & EVENT_READ:  # who does not read what the server says may keep it from reading
                    connection.pgconn.consume_input()


def _options(url: str) -> dict[str, Any]:
    """What an address leaves open."""
    known = conninfo_to_dict(url)
    return {key: value for key, value in (("connect_timeout", 10), ("application_name", "clew")) if key not in known}
