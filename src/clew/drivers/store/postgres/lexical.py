"""Search by words: BM25 in SQL over the postings, as `bm25` has it, so that scores agree with any other store.

How many chunks have a word is counted for each search, and the mean length is that of the collection in the same
snapshot, so a score never depends on how the collection came to be.
"""

from psycopg import Connection

from clew.drivers.store import codec as nouns
from clew.drivers.store import order
from clew.drivers.store.bm25 import K1, B
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.pool import Row, rows
from clew.drivers.store.postgres.sieve import Sieve
from clew.drivers.store.words import Packed

MORE = 500  # of the best that are looked at first for those that a filter admits
ALL = 1 << 62
UNIT = 10**order.LEXICAL_DIGITS

_SCORED = """
WITH w AS MATERIALIZED (
  SELECT a.word, {k1} * {b} / greatest(c.length::float8 / greatest(c.chunks, 1), 1e-9::float8) AS slope,
    a.times * ln(1::float8 + (greatest(c.chunks, h.many) - h.many + 0.5::float8) / (h.many + 0.5::float8)) AS weight
  FROM unnest(%s::bigint[], %s::int[]) AS a(word, times)
  JOIN LATERAL (SELECT count(*)::float8 AS many FROM postings p WHERE p.word = a.word AND p.collection = {number}) h
    ON true
  JOIN collections c ON c.number = {number}),
t AS (
  SELECT p.chunk, sum(w.weight * p.count / (p.count + {k1} * (1::float8 - {b}) + w.slope * p.length)) AS score
  FROM w JOIN postings p ON p.word = w.word AND p.collection = {number}{few} GROUP BY p.chunk),
best AS (
  SELECT chunk, round(score * {unit}) AS score FROM t ORDER BY 2 DESC FETCH FIRST %s ROWS WITH TIES)
SELECT best.score, {shown} FROM best JOIN chunks c ON c.row = best.chunk JOIN documents d ON d.row = c.doc{joins}
WHERE best.score > 0{sieve} ORDER BY best.score DESC, c.id LIMIT %s
"""


def matching(
    connection: Connection, number: int, asked: Packed, k: int, sieve: Sieve, few: Sieve | None
) -> list[tuple[Row, float]]:
    """The k chunks of greatest score that a sieve lets through, of all or of a few, with their scores."""
    sql = _SCORED.format(
        number=number,
        k1=f"{K1}::float8",
        b=f"{B}::float8",
        unit=f"{UNIT}::float8",
        shown=nouns.CHUNK_COLUMNS,
        few=f" WHERE p.chunk IN ({few.sql})" if few else "",
        joins=" JOIN signals s ON s.row = best.chunk" if sieve.sql else "",
        sieve=sieve.sql,
    )
    before = (codec.bigints(asked.hashes), codec.ints(asked.counts), *(few.given if few else ()))
    limits = (k,) if not sieve.sql else (ALL,) if few else (k + MORE, ALL)
    for limit in limits:
        found = rows(connection, sql, (*before, limit, *sieve.given, k))
        if len(found) == k:
            break
    return [(each[1:], each[0] / UNIT) for each in found]
