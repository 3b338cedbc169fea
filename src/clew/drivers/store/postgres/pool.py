"""A pool of connections: one per running search or change, never shared, replaced when it breaks."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from secrets import randbits
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from clew.core.errors import SettingsError
from clew.core.facets import make_label_facets
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.errors import CommitUnknown, describe_address, translate_errors
from clew.drivers.store.rows import hash_facet

MAX_CONNECTIONS: Final = 16  # per store, and thus concurrent searches; others wait
TIMEOUT = 10.0  # seconds to wait for a free connection, and for a server that restarts
Row = tuple[Any, ...]
T = TypeVar("T")
# Silence its warnings of every connection attempt unless the program configures logging: the caller gets an error.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
CUSTOM_PLANS = {"plan_cache_mode": "force_custom_plan", "enable_sort": "on"}
LOCAL_CUSTOM_PLANS = (  # until the transaction ends
    "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_sort', 'on', true)"
)
LOCAL_GENERIC_PLANS = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true)"
_GENERIC_PLANS = {"plan_cache_mode": "force_generic_plan", "enable_sort": "off"}  # no sort, so that a graph is used
_applied: "WeakKeyDictionary[Connection[Any], dict[str, str]]" = WeakKeyDictionary()
_local: "WeakSet[Connection[Any]]" = WeakSet()  # connections whose settings end with each transaction
Access = Sequence[str] | None  # the labels of the reader; None: everything is visible


def connect(url: str, collection: str, *, access: Access = None) -> Connection:
    """Connect to one collection, or to the part that labels admit. Raises psycopg's errors."""
    connection = psycopg.connect(url, autocommit=True, **_make_default_options(url))
    try:
        binary.register_dumper(connection)
        configure_connection(connection, collection, access=access)
    except BaseException:
        connection.close()
        raise
    return connection


def configure_connection(
    connection: Connection, collection: str, *, access: Access = None, is_local: bool = False
) -> None:
    """Configure a new connection: its collection and labels, search path and planner settings.

    With labels it sees only what they admit, and is read-only. `is_local`: only until the transaction ends.
    """
    # Plan statements for their parameters, except searches (see `use_generic_plans`). Join in the written order, which
    # does not depend on the server's statistics. No JIT: it takes longer than the statements. Give enough work_mem to
    # aggregate the postings of common words in memory.
    connection.execute(
        "SELECT set_config('clew.collection', %(name)s, %(local)s), set_config('clew.access', '', %(local)s),"
        " set_config('plan_cache_mode', 'force_custom_plan', %(local)s), set_config('enable_sort', 'on', %(local)s),"
        " set_config('join_collapse_limit', '1', %(local)s), set_config('from_collapse_limit', '1', %(local)s),"
        " set_config('jit', 'off', %(local)s), set_config('work_mem', '32MB', %(local)s),"
        " set_config('search_path', 'clew, ' || coalesce((SELECT quote_ident(nspname) FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'), 'public'), %(local)s)",
        {"name": collection, "local": is_local},
    )
    forget_settings(connection, is_local=is_local)
    if access is not None:
        limit_to_labels(connection, access, is_local=is_local)


def check_pooler(url: str) -> str:
    """Return the address of a pooler, which may be empty; SettingsError if it is not a PostgreSQL address."""
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise SettingsError("store.pooler is not the address of a pooler for PostgreSQL; give postgresql://…")
    if url:
        try:
            describe_address(url)
        except SettingsError as error:
            raise SettingsError(f"store.pooler: {error}") from None
    return url


def check_same_database(url: str, pooler: str) -> None:
    """Raise SettingsError unless a pooler leads to the database of an address.

    Test with an advisory lock with a random key: it is held in this database of this server, but not in a copy.
    """
    key, server, between = randbits(63), describe_address(url), describe_address(pooler)
    with translate_errors(server), psycopg.connect(url, autocommit=True, **_make_default_options(url)) as holder:
        holder.execute("SELECT pg_advisory_lock(%s::int8)", (key,))
        with (
            translate_errors(f"store.pooler, {between}"),
            psycopg.connect(
                pooler, autocommit=True, prepare_threshold=None, **_make_default_options(pooler)
            ) as connection,
        ):
            ((is_free,),) = fetch_rows(connection, "SELECT pg_try_advisory_xact_lock(%s::int8)", (key,))
    if is_free:
        raise SettingsError(
            f"store.pooler, {between}, leads to another database than {server}; give the address of the same database "
            "through the pooler"
        )


