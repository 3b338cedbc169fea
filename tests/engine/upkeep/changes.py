"""A small collection that is changed past Clew, as damage would come: without the checksums following it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Message
from clew.core.doctor import DoctorReport
from tests.engine.upkeep.faults import make_damageable

Change = Callable[[str], None]
PAGES = [Document(f"d{n}", f"Page {n} is on the vault. Its keys rotate every {n} days. " * 20, ()) for n in range(4)]
START = datetime(2024, 5, 1, tzinfo=UTC)
CHAT = [Message(f"the rota, part {n}", "ann", START + timedelta(minutes=n), f"m{n}", "ops") for n in range(5)]


def fill(engine: Engine) -> None:
    engine.add_documents(PAGES)
    engine.add_messages(CHAT)


def change_folder(folder: Path, sql: str, *values: Any) -> None:
    """Runs SQL on the collection in a folder."""
    with closing(sqlite3.connect(folder / "clew.db", isolation_level=None)) as db:
        db.execute(sql, values)


def make_change(request: pytest.FixtureRequest, engine: Engine) -> Change:
    """Runs SQL on the collection of an engine, in either store."""
    if (folder := engine.opened.folder) is not None:
        return lambda sql: change_folder(folder, sql)
    import psycopg

    url = request.getfixturevalue("postgres")
    make_damageable(url)

    def change(sql: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")  # past that trigger
            connection.execute("SET search_path TO clew, public")
            connection.execute(sql)

    return change


def cure(engine: Engine) -> DoctorReport:
    """What one repair found; nothing is left to find after it."""
    report = engine.doctor(repair=True)
    assert report.is_sound, report.defects
    assert not (left := engine.doctor(full=True).defects), left
    return report
