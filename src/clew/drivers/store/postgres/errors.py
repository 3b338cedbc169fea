"""Errors of PostgreSQL as DriverFailed: what is wrong and what to do next, never with a password."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from clew.core.errors import DriverFailed, ReadOnlyStore, SettingsError
from clew.drivers.store.checksums import HALF_CHARACTER

_ADVICE: dict[type[psycopg.Error], str] = {
    errors.DiskFull: "the server's disk is full; make room and try again; nothing was half written",
    errors.OutOfMemory: "the server has no memory left; try again, with fewer programs at once",
    errors.TooManyConnections: "the server takes no more connections; close some, or raise its max_connections",
    errors.InsufficientPrivilege: "the role may not do this; connect as the owner of the tables, or grant it what"
    " app_role.sql lists",
    errors.ReadOnlySqlTransaction: "the server only reads (a standby, or set read-only); connect to the primary: of"
    " several hosts by target_session_attrs=read-write in the address",
    errors.DeadlockDetected: "deadlock: two programs waited for each other, and this one was stopped; try again",
    errors.LockNotAvailable: "another program holds a lock that this one needs; try again when it is done",
    errors.QueryCanceled: "the statement was stopped (statement_timeout, or an administrator); try again, or raise it",
    errors.UniqueViolation: "a chunk id is given twice, or is taken by another document; nothing was stored",
    errors.ForeignKeyViolation: "the collection or document was removed meanwhile; open it again",
    errors.UndefinedTable: "a table of Clew is missing; restore the schema clew from a backup, or drop it and add the"
    " sources again",
    errors.InvalidPassword: "the password is wrong, or none was given; check the address",
    errors.InvalidCatalogName: "there is no such database; make it with createdb",
    errors.ProgramLimitExceeded: "an id is too long for the server to index (about 2,700 bytes); give a shorter one",
}
_UNREADABLE = (
    "the address of the database cannot be read; it must look like postgresql://user:password@host:5432/name, "
    "with special characters in the password percent-encoded"
)
_NO_HOST = "there is no host of that name; check the address"
UNREACHABLE = (
    "the server cannot be reached, or has closed the connection; check that it runs and the address, and try again"
)
_ADVICE_BY_TEXT = {  # a failed connection has only a text, no error code; the first match counts
    "ssl connection has been closed": UNREACHABLE,
    "ssl syscall error": UNREACHABLE,
    "unexpected eof": UNREACHABLE,
    "password authentication failed": _ADVICE[errors.InvalidPassword],
    "no password supplied": _ADVICE[errors.InvalidPassword],
    "does not exist": "there is no such database or role; make it with createdb or createuser",
    "too many": _ADVICE[errors.TooManyConnections],
    "no pg_hba.conf entry": "the server takes no connections from here; an administrator allows them in pg_hba.conf",
    "could not translate host": _NO_HOST,
    "failed to resolve host": _NO_HOST,
    "ssl": "the server and this program do not agree on encryption; check sslmode in the address",
}


class CommitUnknown(psycopg.OperationalError):
    """The connection was lost during a commit."""


def describe_address(url: str) -> str:
    """Return the address without its password, for messages."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:  # its message may contain the password
        raise SettingsError(_UNREADABLE) from None
    host = str(known.get("host") or "localhost")
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    # An unencoded password ends at an @ or /, and its rest would be read as host or path.
    is_ambiguous = ("@" in host[1:] and host[0] != "/") or "@" in path
    if is_ambiguous or str(known.get("port") or "").strip("0123456789,"):
        raise SettingsError(_UNREADABLE)
    user, name = (f"{known['user']}@" if known.get("user") else ""), known.get("dbname") or known.get("user") or ""
    return f"postgresql://{user}{_describe_hosts(host, str(known.get('port') or ''))}/{name}"


def _describe_hosts(hosts: str, ports: str) -> str:
    """Format each host with its port; the folder of a socket in brackets."""
    names, numbers = hosts.split(","), ports.split(",")
    numbers = numbers if len(numbers) == len(names) else numbers * len(names)
    return ",".join(
        f"[{name}]" if name.startswith("/") else f"{name}:{number}" if number else name
        for name, number in zip(names, numbers, strict=False)
    )


def identify_database(url: str) -> str:
    """Return host, port and name of a database in one spelling, the same for every role and form of address.

    Missing parts come from the environment (PGHOST …), as in libpq.
    """
    describe_address(url)  # raises if it cannot be read
    defaults = {each.keyword.decode(): (each.val or b"").decode() for each in pq.Conninfo.get_defaults()}
    given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value}
    known = defaults | given
    hosts = given.get("host") or given.get("hostaddr") or known.get("host") or known.get("hostaddr") or ""
    ports = known["port"].split(",")
    servers = zip(hosts.split(","), ports * (hosts.count(",") + 1 if len(ports) == 1 else 1), strict=False)
    places = dict.fromkeys(f"{_normalise_host(host)}:{port.lstrip('0') or 5432}" for host, port in servers)
    return f"postgresql://{','.join(places)}/{known.get('dbname') or known['user']}"


def _normalise_host(host: str) -> str:
    """Normalise the spelling of a host; a socket folder, or no host, is localhost."""
    host = host.strip().lower().rstrip(".")
    if not host or host[0] in "/@":
        return "localhost"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return "localhost" if address.is_loopback else str(address)


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn every error of the server or the connection into a DriverFailed with advice."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError) as error:
        message = str(error).strip().split("\n")[0]
        is_refused = isinstance(error, (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege))
        kind = ReadOnlyStore if is_refused else DriverFailed
        raise kind(f"{place}: {_advise_on_error(error)} ({message})") from error


def _advise_on_error(error: Exception) -> str:
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            return advice
    message = str(error).lower()
    if isinstance(error, UnicodeEncodeError):
        return HALF_CHARACTER
    if isinstance(error, psycopg.DataError) and "nul" in message:
        return "a text holds a NUL character, which PostgreSQL cannot store; remove it from the source"
    if isinstance(error, CommitUnknown):
        return "the connection was lost during the commit, so the change may be stored or not; check, then try again"
    if isinstance(error, PoolClosed):
        return "the store is closed; open it again"
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        return "all connections of this program have been busy for too long; ask less at once"
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return next((advice for text, advice in _ADVICE_BY_TEXT.items() if text in message), UNREACHABLE)
    return "the database failed; try again, and read the server's log if it fails again"
