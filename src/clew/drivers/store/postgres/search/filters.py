"""Filters in SQL: conditions on the rows of a search, and the few rows that are left where a filter admits but few."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from clew.core.facets import to_timestamp
from clew.core.types import Filter
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect.pool import rows

SHARE = 4  # a filter that admits more than one chunk in this many is looked at row by row


@dataclass(frozen=True, slots=True)
class Sieve:
    """A piece of SQL and what is given to it."""

    sql: str = ""
    given: tuple[Any, ...] = ()


EVERY = Sieve()  # lets all rows through


def conditions(groups: Sequence[frozenset[str]], where: Filter | None = None) -> Sieve:
    """What must hold of a row `s`: a facet of each group and, if a filter is given, its time."""
    if not groups and (where is None or (where.since is None and where.until is None)):
        return EVERY
    sql, given = "", list[Any]()
    for group in groups:
        sql += " AND s.facets && %s::bigint[]"
        given.append(_hashes(group))
    if where is not None:
        timed = _timed(where)
        sql, given = sql + timed.sql, [*given, *timed.given]
    return Sieve(sql, tuple(given))


def few(
    connection: Connection, number: int, groups: Sequence[frozenset[str]], where: Filter, limit: int
) -> Sieve | None:
    """A statement for the rows that one condition of a filter admits, if it is at most so many and a small share of
    all; None if none is that narrow.

    It goes by the postings of facets: under row-level security no index on arrays may be used, since its operators
    might tell of rows that are not to be seen.
    """
    sources = [
        Sieve(f"SELECT chunk AS row FROM postings WHERE collection = {number} AND word = ANY(%s::bigint[])", (each,))
        for each in map(_hashes, groups)
    ]
    timed = _timed(where)
    if timed.sql:
        sources.append(Sieve(f"SELECT s.row FROM signals s WHERE s.collection = {number}{timed.sql}", timed.given))
    if not sources or limit < 1:
        return None
    counts = ", ".join(f"(SELECT count(*) FROM ({each.sql} LIMIT {limit + 1}) x)" for each in sources)
    ((*counted, chunks),) = rows(
        connection,
        f"SELECT {counts}, (SELECT chunks FROM collections WHERE number = {number})",
        [given for each in sources for given in each.given],
    )
    least = min(range(len(sources)), key=lambda at: counted[at])
    return sources[least] if counted[least] <= min(limit, (chunks or 0) // SHARE) else None


def _timed(where: Filter) -> Sieve:
    if where.since is None and where.until is None:
        return EVERY
    since, until = to_timestamp(where.since), to_timestamp(where.until)
    asked = [(" AND s.seconds >= %s::float8", since), (" AND s.seconds < %s::float8", until)]
    return Sieve("".join(sql for sql, at in asked if at is not None), tuple(at for _, at in asked if at is not None))


def _hashes(group: frozenset[str]) -> codec.Raw:
    return codec.bigints([codec.facet_hash(facet) for facet in sorted(group)])
