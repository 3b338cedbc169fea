"""Reads of documents, chunks and vectors from the database, as they were put."""

import json
import sqlite3
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clew.core.facets import (
    Condition,
    expand_document_filter,
    expand_filter,
    find_named_documents,
    get_facet_field,
    get_facet_values,
)
from clew.core.filter import Filter
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Matrix
from clew.drivers.store import codec
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.checksums import check, damaged_error
from clew.drivers.store.embedded import schema, sums
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.places import check_places
from clew.drivers.store.embedded.signals import make_placeholders
from clew.drivers.store.embedded.vectors import unpack_vectors

_FACETS_AMONG = "SELECT 1 FROM json_each(s.facets) f WHERE f.value IN (SELECT value FROM json_each(?))"
_FACETS_AS_WRITTEN = (
    f"CASE WHEN d.found_sum IN (-1, row_sum({', '.join(f'd.{name}' for name in sums.FOUND_BY)})) THEN d.facets END"
)
_PIECES = ", ".join(f"p.{name}" for name in codec.PIECE_COLUMNS.split(", "))
_PIECE_WIDTH = len(codec.PIECE_COLUMNS.split(", "))
_CHUNKS = f"SELECT {codec.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"


@dataclass(frozen=True, slots=True)
class Summaries:
    """The documents that have a summary with a vector: their ids, their facets as JSON, the vectors."""

    change: int
    slots: dict[str, int]  # by id
    facets: list[str]
    vectors: Matrix

    def find_admitted(self, where: Filter) -> list[int] | None:
        """The slots of the documents that a filter admits; None for all of them."""
        alternatives = expand_document_filter(where)
        if any(each.is_empty for each in alternatives):
            return None
        named, slots = [find_named_documents(each) for each in alternatives], list(range(len(self.facets)))
        if None not in named:  # most filters on documents name a few
            slots = sorted({self.slots[each] for some in named for each in some or () if each in self.slots})
        return [slot for slot in slots if admits_facets(self.facets[slot], alternatives)]


