"""Search by words: BM25 in SQL over the postings, as `bm25` has it, so that scores agree with any other store.

How many chunks have a word is counted for each search, and the mean length is that of the collection in the same
snapshot, so a score never depends on how the collection came to be.
"""

from psycopg import Connection

from clew.drivers.store import codec as nouns
from clew.drivers.store import order
from clew.drivers.store.bm25 import K1, B
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.connect import planner as session
from clew.drivers.store.postgres.connect.pool import Row, rows
from clew.drivers.store.postgres.search.filters import Sieve
from clew.drivers.store.term_ids import Packed

SPARE = 6  # of the best that are read beyond those asked for; where all of these are equal, all equal ones are read
MORE = 500  # of the best that are looked at first for those that a filter admits
ALL = 1 << 62
UNIT = 10**order.LEXICAL_DIGITS

_SCORED = f"""
WITH w AS MATERIALIZED (
  SELECT a.word, {K1}::float8 * {B}::float8 / greatest(c.length::float8 / greatest(c.chunks, 1), 1e-9::float8) AS slope,
    a.times * ln(1::float8 + (greatest(c.chunks, h.many) - h.many + 0.5::float8) / (h.many + 0.5::float8)) AS weight
  FROM unnest(%s::bigint[], %s::int[]) AS a(word, times)
  JOIN LATERAL (SELECT count(*)::float8 AS many FROM postings p WHERE p.word = a.word AND p.collection = {{number}}) h
    ON true
  JOIN collections c ON c.number = {{number}}),
t AS (
  SELECT p.chunk, sum(w.weight * p.count / (p.count + {K1}::float8 * (1::float8 - {B}::float8) + w.slope * p.length))
    AS score
  FROM w JOIN postings p ON p.word = w.word AND p.collection = {{number}}{{few}} GROUP BY p.chunk),
"""
_SHOWN = f"{nouns.CHUNK_COLUMNS} FROM best JOIN chunks c ON c.row = best.chunk JOIN documents d ON d.row = c.doc"
# The best are found without sorting all; that leaves open which of those that are equal to the last.
_FIRST = f"""
best AS (SELECT chunk, score FROM t ORDER BY score DESC LIMIT {{limit}})
SELECT round(best.score * {UNIT}::float8), {_SHOWN} WHERE best.score > 0
"""
_TIED = f"""
best AS (
  SELECT chunk, round(score * {UNIT}::float8) AS score FROM t ORDER BY 2 DESC FETCH FIRST {{limit}} ROWS WITH TIES)
SELECT best.score, {_SHOWN}{{joins}} WHERE best.score > 0{{sieve}} ORDER BY best.score DESC, c.id LIMIT {{k}}
"""


def matching(
    connection: Connection, number: int, asked: Packed, k: int, sieve: Sieve, few: Sieve | None
) -> list[tuple[Row, float]]:
    """The k chunks of greatest score that a sieve lets through, of all or of a few, with their scores."""
    given = (codec.bigints(asked.hashes), codec.ints(asked.counts), *(few.given if few else ()), *sieve.given)
    scored = _SCORED.format(number=number, few=f" WHERE p.chunk IN ({few.sql})" if few else "")
    if few:
        session.plan_anew(connection)
    else:
        session.plan_once(connection)
    if not sieve.sql and len(asked.hashes) > 1:  # with one word, many are equal
        found = rows(connection, scored + _FIRST.format(limit=k + SPARE), given, prepare=True)
        found.sort(key=lambda each: (-each[0], each[1]))
        if len(found) < k + SPARE or found[k - 1][0] > found[-1][0]:
            return _scores(found[:k])
    joins = " JOIN signals s ON s.row = best.chunk" if sieve.sql else ""
    for limit in (k,) if not sieve.sql else (ALL,) if few else (k + MORE, ALL):
        tied = _TIED.format(joins=joins, sieve=sieve.sql, limit=limit, k=k)
        found = rows(connection, scored + tied, given, prepare=None if few else True)
        if len(found) == k:
            break
    return _scores(found)


def _scores(found: list[Row]) -> list[tuple[Row, float]]:
    return [(each[1:], each[0] / UNIT) for each in found]
