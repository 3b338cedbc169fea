"""Changes to a collection. Each function runs inside one transaction that the caller has begun."""

import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from psycopg import Connection
from xxhash import xxh3_64_intdigest

from clew.core.facets import facets
from clew.core.types import Chunk, Document, Section, Vector
from clew.core.whole import Whole
from clew.drivers.store import codec as nouns
from clew.drivers.store.overlay import moved
from clew.drivers.store.postgres import codec
from clew.drivers.store.postgres.pool import rows
from clew.drivers.store.postgres.setup import Opened
from clew.drivers.store.postgres.shadows import switch_key
from clew.drivers.store.words import Hashes
from clew.drivers.store.write import NOTHING, Entry, missing

DROPPED_AT_ONCE = 500  # documents of a transaction; each holds a lock, of which a server has some thousands
_USED = "(SELECT embedder FROM collections WHERE number = %s)"
WRITTEN_AT_ONCE = 1000  # chunks of a statement, which is some megabytes


def lock(connection: Connection, number: int, doc_ids: Sequence[str]) -> None:
    """Waits until no other change of these documents is under way, nor a switch to another model; in one order
    everywhere, so that none wait in a ring."""
    keys = {xxh3_64_intdigest(f"{number}\x1f{name}".encode("utf-8", "surrogatepass")) - (1 << 63) for name in doc_ids}
    connection.execute(
        "SELECT pg_advisory_xact_lock_shared(%s)::text"
        " UNION ALL SELECT pg_advisory_xact_lock(key)::text FROM unnest(%s::bigint[]) AS key",
        (switch_key(number), codec.bigints(sorted(keys))),
    )


def put(connection: Connection, known: Opened, document: Document, made: Sequence[Entry]) -> None:
    """Replaces a document and its chunks; a chunk whose signal has not changed keeps its row."""
    lock(connection, known.number, [document.id])
    doc, is_new = _place(connection, known, document, len(made))
    connection.execute(
        "INSERT INTO pieces(doc, n, collection, text, sections) VALUES(%s, 0, %s, %s, %s)",
        (doc, known.number, document.text, nouns.sections_text(document.sections)),
    )
    read = [] if is_new else rows(connection, "SELECT id, row, print, length FROM chunks WHERE doc = %s", (doc,))
    old = {name: (row, mark) for name, row, mark, _ in read}
    kept = {each.chunk.id for each in made if old.get(each.chunk.id, (0, None))[1] == each.print}
    removed = [(row, length) for name, row, _, length in read if name not in kept]
    if removed:
        connection.execute("DELETE FROM chunks WHERE row = ANY(%s)", ([row for row, _ in removed],))
    _move(connection, [(each.chunk, old[each.chunk.id][0]) for each in made if each.chunk.id in kept])
    fresh = [each for each in made if each.chunk.id not in kept]
    _insert(connection, known, doc, fresh)
    settle(connection, known, int(is_new), fresh, len(removed), sum(length for _, length in removed))


def keep(connection: Connection, known: Opened, whole: Whole, made: Sequence[Entry]) -> None:
    """Replaces a document by one that another store kept, with the vector of its summary."""
    put(connection, known, whole.document, made)
    if whole.summary_vector is not None:
        summarise(connection, known, whole.document.id, whole.document.summary, whole.summary_vector)
    else:
        connection.execute(
            "DELETE FROM summaries WHERE row = (SELECT row FROM documents WHERE collection = %s AND id = %s)",
            (known.number, whole.document.id),
        )


def append(
    connection: Connection, known: Opened, document: Document, sections: Sequence[Section], made: Sequence[Entry]
) -> None:
    """Extends a document by the text of `document` and by chunks."""
    found = rows(
        connection,
        "UPDATE documents SET chars = chars + %s, chunks = chunks + %s, pieces = pieces + 1"
        f" WHERE collection = %s AND id = %s RETURNING row, pieces - 1, {_USED}",
        (len(document.text), len(made), known.number, document.id, known.number),
    )
    if not found:
        raise missing(document.id)
    ((doc, n, used),) = found
    _check_model(known, used)
    connection.execute(
        "INSERT INTO pieces(doc, n, collection, text, sections) VALUES(%s, %s, %s, %s, %s)",
        (doc, n, known.number, document.text, nouns.sections_text(sections)),
    )
    _insert(connection, known, doc, made)
    settle(connection, known, 0, made, 0, 0)


