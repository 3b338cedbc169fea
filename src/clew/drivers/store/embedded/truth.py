"""The truth: one SQLite database a collection. Every change is one transaction, and the index only follows it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clew.core.facets import required_facets
from clew.core.stored import StoredDocument
from clew.core.text import Terms
from clew.core.types import Chunk, Document, DocumentRecord, Filter, Matrix, Section, Vector
from clew.drivers.store import checks, codec
from clew.drivers.store.embedded import schema, signals, write
from clew.drivers.store.embedded import stored as wholes
from clew.drivers.store.embedded.database import Database
from clew.drivers.store.embedded.signals import Batch, State, Worded
from clew.drivers.store.term_ids import Hashes

BATCH = 2000  # signals that are read at once


@dataclass(frozen=True, slots=True)
class Summaries:
    """The documents that have a summary with a vector: their ids, their facets as JSON, the vectors."""

    change: int
    ids: list[str]
    facets: list[str]
    vectors: Matrix


class Truth(Database):
    """An open database with what a store keeps in it. Vectors are expected to be checked."""

    def put(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
        instead_of: str | None,
    ) -> None:
        """Replaces a document and all its chunks."""
        made = write.entries(document, chunks, vectors, terms)
        with self._change() as db:
            if instead_of is not None:
                checks.same(document.id, instead_of, write.text_of(db, document.id))
            write.put(db, document, made)

    def append(
        self,
        doc_id: str,
        text: str,
        sections: Sequence[Section],
        chunks: Sequence[Chunk],
        vectors: Matrix,
        terms: Sequence[Terms],
    ) -> None:
        """Extends a document at its end."""
        with self._change() as db:
            found = db.execute("SELECT kind, meta, chars FROM documents WHERE id = ?", (doc_id,)).fetchone()
            if not found:
                raise write.missing(doc_id)
            kind, meta, chars = found
            checks.at_end(doc_id, sections, chars, text)
            document = Document(doc_id, text, kind=kind, meta=json.loads(meta))
            write.append(db, document, sections, write.entries(document, chunks, vectors, terms))

    def summarise(self, doc_id: str, summary: str, vector: Vector) -> None:
        """Gives a document its summary and the summary's vector."""
        with self._change() as db:
            write.summarise(db, doc_id, summary, vector)

    def keep(self, whole: StoredDocument) -> None:
        """Replaces a document by one that another store kept."""
        made = write.entries(whole.document, whole.chunks, whole.vectors, whole.terms)
        with self._change() as db:
            write.put(db, whole.document, made)
            if whole.summary_vector is None:
                write.unsummarise(db, whole.document.id)
            else:
                write.summarise(db, whole.document.id, whole.document.summary, whole.summary_vector)

    def wholes(self, doc_ids: Sequence[str] | None) -> Iterator[StoredDocument]:
        """Documents with all that is kept of them, as they came, a few read at a time."""
        after = 0
        while True:
            with self._snapshot() as db:
                self._still_ours(db)
                rows = wholes.page(db, after, doc_ids)
                found = wholes.read(db, rows, self.dim)
            if not rows:
                return
            after = rows[-1]
            yield from found

    def restamp(self, doc_id: str, stamp: str) -> None:
        """Notes the new state of a document's file; that is no change."""
        with self._change() as db:
            db.execute("UPDATE documents SET stamp = ? WHERE id = ?", (stamp, doc_id))

    def drop(self, doc_ids: Sequence[str]) -> int:
        """How many documents were removed."""
        with self._change() as db:
            return write.drop(db, doc_ids)

    def document(self, doc_id: str) -> Document:
        """The document with its text, or NotFound."""
        with self._read() as db:
            found = db.execute(f"SELECT row, {codec.RECORD_COLUMNS} FROM documents WHERE id = ?", (doc_id,)).fetchone()
            if not found:
                raise write.missing(doc_id)
            read = db.execute("SELECT text, sections FROM pieces WHERE doc = ? ORDER BY n", found[:1])
            pieces = read.fetchall()
        texts, sections = [text for text, _ in pieces], [given for _, given in pieces]
        return wholes.document(codec.record(found[1:]), texts, sections)

    def records(self, where: Filter) -> Iterator[DocumentRecord]:
        """The records of the documents that a filter admits, by uri and id."""
        sql, given = f"SELECT facets, {codec.RECORD_COLUMNS} FROM documents", []
        if where.documents:
            sql += " WHERE id IN (SELECT value FROM json_each(?))"
            given = [codec.to_json(sorted(where.documents))]
        with self._read() as db:
            read = db.execute(f"{sql} ORDER BY uri, id", given).fetchall()
        groups = asked_of_documents(replace(where, documents=frozenset()))  # these the database has compared
        return (codec.record(each[1:]) for each in read if admits(groups, each[0]))

    def summaries(self, change: int) -> Summaries:
        """The vectors of all summaries, read at or after a change."""
        with self._read() as db:
            read = db.execute("SELECT id, facets, vector FROM documents WHERE vector IS NOT NULL").fetchall()
        vectors = np.frombuffer(b"".join(each[2] for each in read), np.float32).reshape(len(read), self.dim)
        return Summaries(change, [each[0] for each in read], [each[1] for each in read], vectors)

    def chunks(self, doc_id: str) -> list[Chunk]:
        """The chunks of a document in order, or NotFound."""
        with self._read() as db:
            if not db.execute("SELECT 1 FROM documents WHERE id = ?", (doc_id,)).fetchone():
                raise write.missing(doc_id)
            read = db.execute(
                f"SELECT {codec.CHUNK_COLUMNS} FROM documents d JOIN chunks c ON c.doc = d.row"
                " WHERE d.id = ? ORDER BY c.idx",
                (doc_id,),
            ).fetchall()
        return [codec.chunk(columns) for columns in read]

    def named(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Those of the chunks that are there, by id."""
        with self._read() as db:
            read = db.execute(
                f"SELECT {codec.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"
                " WHERE c.id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(chunk_ids)),),
            ).fetchall()
        return {columns[0]: codec.chunk(columns) for columns in read}

    def latest(self, channel: str, k: int) -> list[Chunk]:
        """The k chunks of a channel that were added last, the last one at the end."""
        with self._read() as db:
            read = db.execute(
                f"SELECT {codec.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.row = c.doc"
                f" WHERE {schema.CHANNEL} = ? ORDER BY c.row DESC LIMIT ?",
                (channel, k),
            ).fetchall()
        return [codec.chunk(columns) for columns in reversed(read)]

    def channels(self) -> list[str]:
        """The channels that have chunks, by name: each looked up in the index after the one before it."""
        first = f"SELECT min({schema.CHANNEL}) AS name FROM chunks c WHERE {schema.CHANNEL} IS NOT NULL"
        after = f"(SELECT min({schema.CHANNEL}) FROM chunks c WHERE {schema.CHANNEL} > n.name)"
        with self._read() as db:
            read = db.execute(
                f"WITH RECURSIVE names AS ({first} UNION ALL SELECT {after} FROM names n WHERE n.name IS NOT NULL)"
                " SELECT name FROM names WHERE name IS NOT NULL"
            ).fetchall()
        return [name for (name,) in read]

    def shown(self, rows: Sequence[int]) -> dict[int, Chunk]:
        """The chunks in these rows, but for those that are gone."""
        with self._read() as db:
            read = db.execute(
                f"SELECT {codec.CHUNK_COLUMNS}, c.row FROM chunks c JOIN documents d ON d.row = c.doc"
                f" WHERE c.row IN ({signals.marks(rows)})",
                rows,
            ).fetchall()
        return {columns[-1]: codec.chunk(columns[:-1]) for columns in read}

    def vectors(self, chunk_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those of the chunks that are there."""
        with self._snapshot() as db:
            self._still_ours(db)
            read = db.execute(
                "SELECT c.id, s.vector FROM chunks c JOIN signals s ON s.row = c.row"
                " WHERE c.id IN (SELECT value FROM json_each(?))",
                (json.dumps(list(chunk_ids)),),
            ).fetchall()
        return {name: np.frombuffer(vector, np.float32) for name, vector in read}

    def after(self, row: int, upto: State) -> Iterator[Batch]:
        """All the rows after one that were there at a state, in batches."""
        while row < upto.last:
            with self._snapshot() as db:
                batch = signals.after(db, row, upto, BATCH, self.dim)
            yield batch
            row = batch.last

    def near(self, rows: Sequence[int]) -> tuple[list[int], list[str], Matrix]:
        """Those of the rows that are still there, the ids of their chunks, and their vectors."""
        with self._read() as db:
            return signals.vectors(db, rows, self.dim)

    def worded(self, rows: Sequence[int]) -> Worded:
        """The terms of those of the rows that are still there."""
        with self._read() as db:
            return signals.worded(db, rows)

    def gone(self, change: int, upto: State) -> list[tuple[int, Hashes]] | None:
        """The rows that were removed after a change up to a state, with their terms; None if that is forgotten."""
        with self._read() as db:
            return signals.gone(db, change, upto)

    def prune(self) -> None:
        """Forgets the rows that were removed long ago."""
        with self._change() as db:
            write.prune(db)


def asked_of_documents(where: Filter) -> list[frozenset[str]]:
    """The groups of facets that a filter asks of a document; authors and times are asked of its chunks."""
    return required_facets(replace(where, authors=frozenset(), since=None, until=None))


def admits(groups: list[frozenset[str]], facets: str) -> bool:
    """Whether a document with these facets has one of each group."""
    if not groups:
        return True
    words = json.loads(facets)
    return all(not group.isdisjoint(words) for group in groups)


def kept_embedder(folder: Path) -> str | None:
    """The name of the embedder that a folder's collection was filled with; None where there is no collection."""
    file = folder / schema.FILE
    if not file.exists():
        return None
    with schema.failing(str(file)):
        db = schema.reading(file)
        try:
            if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
                return None
            name: str = db.execute("SELECT embedder FROM meta").fetchone()[0]
            return name
        finally:
            db.close()
