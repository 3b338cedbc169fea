"""Filters in SQL: conditions on the rows of a search, and the subset of rows to search where a filter is narrow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from clew.core.facets import Condition
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.pool import fetch_rows

SUBSET_SHARE = 4  # a condition that admits more than one chunk in this many is checked row by row


@dataclass(frozen=True, slots=True)
class SqlFragment:
    """A piece of SQL and its parameters."""

    sql: str = ""
    params: tuple[Any, ...] = ()


NO_CONDITION = SqlFragment()


def build_filter_conditions(alternatives: Sequence[Condition], *, table: str = "s") -> SqlFragment:
    """Conditions on a row of a table: one of the alternatives, of which there must be some."""
    if any(each.is_empty for each in alternatives):
        return NO_CONDITION
    made = [_build_condition(each, table) for each in alternatives]
    sql = " OR ".join(f"({each.sql})" for each in made)
    return SqlFragment(f" AND ({sql})", tuple(param for each in made for param in each.params))


def find_narrow_subset(
    connection: Connection, number: int, alternatives: Sequence[Condition], limit: int
) -> SqlFragment | None:
    """A query for the rows of the narrowest part of each alternative, if they are few; None if one is not narrow.

    It reads the postings of facets: under row-level security PostgreSQL uses no index on arrays, since its operators
    could leak hidden rows.
    """
    sources = [_list_narrowing_parts(each, number) for each in alternatives]
    if not sources or not all(sources) or limit < 1:
        return None
    counts = ", ".join(
        f"(SELECT count(*) FROM ({part.sql} LIMIT {limit + 1}) x)" for parts in sources for part in parts
    )
    ((*counted, chunks),) = fetch_rows(
        connection,
        f"SELECT {counts}, (SELECT chunks FROM collections WHERE number = {number})",
        [param for parts in sources for part in parts for param in part.params],
    )
    rows = iter(counted)
    narrowest = [min(((next(rows), part) for part in parts), key=lambda pair: pair[0]) for parts in sources]
    if sum(count for count, _ in narrowest) > min(limit, (chunks or 0) // SUBSET_SHARE):
        return None
    sql = " UNION ALL ".join(part.sql for _, part in narrowest)
    return SqlFragment(sql, tuple(param for _, part in narrowest for param in part.params))


def _build_condition(condition: Condition, table: str) -> SqlFragment:
    parts, params = list[str](), list[Any]()
    for group in condition.groups:
        parts.append(f"{table}.facets && %s::bigint[]")
        params.append(_encode_facets(group))
    if condition.forbidden:
        parts.append(f"NOT {table}.facets && %s::bigint[]")
        params.append(_encode_facets(condition.forbidden))
    timed = _bound_time(condition)
    return SqlFragment(" AND ".join(filter(None, [*parts, timed.sql])), (*params, *timed.params))


def _list_narrowing_parts(condition: Condition, number: int) -> list[SqlFragment]:
    """Queries for the rows of each part of a condition that an index finds."""
    parts = [
        SqlFragment(
            f"SELECT chunk AS row FROM postings WHERE collection = {number} AND word = ANY(%s::bigint[])",
            (_encode_facets(group),),
        )
        for group in condition.groups
    ]
    timed = _bound_time(condition)
    if timed.sql:
        sql = f"SELECT s.row FROM signals s WHERE s.collection = {number} AND {timed.sql}"
        parts.append(SqlFragment(sql, timed.params))
    return parts


def _bound_time(condition: Condition) -> SqlFragment:
    bounds = [("s.seconds >= %s::float8", condition.since), ("s.seconds < %s::float8", condition.until)]
    given = [(sql, at) for sql, at in bounds if at is not None]
    return SqlFragment(" AND ".join(sql for sql, _ in given), tuple(at for _, at in given))


def _encode_facets(group: frozenset[str]) -> binary.BinaryParam:
    return binary.encode_bigints([binary.hash_facet(facet) for facet in sorted(group)])