def summarise(connection: Connection, known: Opened, doc_id: str, summary: str, vector: Vector) -> None:
    """Gives a document its summary and the summary's vector."""
    lock(connection, known.number, [doc_id])
    found = rows(
        connection,
        f"UPDATE documents SET summary = %s WHERE collection = %s AND id = %s RETURNING row, {_USED}",
        (summary, known.number, doc_id, known.number),
    )
    if not found:
        raise missing(doc_id)
    _check_model(known, found[0][1])
    connection.execute(
        "INSERT INTO summaries(row, collection, facets, vector) SELECT row, collection, facets, %s::vector"
        " FROM documents WHERE row = %s ON CONFLICT (row) DO UPDATE SET vector = excluded.vector",
        (codec.vector(vector), found[0][0]),
    )
    settle(connection, known, 0, [], 0, 0)


def drop(connection: Connection, known: Opened, doc_ids: Sequence[str]) -> int:
    """How many of the documents were there and are now gone, with all that belongs to them."""
    lock(connection, known.number, doc_ids)
    found = rows(
        connection,
        "SELECT row FROM documents WHERE collection = %s AND id = ANY(%s)",
        (known.number, list(doc_ids)),
    )
    if not found:
        return 0
    docs = [row for (row,) in found]
    lengths = rows(connection, "DELETE FROM chunks WHERE doc = ANY(%s) RETURNING length", (docs,))
    connection.execute("DELETE FROM documents WHERE row = ANY(%s)", (docs,))
    settle(connection, known, -len(docs), [], len(lengths), sum(length for (length,) in lengths))
    return len(docs)


def settle(
    connection: Connection, known: Opened, documents: int, made: Sequence[Entry], removed: int, length: int
) -> None:
    """Brings the change number and the counts up to date; last, because others wait for it."""
    connection.execute(
        "UPDATE collections SET change = change + 1, documents = documents + %s, chunks = chunks + %s,"
        " length = length + %s WHERE number = %s",
        (documents, len(made) - removed, sum(each.length for each in made) - length, known.number),
    )


def _check_model(known: Opened, used: str) -> None:
    """Fails where the collection was switched to another model since it was opened."""
    if used != known.embedder:
        raise moved(known.place, used, known.embedder)


def _place(connection: Connection, known: Opened, document: Document, chunks: int) -> tuple[int, bool]:
    """The document's row, written anew and without pieces, and whether it is a new one."""
    words = codec.bigints([codec.facet_hash(word) for word in sorted(facets(document, NOTHING))])
    columns = (
        document.uri,
        document.title,
        document.kind,
        document.summary,
        nouns.meta_text(document.meta),
        document.hash,
        document.stamp,
        len(document.text),
        chunks,
        words,
    )
    names = "uri, title, kind, summary, meta, hash, stamp, chars, chunks, facets, pieces"
    values = "%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::bigint[], 1"
    found = rows(
        connection,
        "SELECT d.row, d.summary, c.embedder FROM collections c LEFT JOIN documents d"
        " ON d.collection = c.number AND d.id = %s WHERE c.number = %s",
        (document.id, known.number),
    )
    for _, _, used in found:
        _check_model(known, used)
    if not found or found[0][0] is None:
        ((doc,),) = rows(
            connection,
            f"INSERT INTO documents(collection, id, {names}) VALUES(%s, %s, {values}) RETURNING row",
            (known.number, document.id, *columns),
        )
        return doc, True
    ((doc, summary, _),) = found
    connection.execute(f"UPDATE documents SET ({names}) = ROW({values}) WHERE row = %s", (*columns, doc))
    connection.execute("DELETE FROM pieces WHERE doc = %s", (doc,))
    if document.summary and document.summary == summary:
        connection.execute("UPDATE summaries SET facets = %s::bigint[] WHERE row = %s", (words, doc))
    else:
        connection.execute("DELETE FROM summaries WHERE row = %s", (doc,))
    return doc, False


def _move(connection: Connection, moved: Sequence[tuple[Chunk, int]]) -> None:
    """Writes what is shown of chunks that stay, where it has changed."""
    if not moved:
        return
    shown = "idx, start, stop, headings, context, at, meta, channel, text"
    of_new = ", ".join(f"n.{name}" for name in shown.split(", "))
    of_old = ", ".join(f"c.{name}" for name in shown.split(", "))
    connection.execute(
        f"UPDATE chunks c SET ({shown}) = ROW({of_new}) FROM unnest(%s::bigint[], {_SHOWN_TYPES})"
        f" AS n(row, {shown}) WHERE c.row = n.row AND ({of_old}) IS DISTINCT FROM ({of_new})",
        (codec.bigints([row for _, row in moved]), *_shown([chunk for chunk, _ in moved])),
    )


def _insert(connection: Connection, known: Opened, doc: int, made: Sequence[Entry]) -> None:
    for at in range(0, len(made), WRITTEN_AT_ONCE):
        _insert_some(connection, known, doc, made[at : at + WRITTEN_AT_ONCE])


