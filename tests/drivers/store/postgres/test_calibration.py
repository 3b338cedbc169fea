"""The calibration in PostgreSQL: tables of an earlier version get it, and a program reaches its collection's alone."""

from collections.abc import Callable
from contextlib import closing
from importlib.resources import files

import numpy as np
import psycopg
import pytest

from clew.core.errors import DriverFailed
from clew.core.jobs import Job
from clew.core.types import Chunk, Document
from clew.drivers.store.postgres import PostgresStore
from clew.drivers.store.postgres.connect import setup


def open_store(url: str, collection: str = "one") -> closing[PostgresStore]:
    return closing(PostgresStore(url, collection=collection, embedder="m", dim=4))


def as_app(url: str) -> str:
    """The address for the role of a program, which is not free of row-level security."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20role%3Dclew_app"


def test_tables_of_an_earlier_version_get_a_calibration(
    postgres_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, before = postgres_database("template0"), setup.list_migrations()[:4]
    with monkeypatch.context() as patch:
        patch.setattr(setup, "list_migrations", lambda: before)
        patch.setattr(setup, "_make_partition", lambda _: None)
        with open_store(url):
            pass  # the tables are made
    with psycopg.connect(url, autocommit=True) as server:  # the role as it was then
        rights = files("clew.drivers.store.postgres").joinpath("app_role.sql").read_text("utf-8")
        server.execute(rights.replace(", clew.jobs", "").replace(", clew.make_partition()", ""))
    with pytest.raises(DriverFailed, match="open the collection once as the owner"):
        PostgresStore(as_app(url), collection="one", embedder="m", dim=4)
    with open_store(url) as store:
        assert store.calibration() == ""
        chunk = Chunk("c", "log", 0, 1, "anchor", 0, 6)
        store.put(Document("log", "anchor"), [chunk], np.full((1, 4), 0.5, np.float32), [{"anchor": 1}])
        assert store.match_terms({"anchor": 1}, ["c"])["c"].share == 1
    with open_store(as_app(url)) as store:  # a role that was made before has the rights already
        store.set_calibration("measured")
        assert store.calibration() == "measured"
        store.jobs.put(Job("a", "add", {}))
        assert [job.id for job in store.jobs.all()] == ["a"]


def test_a_program_reaches_the_calibration_of_its_own_collection_alone(postgres: str) -> None:
    url = as_app(postgres)
    with open_store(url, "one") as one, open_store(url, "two") as two:
        one.set_calibration("of one")
        two.set_calibration("of two")
        assert one._pool.fetch_rows("SELECT calibration FROM collections") == [("of one",)]
        assert one._pool.fetch_rows("UPDATE collections SET calibration = '' WHERE name = 'two' RETURNING 1") == []
        assert (one.calibration(), two.calibration()) == ("of one", "of two")