class FilteredChunks:
    """Reads the chunks that a filter admits, for a scan; each call is one transaction."""

    def __init__(self, database: Database, where: Filter) -> None:
        self._database = database
        self._conditions, self._params = _filter_to_sql(where)
        # CROSS JOIN keeps this order of loops, in which the indexes give the order of the result without sorting.
        signals = " CROSS JOIN signals s ON s.row = c.row" if "s." in self._conditions else ""
        self._source = f"FROM documents d CROSS JOIN chunks c ON c.doc = d.row{signals} WHERE"

    def read_chunk_page(self, after: str | None, limit: int) -> list[Chunk]:
        """The first `limit` chunks of the documents after one (None: of all), by document id and index."""
        start, params = ("d.id > ?", [after]) if after is not None else ("true", [])
        with self._database.reader as db:
            read = db.execute(
                f"SELECT {codec.CHUNK_COLUMNS} {self._source} {start}{self._conditions} ORDER BY d.id, c.piece, c.idx"
                " LIMIT ?",
                (*params, *self._params, limit),
            ).fetchall()
            check_places(db, read)
        return [codec.parse_chunk(columns) for columns in read]

    def read_chunk_ids(self, doc_id: str) -> list[str]:
        """The ids of the chunks of a document, in order."""
        sql = f"SELECT c.id {self._source} d.id = ?{self._conditions} ORDER BY c.piece, c.idx"
        with self._database.reader as db:
            return [chunk_id for (chunk_id,) in db.execute(sql, (doc_id, *self._params))]

    def read_chunks_by_id(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids that are still there, by id."""
        signals = " JOIN signals s ON s.row = c.row" if "s." in self._conditions else ""
        sql = f"{_CHUNKS}{signals} WHERE c.id IN (SELECT value FROM json_each(?)){self._conditions}"
        with self._database.reader as db:
            read = db.execute(sql, (json.dumps(list(chunk_ids)), *self._params)).fetchall()
            check_places(db, read)
        return {columns[0]: codec.parse_chunk(columns) for columns in read}


def read_document(db: sqlite3.Connection, doc_id: str) -> Document:
    """The document with its text, or NotFound."""
    pieces = db.execute(
        f"SELECT {_PIECES}, {codec.RECORD_COLUMNS} FROM documents d"
        " LEFT JOIN pieces p ON p.doc = d.row WHERE d.id = ? ORDER BY p.n",
        (doc_id,),
    ).fetchall()
    if not pieces:
        raise not_found_error(doc_id)
    record = codec.parse_record(pieces[0][_PIECE_WIDTH:])
    if record.id != doc_id or pieces[0][0] is None:
        raise damaged_error(f"the document {doc_id!r}")
    return codec.build_whole_document(record, [piece[:_PIECE_WIDTH] for piece in pieces])


def list_records(db: sqlite3.Connection, where: Filter) -> Iterator[DocumentRecord]:
    """The records of the documents that a filter admits, by uri and id."""
    alternatives = expand_document_filter(where)
    facets = "d.facets" if any(each.is_empty for each in alternatives) else _FACETS_AS_WRITTEN
    sql, params = f"SELECT {facets}, {codec.RECORD_COLUMNS} FROM documents d", list[str]()
    named = [find_named_documents(each) for each in alternatives]
    if None not in named:  # all name their documents
        ids = {doc_id for each in named for doc_id in each or ()}
        params = [codec.to_json(sorted(ids))]
        read = db.execute(
            f"{sql} WHERE d.id IN (SELECT value FROM json_each(?)) ORDER BY d.uri, d.id", params
        ).fetchall()
        if any(columns[1] not in ids for columns in read):
            raise damaged_error("the index of the documents")
    else:
        whole = sql.replace("SELECT", "SELECT m.documents,", 1).replace("FROM documents d", "FROM meta m")
        found = db.execute(f"{whole} LEFT JOIN documents d NOT INDEXED").fetchall()  # the count is of the same moment
        read = [columns[1:] for columns in found if columns[2] is not None]
        read.sort(key=_uri_and_id)
        if len(read) != found[0][0]:
            raise damaged_error("the list of the documents")
    return iter([codec.parse_record(columns[1:]) for columns in read if _admits_document(columns, alternatives)])


def _admits_document(columns: Sequence[Any], alternatives: Sequence[Condition]) -> bool:
    """Whether the facets of a document fulfil one of the conditions; where they are damaged, what its record says."""
    facets, *record = columns
    with suppress(ValueError, TypeError):  # what cannot be read is not shown
        return admits_facets(facets if facets is not None else codec.record_to_facets(record), alternatives)
    return False


def read_summary_vectors(db: sqlite3.Connection, change: int, dim: int) -> Summaries:
    """The vectors of all summaries, read at or after a change."""
    columns = ", ".join(sums.FOUND_BY)
    sql = f"SELECT {columns}, found_sum FROM documents NOT INDEXED WHERE vector IS NOT NULL"
    read = []
    for *found, stored in db.execute(sql):
        check(f"the summary of the document {found[1]!r}", stored, *found)
        read.append(found[1:4])
    vectors = unpack_vectors([each[2] for each in read], dim)
    slots = {each[0]: slot for slot, each in enumerate(read)}
    return Summaries(change, slots, [each[1] for each in read], vectors)


def read_document_chunks(db: sqlite3.Connection, doc_id: str) -> list[Chunk]:
    """The chunks of a document in order, or NotFound."""
    read = db.execute(
        f"WITH o AS MATERIALIZED ({codec.PIECE_OFFSETS.format('= (SELECT row FROM documents WHERE id = ?)')})"
        f" SELECT {codec.LISTED_CHUNK_COLUMNS} FROM documents d LEFT JOIN chunks c ON c.doc = d.row"
        " LEFT JOIN o ON o.doc = c.doc AND o.n = c.piece WHERE d.id = ? ORDER BY c.piece, c.idx",
        (doc_id, doc_id),
    ).fetchall()
    if not read:
        raise not_found_error(doc_id)
    chunks = [codec.parse_chunk(columns) for columns in read if columns[0] is not None]
    if any(chunk.doc_id != doc_id or chunk.index != at for at, chunk in enumerate(chunks)) or len(chunks) != read[0][3]:
        raise damaged_error(f"the list of the chunks of the document {doc_id!r}")
    return chunks


def read_chunks_by_id(db: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
    """Those of the chunks that exist, by id."""
    sql = f"{_CHUNKS} WHERE c.id IN (SELECT value FROM json_each(?))"
    read = db.execute(sql, (json.dumps(list(chunk_ids)),)).fetchall()
    check_places(db, read)
    found = {columns[0]: codec.parse_chunk(columns) for columns in read}
    check_ids(found.keys(), chunk_ids)
    return found


def read_latest_chunks(db: sqlite3.Connection, channel: str, k: int) -> list[Chunk]:
    """The k chunks of a channel that were added last, the last one at the end."""
    sql = f"{_CHUNKS} WHERE {schema.CHANNEL} = ? ORDER BY c.row DESC LIMIT ?"
    read = db.execute(sql, (channel, k)).fetchall()
    check_places(db, read)
    return [codec.parse_chunk(columns) for columns in reversed(read)]


def list_channels(db: sqlite3.Connection) -> list[str]:
    """The channels that have chunks, by name: each looked up in the index after the one before it."""
    first = f"SELECT min({schema.CHANNEL}) AS name FROM chunks c WHERE {schema.CHANNEL} IS NOT NULL"
    after = f"(SELECT min({schema.CHANNEL}) FROM chunks c WHERE {schema.CHANNEL} > n.name)"
    read = db.execute(
        f"WITH RECURSIVE names AS ({first} UNION ALL SELECT {after} FROM names n WHERE n.name IS NOT NULL)"
        " SELECT name FROM names WHERE name IS NOT NULL"
    )
    return [name for (name,) in read]


def read_hits(db: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Hit]:
    """The chunks in these rows that still exist, with their documents' records; the scores are left at 0."""
    read = db.execute(
        f"SELECT {codec.HIT_COLUMNS}, c.row FROM chunks c JOIN documents d ON d.row = c.doc"
        f" WHERE c.row IN ({make_placeholders(rows)})",
        rows,
    ).fetchall()
    check_places(db, read)
    hits = codec.parse_hits((columns[:-1], 0.0) for columns in read)
    return {columns[-1]: hit for columns, hit in zip(read, hits, strict=True)}


def check_ids(found: Set[str], wanted: Sequence[str]) -> None:
    """CollectionDamaged if a chunk was found that was not asked for: the index by which it was looked up is damaged."""
    if not found <= set(wanted):
        raise damaged_error("the index of the chunks")


def read_calibration(db: sqlite3.Connection) -> str:
    """The text about the collection; empty if there is none."""
    return sums.read_checked_text(db, "calibration", "the calibration")


def _uri_and_id(columns: Sequence[Any]) -> tuple[str, str]:
    return columns[3], columns[1]


def admits_facets(facets: str, alternatives: Sequence[Condition]) -> bool:
    """Whether facets, as JSON, fulfil one of the conditions, whatever the time."""
    if any(each.is_empty for each in alternatives):
        return True
    present = frozenset(json.loads(facets))
    return any(each.admits_facets(present) for each in alternatives)


def _filter_to_sql(where: Filter) -> tuple[str, list[object]]:
    """A filter as conditions on a document `d` and a signal `s`, and their parameters."""
    alternatives = [_condition_to_sql(each) for each in expand_filter(where)]
    if not alternatives:
        return " AND false", []
    if any(not sql for sql, _ in alternatives):
        return "", []
    params = [param for _, some in alternatives for param in some]
    return f" AND ({' OR '.join(f'({sql})' for sql, _ in alternatives)})", params


def _condition_to_sql(condition: Condition) -> tuple[str, list[object]]:
    parts, params = list[str](), list[object]()
    for group in condition.groups:
        if get_facet_field(group) == "document":  # by the index of ids
            parts.append("d.id IN (SELECT value FROM json_each(?))")
            params.append(codec.to_json(get_facet_values(group)))
        else:
            parts.append(f"EXISTS ({_FACETS_AMONG})")
            params.append(codec.to_json(sorted(group)))
    if condition.forbidden:
        parts.append(f"NOT EXISTS ({_FACETS_AMONG})")
        params.append(codec.to_json(sorted(condition.forbidden)))
    for operator, at in ((">=", condition.since), ("<", condition.until)):
        if at is not None:
            parts.append(f"s.seconds {operator} ?")
            params.append(at)
    return " AND ".join(parts), params
