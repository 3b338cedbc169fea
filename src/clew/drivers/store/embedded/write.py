"""Changes to the truth. Each function runs inside one transaction that the caller has begun."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from clew.core.errors import DriverFailed, NotFound
from clew.core.facets import facets_of, to_timestamp
from clew.core.text import Terms
from clew.core.types import Chunk, Document, Matrix, Section, Vector
from clew.drivers.store import codec
from clew.drivers.store.term_ids import Packed, pack

KEPT_LOG = 20_000  # removed rows that are remembered, so that an index can follow instead of being rebuilt
NOTHING = Chunk("", "", 0, 0, "", 0, 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk ready to be written: its columns, and the print by which an unchanged signal is recognised."""

    chunk: Chunk
    seconds: float | None
    length: int
    facets: str
    terms: bytes
    counts: bytes
    vector: bytes
    print: int


def entries(
    document: Document, chunks: Sequence[Chunk], vectors: Matrix, terms: Sequence[Terms | Packed]
) -> list[Entry]:
    """The chunks of a document ready to be written."""
    found, known = [], dict[str, str]()  # facets by what the chunks say of themselves, which many say alike
    for chunk, vector, words in zip(chunks, vectors, terms, strict=True):
        packed, row, at, meta = pack(words), vector.tobytes(), to_timestamp(chunk.at), repr(chunk.meta)
        words_text = known.get(meta) or known.setdefault(meta, _facets(document, chunk))
        hashes, counts = packed.hashes.tobytes(), packed.counts.tobytes()
        said = f"{words_text} {at!r}".encode("utf-8", "surrogatepass")
        seen = b"\0".join([row, hashes, counts, said])
        mark = xxh3_64_intdigest(seen) - (1 << 63)
        found.append(Entry(chunk, at, packed.length, words_text, hashes, counts, row, mark))
    return found


def put(db: sqlite3.Connection, document: Document, made: Sequence[Entry]) -> None:
    """Replaces a document and its chunks; a chunk whose signal has not changed keeps its row."""
    doc, new, old = _place(db, document, len(made))
    sections = codec.sections_text(document.sections)
    db.execute("INSERT INTO pieces VALUES(?, 0, ?, ?)", (doc, document.text, sections))
    kept = {each.chunk.id for each in made if old.get(each.chunk.id, (0, None))[1] == each.print}
    removed = [row for name, (row, _) in old.items() if name not in kept]
    length = _remove(db, removed)
    fresh = [each for each in made if each.chunk.id not in kept]
    moved = [each.chunk for each in made if each.chunk.id in kept]
    db.executemany(
        "UPDATE chunks SET idx = ?, start = ?, stop = ?, headings = ?, context = ?, at = ?, meta = ?, text = ?"
        " WHERE row = ?",
        [(*_shown(chunk), chunk.text, old[chunk.id][0]) for chunk in moved],
    )
    _insert(db, doc, fresh)
    _settle(db, int(new), fresh, len(removed), length)


def text_of(db: sqlite3.Connection, doc_id: str) -> str:
    """The text of a document as it is kept; none where there is no document."""
    read = db.execute(
        "SELECT p.text FROM pieces p JOIN documents d ON d.row = p.doc WHERE d.id = ? ORDER BY p.n", (doc_id,)
    )
    return "".join(text for (text,) in read)


def append(db: sqlite3.Connection, document: Document, sections: Sequence[Section], made: Sequence[Entry]) -> None:
    """Extends a document by the text of `document` and by chunks."""
    found = db.execute("SELECT row, pieces FROM documents WHERE id = ?", (document.id,)).fetchone()
    if not found:
        raise missing(document.id)
    doc, pieces = found
    db.execute("INSERT INTO pieces VALUES(?, ?, ?, ?)", (doc, pieces, document.text, codec.sections_text(sections)))
    db.execute(
        "UPDATE documents SET chars = chars + ?, chunks = chunks + ?, pieces = pieces + 1 WHERE row = ?",
        (len(document.text), len(made), doc),
    )
    _insert(db, doc, made)
    _settle(db, 0, made, 0, 0)


def summarise(db: sqlite3.Connection, doc_id: str, summary: str, vector: Vector) -> None:
    """Gives a document its summary and the summary's vector."""
    done = db.execute("UPDATE documents SET summary = ?, vector = ? WHERE id = ?", (summary, vector.tobytes(), doc_id))
    if not done.rowcount:
        raise missing(doc_id)
    _settle(db, 0, [], 0, 0)


def unsummarise(db: sqlite3.Connection, doc_id: str) -> None:
    """Takes the vector of a document's summary away."""
    db.execute("UPDATE documents SET vector = NULL WHERE id = ?", (doc_id,))


