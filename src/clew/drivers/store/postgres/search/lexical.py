"""Lexical search: BM25 in SQL over the postings, with the formula of `bm25`, so that scores agree with other stores.

Document frequencies are counted for each search, and the mean length is that of the collection in the same snapshot,
so a score never depends on how the collection came to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from clew.core.stored import Hashes, PackedTerms
from clew.core.types import TermMatch
from clew.drivers.store.backend import RowScores
from clew.drivers.store.bm25 import DIGITS, K1, B
from clew.drivers.store.postgres import binary
from clew.drivers.store.postgres.connect import planner
from clew.drivers.store.postgres.connect.pool import Row, fetch_rows
from clew.drivers.store.postgres.search.filters import SqlFragment

SPARE = 6  # rows read beyond the k best; where these are all tied, all tied rows are read
FILTERED_MARGIN = 500  # rows beyond the k best to which a filter is applied first
ALL = 1 << 62
UNIT = 10**DIGITS

_WEIGHTS = f"""
WITH w AS MATERIALIZED (
  SELECT a.word, {K1}::float8 * {B}::float8 / greatest(c.length::float8 / greatest(c.chunks, 1), 1e-9::float8) AS slope,
    a.times * ln(1::float8 + (greatest(c.chunks, h.many) - h.many + 0.5::float8) / (h.many + 0.5::float8)) AS weight
  FROM unnest(%s::bigint[], %s::int[]) AS a(word, times)
  JOIN LATERAL ({{many}}) h ON true
  JOIN collections c ON c.number = {{number}})
"""
_COUNTED = "SELECT count(*)::float8 AS many FROM postings p WHERE p.word = a.word AND p.collection = {number}"
_COUNTED_ALL = "SELECT clew.count_chunks(a.word)::float8 AS many"  # also those that labels hide
_SCORE = f"sum(w.weight * p.count / (p.count + {K1}::float8 * (1::float8 - {B}::float8) + w.slope * p.length))"
_SCORED = f"""{_WEIGHTS}, t AS (
  SELECT p.chunk, {_SCORE} AS score
  FROM w JOIN postings p ON p.word = w.word AND p.collection = {{number}}{{subset}} GROUP BY p.chunk),
"""
_HITS = "c.id, c.row FROM best JOIN chunks c ON c.row = best.chunk"
# The best without a full sort; which of those tied with the last are among them is left open.
_FIRST = f"""
best AS (SELECT chunk, score FROM t ORDER BY score DESC LIMIT {{limit}})
SELECT round(best.score * {UNIT}::float8), {_HITS} WHERE best.score > 0
"""
_TIED = f"""
best AS (
  SELECT chunk, round(score * {UNIT}::float8) AS score FROM t ORDER BY 2 DESC FETCH FIRST {{limit}} ROWS WITH TIES)
SELECT best.score, {_HITS}{{joins}} WHERE best.score > 0{{conditions}} ORDER BY best.score DESC, c.id LIMIT {{k}}
"""
_FREQUENCIES = """
SELECT h.many FROM unnest(%s::bigint[]) WITH ORDINALITY AS a(word, place)
JOIN LATERAL ({some}) h ON true ORDER BY a.place
"""
_COUNTED_SOME = """SELECT count(*) AS many FROM (
  SELECT FROM postings p WHERE p.word = a.word AND p.collection = {number} LIMIT %s::bigint) s"""
_COUNTED_SOME_OF_ALL = "SELECT least(clew.count_chunks(a.word), %s::bigint) AS many"
_MATCHES = f"""{_WEIGHTS}
SELECT c.id, coalesce(sum(w.weight) FILTER (WHERE p.chunk IS NOT NULL) / sum(w.weight), 0),
  coalesce({_SCORE} / sum(w.weight), 0)
FROM chunks c LEFT JOIN w ON true
LEFT JOIN postings p ON p.word = w.word AND p.collection = {{number}} AND p.chunk = c.row
WHERE c.collection = {{number}} AND c.id = ANY(%s::text[]) GROUP BY c.id
"""


@dataclass(frozen=True, slots=True)
class LexicalCollection:
    """The collection that is searched, and whether the connection sees only what its labels admit."""

    number: int
    is_limited: bool

    def fill(self, sql: str, *, subset: str = "") -> str:
        """The statement for this collection; how rare a word is, is counted over all of it."""
        many = _COUNTED_ALL if self.is_limited else _COUNTED.format(number=self.number)
        some = _COUNTED_SOME_OF_ALL if self.is_limited else _COUNTED_SOME.format(number=self.number)
        return sql.format(number=self.number, many=many, some=some, subset=subset)


def search_terms(
    connection: Connection,
    collection: LexicalCollection,
    terms: PackedTerms,
    k: int,
    conditions: SqlFragment,
    subset: SqlFragment | None,
) -> RowScores:
    """The k chunks of greatest score that meet the conditions, of all or of a subset."""
    words = (binary.encode_bigints(terms.hashes), binary.encode_ints(terms.counts))
    params = (*words, *(subset.params if subset else ()), *conditions.params)
    scored = collection.fill(_SCORED, subset=f" WHERE p.chunk IN ({subset.sql})" if subset else "")
    if subset:
        planner.use_custom_plans(connection)
    else:
        planner.use_generic_plans(connection)
    if not conditions.sql and len(terms.hashes) > 1:  # with one word, many are equal
        found = fetch_rows(connection, scored + _FIRST.format(limit=k + SPARE), params, prepare=True)
        found.sort(key=lambda columns: (-columns[0], columns[1]))
        if len(found) < k + SPARE or found[k - 1][0] > found[-1][0]:
            return _split_scores(found[:k])
    joins = " JOIN signals s ON s.row = best.chunk" if conditions.sql else ""
    for limit in (k,) if not conditions.sql else (ALL,) if subset else (k + FILTERED_MARGIN, ALL):
        tied = _TIED.format(joins=joins, conditions=conditions.sql, limit=limit, k=k)
        found = fetch_rows(connection, scored + tied, params, prepare=None if subset else True)
        if len(found) == k:
            break
    return _split_scores(found)


def match_terms(
    connection: Connection, collection: LexicalCollection, terms: PackedTerms, chunk_ids: Sequence[str]
) -> dict[str, TermMatch]:
    """How well those of the chunks that exist match terms, by id."""
    planner.use_generic_plans(connection)
    params = (
        binary.encode_bigints(terms.hashes),
        binary.encode_ints(terms.counts),
        binary.encode_texts(list(chunk_ids)),
    )
    found = fetch_rows(connection, collection.fill(_MATCHES), params, prepare=True)
    return {each: TermMatch(round(share, DIGITS), round(strength, DIGITS)) for each, share, strength in found}


def count_terms(
    connection: Connection, collection: LexicalCollection, hashes: Hashes, at_most: int | None
) -> list[int]:
    """How many chunks have each word, up to `at_most`."""
    planner.use_generic_plans(connection)
    found = fetch_rows(
        connection, collection.fill(_FREQUENCIES), (binary.encode_bigints(hashes), at_most or ALL), prepare=True
    )
    return [int(many) for (many,) in found]


def _split_scores(found: list[Row]) -> RowScores:
    return [(row, score / UNIT) for score, _, row in found]