def _insert_some(connection: Connection, known: Opened, doc: int, made: Sequence[Entry]) -> None:
    """Writes chunks with their signals and postings, in three statements however many there are."""
    numbered = rows(connection, "SELECT nextval('chunk_rows') FROM generate_series(1, %s)", (len(made),))
    row = np.array([number for (number,) in numbered], np.int64)
    said = [_hashes(each.facets) for each in made]
    terms = [np.frombuffer(each.terms, np.int64) for each in made]
    counts = [np.frombuffer(each.counts, np.uint16) for each in made]
    words = np.concatenate([part for pair in zip(said, terms, strict=True) for part in pair])
    sizes = np.array([[len(few), len(few) + len(many)] for few, many in zip(said, terms, strict=True)])
    ends = np.cumsum(sizes[:, 1])
    starts = ends - sizes[:, 1]
    spans = {"words": codec.bigints(words), "starts": codec.ints(starts + 1)}  # PostgreSQL counts from 1
    lengths = np.array([each.length for each in made])
    columns = _shown([each.chunk for each in made])
    connection.execute(
        "INSERT INTO chunks(row, doc, collection, id, print, length, words, idx, start, stop, headings, context, at,"
        " meta, channel, text) SELECT u.row, %(doc)s, %(number)s, u.id, u.print, u.length,"
        " (%(words)s::bigint[])[u.first:u.last], u.idx, u.start, u.stop, u.headings, u.context, u.at, u.meta,"
        " u.channel, u.text FROM unnest(%(row)s::bigint[], %(id)s::text[], %(print)s::bigint[], %(length)s::int[],"
        f" %(starts)s::int[], %(ends)s::int[], {_SHOWN_TYPES % _SHOWN_NAMES})"
        " AS u(row, id, print, length, first, last, idx, start, stop, headings, context, at, meta, channel, text)",
        {
            **spans,
            **dict(zip(_NAMES, columns, strict=True)),
            "ends": codec.ints(ends),
            "doc": doc,
            "number": known.number,
            "row": codec.bigints(row),
            "id": [each.chunk.id for each in made],
            "print": codec.bigints([each.print for each in made]),
            "length": codec.ints(lengths),
        },
    )
    connection.execute(
        "INSERT INTO signals(row, collection, seconds, facets, vector) SELECT u.row, %(number)s, u.seconds,"
        " (%(words)s::bigint[])[u.first:u.last], u.vector FROM unnest(%(row)s::bigint[], %(seconds)s::float8[],"
        " %(starts)s::int[], %(ends)s::int[], %(vectors)s::vector[]) AS u(row, seconds, first, last, vector)",
        {
            **spans,
            "ends": codec.ints(starts + sizes[:, 0]),
            "number": known.number,
            "row": codec.bigints(row),
            "seconds": [each.seconds for each in made],
            "vectors": codec.vectors(np.stack([np.frombuffer(each.vector, np.float32) for each in made]), known.vector),
        },
    )
    times = np.concatenate(
        [part for few, many in zip(said, counts, strict=True) for part in (np.zeros(len(few), np.int64), many)]
    )
    owner = np.repeat(np.arange(len(made)), sizes[:, 1])
    by_word = np.argsort(words, kind="stable")  # neighbours in the index are written together
    connection.execute(
        "INSERT INTO postings(word, chunk, collection, count, length) SELECT u.word, u.chunk, %s, u.count, u.length"
        " FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[]) AS u(word, chunk, count, length)",
        (
            known.number,
            codec.bigints(words[by_word]),
            codec.bigints(row[owner][by_word]),
            codec.ints(times[by_word]),
            codec.ints(lengths[owner][by_word]),
        ),
    )


_NAMES = ("idx", "start", "stop", "headings", "context", "at", "meta", "channel", "text")
_SHOWN_TYPES = (
    "%s::int[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]"
)
_SHOWN_NAMES = tuple(f"%({name})s" for name in _NAMES)


def _shown(chunks: Sequence[Chunk]) -> tuple[object, ...]:
    """What a reader is shown of chunks, a column each."""
    channels = [chunk.meta.get("channel") for chunk in chunks]
    return (
        codec.ints([chunk.index for chunk in chunks]),
        codec.bigints([chunk.start for chunk in chunks]),
        codec.bigints([chunk.end for chunk in chunks]),
        [nouns.to_json(chunk.headings) if chunk.headings else "[]" for chunk in chunks],
        [chunk.context for chunk in chunks],
        [nouns.time_text(chunk.at) for chunk in chunks],
        [nouns.meta_text(chunk.meta) for chunk in chunks],
        [channel if isinstance(channel, str) else None for channel in channels],
        [chunk.text for chunk in chunks],
    )


@lru_cache(1024)  # the chunks of a document mostly have the same
def _hashes(words: str) -> Hashes:
    return np.array([codec.facet_hash(word) for word in json.loads(words)], np.int64)