def drop(db: sqlite3.Connection, doc_ids: Iterable[str]) -> int:
    """How many of the documents were there and are now gone, with all that belongs to them."""
    docs = []
    for name in dict.fromkeys(doc_ids):
        docs += db.execute("SELECT row FROM documents WHERE id = ?", (name,)).fetchall()
    if not docs:
        return 0
    rows = [row for doc in docs for (row,) in db.execute("SELECT row FROM chunks WHERE doc = ?", doc)]
    length = _remove(db, rows)
    db.executemany("DELETE FROM documents WHERE row = ?", docs)
    _settle(db, -len(docs), [], len(rows), length)
    return len(docs)


def prune(db: sqlite3.Connection) -> None:
    """Forgets the oldest removed rows; an index that is further behind is built anew."""
    over = db.execute("SELECT change FROM gone ORDER BY change DESC LIMIT 1 OFFSET ?", (KEPT_LOG,)).fetchone()
    if over:
        db.execute("DELETE FROM gone WHERE change <= ?", over)
        db.execute("UPDATE meta SET pruned = ?", over)


def missing(doc_id: str) -> NotFound:
    """The error for a document that is not there."""
    return NotFound(f"there is no document {doc_id!r} in this collection; `list` shows those there are")


def _place(db: sqlite3.Connection, document: Document, chunks: int) -> tuple[int, bool, dict[str, tuple[int, int]]]:
    """The document's row, written anew, whether it is a new one, and the row and print of each chunk that it had."""
    found = db.execute("SELECT row, summary, vector FROM documents WHERE id = ?", (document.id,)).fetchone()
    vector = found[2] if found and document.summary and found[1] == document.summary else None
    columns = (
        document.uri,
        document.title,
        document.kind,
        document.summary,
        codec.meta_text(document.meta),
        _facets(document, NOTHING),
        document.hash,
        document.stamp,
        len(document.text),
        chunks,
        vector,
    )
    if found:
        doc: int = found[0]
        db.execute(
            "UPDATE documents SET uri = ?, title = ?, kind = ?, summary = ?, meta = ?, facets = ?, hash = ?, stamp = ?,"
            " chars = ?, chunks = ?, pieces = 1, vector = ? WHERE row = ?",
            (*columns, doc),
        )
        db.execute("DELETE FROM pieces WHERE doc = ?", (doc,))
        read = db.execute("SELECT id, row, print FROM chunks WHERE doc = ?", (doc,)).fetchall()
        return doc, False, {name: (row, mark) for name, row, mark in read}
    done = db.execute(
        "INSERT INTO documents(id, uri, title, kind, summary, meta, facets, hash, stamp, chars, chunks, pieces, vector)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)",
        (document.id, *columns),
    )
    return done.lastrowid or 0, True, {}


def _insert(db: sqlite3.Connection, doc: int, made: Sequence[Entry]) -> None:
    if not made:
        return
    (last,) = db.execute("SELECT last FROM meta").fetchone()
    numbered = list(enumerate(made, last + 1))
    try:
        db.executemany(
            "INSERT INTO chunks(row, id, doc, idx, start, stop, headings, context, at, meta, print, text)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row, e.chunk.id, doc, *_shown(e.chunk), e.print, e.chunk.text) for row, e in numbered],
        )
    except sqlite3.IntegrityError as error:
        raise DriverFailed(
            f"a chunk id is given twice, or is taken by another document ({error}); nothing was stored"
        ) from error
    db.executemany(
        "INSERT INTO signals VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        [(row, e.chunk.id, e.seconds, e.length, e.facets, e.terms, e.counts, e.vector) for row, e in numbered],
    )


def _remove(db: sqlite3.Connection, rows: Sequence[int]) -> int:
    """The summed length of the chunks in these rows, which are removed and entered in the log."""
    if not rows:
        return 0
    keys = [(row,) for row in rows]
    read = [db.execute("SELECT length, row, terms FROM signals WHERE row = ?", key).fetchone() for key in keys]
    (change,) = db.execute("SELECT change + 1 FROM meta").fetchone()
    db.executemany("INSERT INTO gone VALUES(?, ?, ?)", [(change, row, terms) for _, row, terms in read])
    db.executemany("DELETE FROM chunks WHERE row = ?", keys)
    return sum(length for length, _, _ in read)


def _settle(db: sqlite3.Connection, documents: int, made: Sequence[Entry], removed: int, length: int) -> None:
    """Brings the change number and the counts up to date."""
    db.execute(
        "UPDATE meta SET change = change + 1, documents = documents + ?, chunks = chunks + ?, length = length + ?,"
        " last = last + ? WHERE one = 1",
        (documents, len(made) - removed, sum(each.length for each in made) - length, len(made)),
    )


def _shown(chunk: Chunk) -> tuple[int, int, int, str, str, str | None, str]:
    """What a reader is shown of a chunk, but for its text."""
    headings = codec.to_json(chunk.headings) if chunk.headings else "[]"
    return (
        chunk.index,
        chunk.start,
        chunk.end,
        headings,
        chunk.context,
        codec.time_text(chunk.at),
        codec.meta_text(chunk.meta),
    )


def _facets(document: Document, chunk: Chunk) -> str:
    return codec.to_json(sorted(facets_of(document, chunk)))
