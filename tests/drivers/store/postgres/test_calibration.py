"""The calibration in PostgreSQL: a program reaches that of its own collection alone."""

from contextlib import closing

from clew.drivers.store import postgres
from clew.drivers.store.store import BackendStore
from tests.backends import get_server


def open_store(url: str, collection: str = "one") -> closing[BackendStore]:
    return closing(postgres.open_store(url, collection=collection, embedder="m", dim=4))


def as_app(url: str) -> str:
    """The address for the role of a program, which is not free of row-level security."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20role%3Dclew_app"


def test_a_program_reaches_the_calibration_of_its_own_collection_alone(postgres: str) -> None:
    url = as_app(postgres)
    with open_store(url, "one") as one, open_store(url, "two") as two:
        one.set_calibration("of one")
        two.set_calibration("of two")
        read, pool = "SELECT value FROM named WHERE kind = 'calibration'", get_server(one)._pool
        assert pool.fetch_rows(read) == [('"of one"',)]
        assert pool.fetch_rows("UPDATE named SET value = '' WHERE value = '\"of two\"' RETURNING 1") == []
        assert (one.calibration(), two.calibration()) == ("of one", "of two")
