"""The indexes and triggers of the tables: which there must be, and those that are missing made again."""

import sqlite3
from collections.abc import Mapping
from functools import lru_cache

from clew.core.pattern import compile_pattern
from clew.drivers.store.embedded import tables

_PART = compile_pattern(r"\s*CREATE (?:INDEX|TRIGGER) (\w+) ")
_DROPPED = compile_pattern(r"\s*DROP (?:INDEX|TRIGGER) (\w+)")


@lru_cache(1)
def list_parts() -> Mapping[str, str]:
    """The indexes and triggers by name, with the statement that makes each."""
    statements = [*tables.TABLES.split(";\n"), *(each for sql in tables.UPGRADES.values() for each in sql.split(";\n"))]
    found: dict[str, str] = {}
    for statement in statements:
        if made := _PART.match(statement):
            found[made.group(1)] = statement
        elif dropped := _DROPPED.match(statement):
            found.pop(dropped.group(1), None)
    return found


def find_missing_parts(db: sqlite3.Connection) -> list[str]:
    """The names of the indexes and triggers that are not there."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")}
    return [name for name in list_parts() if name not in there]


def create_missing_parts(db: sqlite3.Connection) -> None:
    """Makes the indexes and triggers that are not there."""
    for name in find_missing_parts(db):
        db.execute(list_parts()[name])
