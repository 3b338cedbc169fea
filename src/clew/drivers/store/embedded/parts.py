"""The indexes and triggers of the tables: which there must be, and those that are missing made again."""

import sqlite3
from collections.abc import Mapping
from functools import lru_cache

from clew.core.pattern import compile_pattern
from clew.drivers.store.embedded.tables import STATEMENTS

_PART = compile_pattern(r"\s*CREATE (?:INDEX|TRIGGER) (\w+) ")


@lru_cache(1)
def list_parts() -> Mapping[str, str]:
    """The indexes and triggers by name, with the statement that makes each."""
    return {made.group(1): statement for statement in STATEMENTS if (made := _PART.match(statement))}


def find_missing_parts(db: sqlite3.Connection) -> list[str]:
    """The names of the indexes and triggers that are not there."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")}
    return [name for name in list_parts() if name not in there]


def create_missing_parts(db: sqlite3.Connection) -> None:
    """Makes the indexes and triggers that are not there."""
    for name in find_missing_parts(db):
        db.execute(list_parts()[name])