class Pool:
    """The connections of one store, perhaps through a pooler in transaction mode.

    With a pooler, each transaction may run in another session of the server. So reads are transactions, too, settings
    are local to the transaction, and nothing is prepared.
    """

    def __init__(self, url: str, collection: str, *, access: Access = None, pooler: str = "") -> None:
        self.place = describe_address(url)
        self._url, self._collection, self._access, self._pooler = url, collection, access, pooler
        if pooler:
            check_same_database(url, pooler)
        self._pool = ConnectionPool(
            pooler or url,
            kwargs={
                "autocommit": True,
                **({"prepare_threshold": None} if pooler else {}),
                **_make_default_options(pooler or url),
            },
            configure=self._configure,
            min_size=1,
            max_size=MAX_CONNECTIONS,
            timeout=TIMEOUT,
            reconnect_timeout=TIMEOUT,
            open=False,
        )
        self._pool.open()
        with suppress(PoolTimeout):  # the first caller will retry, and get the error
            self._pool.wait(TIMEOUT)

    def _configure(self, connection: Connection) -> None:
        binary.register_dumper(connection)
        if not self._pooler:
            configure_connection(connection, self._collection, access=self._access)

    def run_read(self, work: Callable[[Connection], T]) -> T:
        """Run a read with custom plans; retry once on another connection if the first was lost."""

        def plan_and_work(connection: Connection) -> T:
            use_custom_plans(connection)
            return work(connection)

        return self.run_read_with_own_plan(plan_and_work)

    def run_read_with_own_plan(self, work: Callable[[Connection], T]) -> T:
        """Run a read that chooses its kind of plan itself, or is fast with any; retry like `run_read`."""
        with translate_errors(self.place):
            if self._pooler:
                return self._retry_once(partial(_run_transaction, work=work, begin=self._begin_read))
            return self._retry_once(work)

    def fetch_rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Fetch the rows of a simple statement."""
        return self.run_read_with_own_plan(lambda connection: fetch_rows(connection, sql, params))

    def run_transaction(self, work: Callable[[Connection], T]) -> T:
        """Run work in one transaction and return its result.

        If the connection is lost before the commit, nothing has happened, and the transaction is retried once. If it is
        lost during the commit, the outcome is unknown, and the transaction is not retried.
        """
        with translate_errors(self.place):
            return self._retry_once(partial(_run_transaction, work=work, begin=self._begin))

    @contextmanager
    def read_state(self, work: Callable[[Connection], T]) -> Iterator[tuple[Connection, T]]:
        """Open a snapshot: yield its connection and the result of the first read, which is retried like `run_read`."""

        def begin(connection: Connection) -> tuple[Connection, T]:
            with connection.pipeline():
                self._begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return connection, work(connection)

        with translate_errors(self.place), ExitStack() as held:
            connection, found = self._retry_once(begin, held)
            try:
                yield connection, found
                connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    def _begin(self, connection: Connection, statement: str = "BEGIN") -> None:
        connection.execute(statement)
        if self._pooler:
            configure_connection(connection, self._collection, access=self._access, is_local=True)
        else:
            connection.execute(LOCAL_CUSTOM_PLANS)

    def _begin_read(self, connection: Connection) -> None:
        self._begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ")

    def open_connection(self) -> Connection:
        """Open a connection outside the pool, for long work. The caller must close it."""
        return connect(self._url, self._collection, access=self._access)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _retry_once(self, work: Callable[[Connection], T], held: ExitStack | None = None) -> T:
        """Run work, and retry it once on a broken connection; `held` keeps the connection until it is closed."""
        for is_last in (False, True):
            with ExitStack() as taken:
                connection = self._get_connection()
                taken.callback(self._pool.putconn, connection)
                try:
                    result = work(connection)
                except psycopg.OperationalError as error:
                    if is_last or isinstance(error, CommitUnknown) or not connection.broken:
                        raise
                else:
                    if held is not None:
                        held.push(taken.pop_all())
                    return result
            self._pool.check()  # others were probably lost too
        raise AssertionError

    def _get_connection(self) -> Connection:
        """Get a connection from the pool, which the caller must put back; the error says why there is none."""
        try:
            return self._pool.getconn()
        except PoolTimeout:
            if self._pooler:
                psycopg.connect(self._pooler, **_make_default_options(self._pooler)).close()
                raise
            connect(self._url, self._collection, access=self._access).close()  # fails with the reason, if there is one
            raise


def fetch_rows(
    connection: Connection, sql: str, params: Sequence[Any] | Mapping[str, Any] = (), *, prepare: bool | None = None
) -> list[Row]:
    """Fetch the rows of a statement, vectors as bytes; `prepare=True` prepares a frequent one."""
    return connection.cursor(binary=True).execute(sql, params, prepare=prepare).fetchall()


def _run_transaction(connection: Connection, work: Callable[[Connection], T], begin: Callable[[Connection], None]) -> T:
    """Run a transaction; pipeline statements without results, and commit when all are done."""
    is_committing = False
    try:
        with connection.pipeline() as pipeline:
            begin(connection)
            result = work(connection)
            if pipeline.result_queue:
                _flush_output(connection)
                pipeline.sync()
            is_committing = True
            connection.execute("COMMIT")
    except BaseException as error:
        if is_committing and connection.broken and isinstance(error, psycopg.OperationalError):
            raise CommitUnknown(str(error)) from error
        with suppress(psycopg.Error):  # on a lost connection the server has rolled back anyway
            connection.execute("ROLLBACK")
        raise
    return result


def _flush_output(connection: Connection) -> None:
    """Send the whole output buffer: after a part, psycopg would wait for results, and the server for the rest."""
    with DefaultSelector() as ready:
        ready.register(connection.fileno(), EVENT_READ | EVENT_WRITE)
        while connection.pgconn.flush():
            for _, events in ready.select():
                if events & EVENT_READ:  # a server may stop reading if its output is not read
                    connection.pgconn.consume_input()


def _make_default_options(url: str) -> dict[str, Any]:
    """Make the connection options that an address does not set, and the fixed encoding."""
    given, usual = conninfo_to_dict(url), {"connect_timeout": 10, "application_name": "clew"}
    return {"client_encoding": "UTF8", **{key: value for key, value in usual.items() if key not in given}}


def forget_settings(connection: Connection, *, is_local: bool) -> None:
    """Record that a connection was configured anew, until it is closed or, if `is_local`, its transaction ends."""
    _applied.pop(connection, None)
    if is_local:
        _local.add(connection)


def is_local(connection: Connection) -> bool:
    """Return whether the settings of a connection end with each transaction."""
    return connection in _local


def use_custom_plans(connection: Connection) -> None:
    """Make PostgreSQL plan every statement for its parameters."""
    _apply_settings(connection, CUSTOM_PLANS)


def use_generic_plans(connection: Connection) -> None:
    """Make PostgreSQL plan a prepared statement only once."""
    _apply_settings(connection, _GENERIC_PLANS)


def use_graph_plans(connection: Connection, breadth: int, *, iterative: bool) -> None:
    """Use generic plans for graph searches with `breadth` candidates.

    iterative: Continue the scan if a filter leaves too few. This records every visited row and doubles the time.
    """
    scan = "relaxed_order" if iterative else "off"
    _apply_settings(connection, {**_GENERIC_PLANS, "hnsw.ef_search": str(breadth), "hnsw.iterative_scan": scan})


def _apply_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """Change the settings that differ; unless they are local, outside a transaction, which might roll them back."""
    current = _applied.setdefault(
        connection, {**CUSTOM_PLANS, "hnsw.iterative_scan": "off"}
    )  # old versions of pgvector lack iterative scans
    new = {name: value for name, value in settings.items() if current.get(name) != value}
    if new:
        calls = ", ".join([f"set_config(%s, %s, {str(is_local(connection)).lower()})"] * len(new))
        connection.execute(f"SELECT {calls}", [word for pair in new.items() for word in pair])
        current.update(new)


def limit_to_labels(connection: Connection, access: Sequence[str], *, is_local: bool = False) -> None:
    """Make a connection, or its transaction, read-only and limited to rows with one of the labels or with none.

    Statements then read the views of `clew_seen` instead of the tables with the same names: the views have the sizes of
    hidden messages, which are needed for places in a thread. Superusers bypass row-level security: they keep the
    tables, and only the engine's filter applies.
    """
    labels = ",".join(str(hash_facet(facet)) for facet in sorted(make_label_facets(access)))
    connection.execute(
        "SELECT set_config('clew.access', %(labels)s, %(local)s), set_config(%(read_only)s, 'on', %(local)s),"
        " set_config('search_path',"
        " CASE WHEN row_security_active('clew.chunks') THEN 'clew_seen, ' ELSE '' END"
        " || current_setting('search_path'), %(local)s)",
        {
            "labels": f"{{{labels}}}",
            "read_only": "transaction_read_only" if is_local else "default_transaction_read_only",
            "local": is_local,
        },
    )
