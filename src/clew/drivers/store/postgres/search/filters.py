"""Filters in SQL: conditions on the rows of a search, and the subset of rows to search where a filter is narrow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from clew.core.time import to_timestamp
from clew.core.types import Filter
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.connect.pool import fetch_rows

SUBSET_SHARE = 4  # a condition that admits more than one chunk in this many is checked row by row


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A piece of SQL and its parameters."""

    sql: str = ""
    params: tuple[Any, ...] = ()


NO_CONDITION = SqlFragment()


def build_filter_conditions(
    groups: Sequence[frozenset[str]], where: Filter | None = None, *, table: str = "s"
) -> SqlFragment:
    """Conditions on a row of a table: a facet of each group and, if a filter is given, its time range."""
    if not groups and (where is None or (where.since is None and where.until is None)):
        return NO_CONDITION
    sql, params = "", list[Any]()
    for group in groups:
        sql += f" AND {table}.facets && %s::bigint[]"
        params.append(_encode_facets(group))
    if where is not None:
        timed = _build_time_condition(where)
        sql, params = sql + timed.sql, [*params, *timed.params]
    return SqlFragment(sql, tuple(params))


def find_narrow_subset(
    connection: Connection, number: int, groups: Sequence[frozenset[str]], where: Filter, limit: int
) -> SqlFragment | None:
    """A query for the rows of the filter's narrowest condition, if they are few; None if no condition is narrow.

    It reads the postings of facets: under row-level security PostgreSQL uses no index on arrays, since its operators
    could leak hidden rows.
    """
    sources = [
        SqlFragment(
            f"SELECT chunk AS row FROM postings WHERE collection = {number} AND word = ANY(%s::bigint[])",
            (_encode_facets(group),),
        )
        for group in groups
    ]
    timed = _build_time_condition(where)
    if timed.sql:
        sql = f"SELECT s.row FROM signals s WHERE s.collection = {number}{timed.sql}"
        sources.append(SqlFragment(sql, timed.params))
    if not sources or limit < 1:
        return None
    counts = ", ".join(f"(SELECT count(*) FROM ({each.sql} LIMIT {limit + 1}) x)" for each in sources)
    ((*counted, chunks),) = fetch_rows(
        connection,
        f"SELECT {counts}, (SELECT chunks FROM collections WHERE number = {number})",
        [param for each in sources for param in each.params],
    )
    narrowest = min(range(len(sources)), key=lambda position: counted[position])
    return sources[narrowest] if counted[narrowest] <= min(limit, (chunks or 0) // SUBSET_SHARE) else None


def _build_time_condition(where: Filter) -> SqlFragment:
    if where.since is None and where.until is None:
        return NO_CONDITION
    since, until = to_timestamp(where.since), to_timestamp(where.until)
    bounds = [(" AND s.seconds >= %s::float8", since), (" AND s.seconds < %s::float8", until)]
    given = [(sql, at) for sql, at in bounds if at is not None]
    return SqlFragment("".join(sql for sql, _ in given), tuple(at for _, at in given))


def _encode_facets(group: frozenset[str]) -> binary.BinaryParam:
    return binary.encode_bigints([binary.hash_facet(facet) for facet in sorted(group)])
