"""Faults to plant in a collection, past Clew and by it, and what `doctor` must say of each."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from clew import Document, Engine, Message
from clew.core.doctor import Area
from clew.core.types import Section
from clew.drivers.store.sqlite import schema

NO_VECTORS = np.zeros((0, 64), np.float32)
START = datetime(2024, 5, 1, 9, tzinfo=UTC)
SUBJECTS = {
    "vault": "Signing keys live in the vault",
    "tides": "The harbour gauge reads the tides",
    "soup": "Lunch is soup at noon",
    "pager": "The pager goes to whoever is on call",
}
VAULT = "(SELECT row FROM documents WHERE id = 'vault')"
THREAD = "(SELECT row FROM documents WHERE kind = 'thread')"
CHUNK = f"(SELECT min(row) FROM chunks WHERE doc = {VAULT})"
SAID = f"(SELECT min(row) FROM chunks WHERE doc = {THREAD})"
ZEROS = "(SELECT ('[' || string_agg('0', ',') || ']')::vector FROM generate_series(1, 64))"
WORD = f"(SELECT min(word) FROM postings WHERE chunk = {CHUNK} AND count > 0)"


def fill(engine: Engine, folder: Path) -> Engine:
    """The engine, after a reembedding, of a collection with a bit of everything."""
    pages = [
        Document(id_, f"# {id_.title()}\n\n" + "".join(f"{text}, part {n} of {id_}. " for n in range(28)), summary=text)
        for id_, text in SUBJECTS.items()
    ]
    engine.add_documents([replace(pages[0], meta={"owner": "ines"}), *pages[1:]])
    engine.add_documents([Document("pay", "Wages are paid on the last Friday of a month.", access=frozenset({"hr"}))])
    file = folder / "notes.md"
    file.write_text("# Notes\n\nThe anchor was lifted at dawn, and the crew sang.\n", "utf-8")
    engine.add(file)
    told = ("who has the rota?", "it hangs in the galley", "thanks, found it", "somebody took it down again")
    engine.add_messages(
        [
            Message(text, ("ann", "bo")[n % 2], START + timedelta(minutes=n), f"m{n}", "ops", "m0" if n else None)
            for n, text in enumerate(told)
        ]
    )
    engine.reembed("hashed:64")
    engine.calibrate()
    engine.enqueue_add(file)
    engine.cancel_job(engine.jobs()[0].id)
    engine.context("where are the keys?", session="desk")
    return engine


@dataclass(frozen=True)
class Fault:
    """What is planted: statements for each store, or a change by the store itself, and the area that must name it.

    `seals` computes the checksums again, as if Clew had written it so.
    """

    name: str
    area: Area
    sql: str = ""
    folder: str = ""
    postgres: str = ""
    change: Callable[[Engine], None] | None = None
    file: Callable[[Path], None] | None = None
    seals: bool = False
    is_repaired: bool = True

    def get_sql(self, store: str) -> str:
        """The statements for a store; none where it has no such thing."""
        return self.sql or (self.folder if store == "folder" else self.postgres)

    def fits(self, store: str) -> bool:
        """Whether the store can have it."""
        return bool(self.get_sql(store) or self.change or (self.file and store == "folder"))


def damage_folder(folder: Path, fault: Fault) -> None:
    """Plants a fault in a closed collection in a folder."""
    if fault.file:
        fault.file(folder)
    elif sql := fault.get_sql("folder"):
        with closing(sqlite3.connect(folder / "clew.db")) as db, db:
            schema.register_functions(db)
            for statement in sql.split(";"):
                db.execute(statement)
            if fault.seals:
                _seal_rows(db)


def _seal_rows(db: sqlite3.Connection) -> None:
    """Gives every row the checksum of what it holds now."""
    made: dict[str, dict[str, tuple[str, ...]]] = {
        "documents": {"sum": schema.RECORD, "found_sum": schema.FOUND_BY},
        "meta": {"sum": schema.META},
    }
    for table, columns in made.items():
        for column, names in columns.items():
            db.execute(f"UPDATE {table} SET {column} = row_sum({', '.join(names)})")
    for table, expression in schema.FIXED.items():
        db.execute(f"UPDATE {table} SET sum = {expression}")


def damage_server(url: str, fault: Fault) -> None:
    """Plants a fault in a collection on a server."""
    import psycopg

    if sql := fault.get_sql("postgres"):
        with psycopg.connect(url, autocommit=True) as connection:
            if not fault.seals:
                connection.execute("SET session_replication_role = replica")  # past every trigger
            connection.execute("SET search_path TO clew, public; SET clew.collection = 'default'")
            connection.execute(sql)


def make_damageable(url: str) -> None:
    """Lets the checksums of a server be written: triggers compute them, which a replica passes by."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("documents", "pieces", "chunks", "blocks", "named"):
            made = connection.execute(
                "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = %s::regclass AND adnum ="
                " (SELECT attnum FROM pg_attribute WHERE attrelid = adrelid AND attname = 'sum')",
                (f"clew.{table}",),
            ).fetchone()
            assert made
            connection.execute(
                f"ALTER TABLE clew.{table} ALTER COLUMN sum DROP EXPRESSION;"
                f" CREATE FUNCTION clew.sum_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" NEW.sum := (SELECT {made[0]} FROM (SELECT NEW.*) AS t); RETURN NEW; END $$;"
                f" CREATE TRIGGER summed BEFORE INSERT OR UPDATE ON clew.{table} FOR EACH ROW"
                f" EXECUTE FUNCTION clew.sum_{table}()"
            )


def change_thread(change: Callable[[tuple[Section, ...]], tuple[Section, ...]]) -> Callable[[Engine], None]:
    """Stores the thread with other sections."""

    def apply(engine: Engine) -> None:
        (thread,) = [record.id for record in engine.list() if record.kind == "thread"]
        (stored,) = engine.opened.store.stored_documents([thread])
        engine.opened.store.put_many(
            [replace(stored, document=replace(stored.document, sections=change(stored.document.sections)))]
        )

    return apply


def change_vault(**changes: object) -> Callable[[Engine], None]:
    """Stores the page on the vault with other parts."""

    def apply(engine: Engine) -> None:
        (stored,) = engine.opened.store.stored_documents(["vault"])
        engine.opened.store.put_many([replace(stored, **changes)])  # type: ignore[arg-type]

    return apply


def take_other_vectors(engine: Engine) -> None:
    """Gives every chunk of a page the vector of another one, of unit length and with a right checksum."""
    vault, tides = engine.opened.store.stored_documents(["vault", "tides"])
    engine.opened.store.put_many([replace(vault, vectors=tides.vectors[: len(vault.chunks)])])


def take_other_words(engine: Engine) -> None:
    """Gives the chunks of a page the words of another one."""
    vault, tides = engine.opened.store.stored_documents(["vault", "tides"])
    engine.opened.store.put_many([replace(vault, terms=tides.terms[: len(vault.chunks)])])


def give_all_one_vector(engine: Engine) -> None:
    """Gives every chunk the same vector, as a model that is broken does."""
    found = list(engine.opened.store.stored_documents())
    for stored in found:
        if stored.chunks:
            engine.opened.store.put_many([replace(stored, vectors=found[0].vectors[[0] * len(stored.chunks)])])


def stage_third_model(engine: Engine) -> None:
    """Stages vectors that nobody puts in use."""
    from clew.drivers.embed.hashed import HashedEmbedder

    engine.opened.store.discard_staged()
    engine.opened.store.stage_vectors(HashedEmbedder(16))


def write_tuned(engine: Engine) -> None:
    """Leaves settings that were tuned for another model."""
    tuned = {"format": 1, "tuned": [{"settings": {}, "embedder": "another", "at": "2024-05-01T00:00:00+00:00"}]}
    engine.opened.store.records.write("tuned", json.dumps(tuned))


def _late(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    assert sections[1].at
    return (sections[0], replace(sections[1], guessed=True, at=sections[1].at + timedelta(days=9)), *sections[2:])


def _early(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    assert sections[1].at
    return (sections[0], replace(sections[1], guessed=True, at=sections[1].at - timedelta(days=9)), *sections[2:])


def _update(table: str, column: str, value: str, where: str) -> str:
    return f"UPDATE {table} SET {column} = {value} WHERE {where}"


_DOC, _OF_VAULT, _FIRST = "id = 'vault'", f"doc = {VAULT}", f"row = {CHUNK}"
_CHUNK_COLUMNS = {
    "text": "'forged'",
    "headings": "'[\"Forged\"]'",
    "context": "'forged'",
    "meta": '\'{"owner": "eve"}\'',
    "at": "'2001-01-01T00:00:00+00:00'",
    "start": "start + 1",
    "stop": "stop - 1",
    "idx": "idx + 5",
    "id": "'forged'",
}
_RECORD_COLUMNS = {
    "title": "'Forged'",
    "uri": "'forged.md'",
    "kind": "'forged'",
    "summary": "'Forged'",
    "meta": '\'{"owner": "eve"}\'',
    "access": "'[\"all\"]'",
    "hash": "'forged'",
    "stamp": "'forged'",
    "summary_by": "'eve'",
    "created": "'2001-01-01T00:00:00+00:00'",
    "chars": "chars + 1",
    "chunks": "chunks + 1",
}
_PIECE_COLUMNS = {"text": "'forged'", "sections": "'[]x'", "message": "'forged'", "awaits": "'forged'", "chars": "7"}
_THREAD_PIECE = f"doc = {THREAD} AND n = (SELECT min(n) FROM pieces WHERE doc = {THREAD})"

FAULTS = [
    # Rows that are not what was written
    *(
        Fault(f"chunk {name}", "truth", _update("chunks", name, value, _FIRST))
        for name, value in _CHUNK_COLUMNS.items()
    ),
    *(Fault(f"record {name}", "truth", _update("documents", name, to, _DOC)) for name, to in _RECORD_COLUMNS.items()),
    *(
        Fault(f"text {name}", "truth", _update("pieces", name, value, _OF_VAULT))
        for name, value in _PIECE_COLUMNS.items()
    ),
    Fault("message", "truth", _update("pieces", "text", "'forged'", _THREAD_PIECE)),
    Fault("message parent", "truth", _update("pieces", "parent", "'forged'", _THREAD_PIECE)),
    Fault("text gone", "truth", f"DELETE FROM pieces WHERE {_OF_VAULT}"),
    Fault("message gone", "truth", f"DELETE FROM pieces WHERE {_THREAD_PIECE}"),
    Fault("session", "truth", "UPDATE named SET value = 'x' WHERE kind = 'sessions'"),
    Fault("session name", "truth", "UPDATE named SET name = 'forged' WHERE kind = 'sessions'"),
    Fault("job", "truth", "UPDATE named SET value = replace(value, 'cancelled', 'odd') WHERE kind = 'jobs'"),
    Fault(
        "unfinished erasure",
        "truth",
        folder="INSERT INTO named(kind, name, value, sum) VALUES('erasing', '', '\"{}\"', 0)",
        postgres="INSERT INTO named(collection, kind, name, value)"
        " SELECT number, 'erasing', '', '\"{}\"' FROM collections",
        seals=True,
        is_repaired=False,
    ),
    # Rows that are as written, and wrong
    Fault("span moved", "spans", f"UPDATE chunks SET start = start + 1, stop = stop + 1 WHERE {_FIRST}", seals=True),
    Fault("span of another text", "spans", _update("chunks", "text", "'forged'", _FIRST), seals=True),
    Fault("numbers of chunks", "truth", _update("chunks", "idx", "idx + 50", _FIRST), seals=True),
    Fault("sections no list", "truth", _update("pieces", "sections", "'[1]'", _OF_VAULT), seals=True),
    Fault(
        "documents counted",
        "counts",
        folder="UPDATE meta SET documents = 99",
        postgres="UPDATE collections SET documents = 99",
        seals=True,
    ),
    Fault(
        "chunks counted",
        "counts",
        folder="UPDATE meta SET chunks = 99",
        postgres="UPDATE collections SET chunks = 99",
        seals=True,
    ),
    Fault(
        "words counted",
        "counts",
        folder="UPDATE meta SET length = 99",
        postgres="UPDATE collections SET length = 99",
        seals=True,
    ),
    Fault("characters of a document", "counts", _update("documents", "chars", "chars + 1", _DOC), seals=True),
    Fault("characters of a message", "truth", _update("pieces", "chars", "chars + 1", _THREAD_PIECE), seals=True),
    Fault("channel of a message", "filters", _update("chunks", "channel", "'forged'", f"row = {SAID}")),
    Fault("number of a message", "truth", folder=_update("pieces", "n", "'seven'", _THREAD_PIECE)),
    Fault("number of a block", "truth", folder=_update("blocks", "block", "'seven'", f"doc = {THREAD}")),
    Fault("block gone", "truth", f"DELETE FROM blocks WHERE doc = {THREAD}"),
    Fault("block characters", "truth", _update("blocks", "chars", "chars + 1", f"doc = {THREAD}")),
    Fault("block chunks", "truth", _update("blocks", "chunks", "chunks + 1", f"doc = {THREAD}")),
    Fault("chunk gone", "counts", f"DELETE FROM signals WHERE {_FIRST}; DELETE FROM chunks WHERE {_FIRST}"),
    # Vectors
    Fault("vector gone", "vectors", f"DELETE FROM signals WHERE {_FIRST}"),
    Fault(
        "vector zero",
        "vectors",
        folder=_update("signals", "vector", "zeroblob(256)", _FIRST),
        postgres=_update("signals", "vector", ZEROS, _FIRST),
        seals=True,
    ),
    Fault("vector checksum", "truth", folder=_update("signals", "vector", "zeroblob(256)", _FIRST)),
    Fault(
        "vector width",
        "truth",
        folder=_update("signals", "vector", "zeroblob(8)", _FIRST),
        postgres=_update("signals", "vector", "'[1, 0]'", _FIRST),
        seals=True,
    ),
    Fault("vectors of another page", "embeddings", change=take_other_vectors),
    Fault("one vector for all", "embeddings", change=give_all_one_vector, is_repaired=False),
    # Words
    Fault("words of another page", "postings", change=take_other_words),
    Fault(
        "length of a chunk",
        "postings",
        folder=_update("signals", "length", "length + 1", _FIRST)
        + f"; {_update('chunks', 'length', 'length + 1', _FIRST)}; UPDATE meta SET length = length + 1",
        postgres=_update("chunks", "length", "length + 1", _FIRST) + "; UPDATE collections SET length = length + 1",
        seals=True,
    ),
    Fault(
        "counts of words",
        "postings",
        folder=_update("signals", "counts", "zeroblob(length(counts))", _FIRST),
        postgres=f"UPDATE postings SET count = count + 1 WHERE chunk = {CHUNK} AND count > 0",
        seals=True,
    ),
    Fault("postings gone", "postings", postgres=f"DELETE FROM postings WHERE chunk = {CHUNK}"),
    Fault(
        "posting of another word",
        "postings",
        postgres=f"UPDATE chunks SET words = array_replace(words, {WORD}, 5) WHERE {_FIRST}; UPDATE"
        f" postings SET word = 5 WHERE chunk = {CHUNK} AND word = {WORD}",
    ),
    Fault("posting length", "postings", postgres=f"UPDATE postings SET length = length + 1 WHERE chunk = {CHUNK}"),
    # Filters
    Fault(
        "facets of a chunk",
        "filters",
        folder=_update("signals", "facets", "'[]'", _FIRST),
        postgres=_update("signals", "facets", "'{}'", _FIRST),
        seals=True,
    ),
    Fault(
        "label of a chunk",
        "filters",
        folder="UPDATE signals SET facets = '[]' WHERE facets LIKE '%access%'",
        postgres="UPDATE signals SET facets = '{}' WHERE facets @> '{-5938617013417215964}'::bigint[]",
        seals=True,
    ),
    Fault(
        "facets of a document",
        "filters",
        folder=_update("documents", "facets", "'[]'", _DOC),
        postgres=_update("documents", "facets", "'{}'", _DOC),
        seals=True,
    ),
    Fault("facets of a summary", "filters", postgres=f"UPDATE summaries SET facets = '{{}}' WHERE row = {VAULT}"),
    Fault("time of a message", "filters", _update("signals", "seconds", "seconds + 60", f"row = {SAID}"), seals=True),
    Fault("outline gone", "filters", postgres="DELETE FROM outlines"),
    Fault("outline of another state", "filters", postgres="UPDATE outlines SET chars = chars + 1"),
    Fault("chunk of another collection", "truth", postgres=_update("chunks", "collection", "99", _FIRST)),
    Fault("vector of another collection", "truth", postgres=_update("signals", "collection", "99", _FIRST)),
    # Summaries
    Fault(
        "summary without vector",
        "summaries",
        folder=_update("documents", "vector", "NULL", _DOC),
        postgres=f"DELETE FROM summaries WHERE row = {VAULT}",
        seals=True,
    ),
    Fault(
        "summary vector zero",
        "summaries",
        folder=_update("documents", "vector", "zeroblob(256)", _DOC),
        postgres=f"UPDATE summaries SET vector = {ZEROS} WHERE row = {VAULT}",
        seals=True,
    ),
    Fault(
        "summary vector of another",
        "embeddings",
        folder=_update("documents", "vector", "(SELECT vector FROM documents WHERE id = 'tides')", _DOC),
        postgres=f"UPDATE summaries SET vector = (SELECT u.vector FROM summaries u JOIN documents d ON"
        f" d.row = u.row WHERE d.id = 'tides') WHERE row = {VAULT}",
        seals=True,
    ),
    Fault("summary checksum", "truth", folder=_update("documents", "vector", "zeroblob(256)", _DOC)),
    # Orphans
    Fault(
        "text of nothing",
        "orphans",
        folder="INSERT INTO pieces SELECT 9999, n, text, sections, chars, chunks, message, parent,"
        " awaits, sum, block FROM pieces LIMIT 1",
        postgres="INSERT INTO pieces(doc, n, collection, text, sections, sum) SELECT 9999, n,"
        " collection, text, sections, sum FROM pieces LIMIT 1",
    ),
    Fault(
        "block of nothing",
        "orphans",
        folder="INSERT INTO blocks SELECT 9999, block, chars, chunks, sizes, sum FROM blocks LIMIT 1",
        postgres="INSERT INTO blocks(doc, block, collection, chars, chunks, sizes, sum) SELECT 9999, block,"
        " collection, chars, chunks, sizes, sum FROM blocks LIMIT 1",
    ),
    Fault(
        "vector of nothing",
        "orphans",
        folder="INSERT INTO signals SELECT 9999, 'x', seconds, 0, facets, terms, counts, vector, sum"
        " FROM signals LIMIT 1",
        postgres="INSERT INTO signals SELECT 9999, collection, seconds, facets, vector FROM signals LIMIT 1",
    ),
    Fault(
        "posting of nothing", "orphans", postgres="INSERT INTO postings SELECT 5, 999999, number, 1, 1 FROM collections"
    ),
    Fault(
        "summary of nothing",
        "orphans",
        postgres="INSERT INTO summaries SELECT 9999, collection, facets, vector FROM summaries LIMIT 1",
    ),
    Fault(
        "staged vector of nothing",
        "orphans",
        folder="INSERT INTO staged SELECT 9999, vector, sum FROM staged LIMIT 1",
        postgres="INSERT INTO staged SELECT 9999, collection, vector FROM staged LIMIT 1",
    ),
    Fault("document gone", "orphans", "DELETE FROM documents WHERE id = 'vault'"),
    Fault(
        "index unfinished", "orphans", file=lambda folder: (folder / "index" / "shard-0123456789ab").mkdir(parents=True)
    ),
    # Staged vectors
    Fault(
        "staged of no model",
        "staged",
        folder="UPDATE meta SET staged = NULL",
        postgres="UPDATE collections SET staged = NULL",
        seals=True,
    ),
    Fault(
        "staged of the model in use",
        "staged",
        folder="UPDATE meta SET staged = replace(staged, 'hashed:32', 'hashed:64')",
        postgres="UPDATE collections SET staged = replace(staged, 'hashed:32', 'hashed:64')",
        seals=True,
    ),
    Fault(
        "staged width",
        "staged",
        folder="UPDATE meta SET staged = replace(staged, '\"dim\": 32', '\"dim\": 8')",
        postgres="UPDATE collections SET staged = replace(staged, '\"dim\": 32', '\"dim\": 8')",
        seals=True,
    ),
    Fault(
        "staged length",
        "staged",
        folder="UPDATE staged SET vector = zeroblob(128)",
        postgres="UPDATE staged SET vector = (SELECT ('[' || string_agg('0', ',') || ']')::vector"
        " FROM generate_series(1, 32))",
        seals=True,
    ),
    Fault("staged checksum", "truth", folder="UPDATE staged SET vector = zeroblob(128)"),
    Fault("staged and forgotten", "staged", change=stage_third_model, is_repaired=False),
    # Indexes, triggers and what protects them
    Fault("index of chunks", "index", "DROP INDEX chunks_doc"),
    Fault("index of channels", "index", "DROP INDEX chunks_channel"),
    Fault("index of messages", "index", "DROP INDEX pieces_message"),
    Fault("trigger", "index", folder="DROP INDEX pieces_block", postgres="DROP TRIGGER forget_postings ON chunks"),
    Fault(
        "trigger off",
        "index",
        folder="DROP INDEX pieces_awaits",
        postgres="ALTER TABLE documents DISABLE TRIGGER has_outline",
    ),
    Fault("row security off", "protection", postgres="ALTER TABLE chunks DISABLE ROW LEVEL SECURITY"),
    Fault("row security not for the owner", "protection", postgres="ALTER TABLE signals NO FORCE ROW LEVEL SECURITY"),
    Fault("policy gone", "protection", postgres="DROP POLICY seen ON documents", is_repaired=False),
    Fault("file for everybody", "protection", file=lambda folder: (folder / "clew.db").chmod(0o644)),
    Fault("folder for everybody", "protection", file=lambda folder: folder.chmod(0o755)),
    # Calibration
    Fault(
        "calibration",
        "calibration",
        folder="UPDATE named SET value = '\"x\"' WHERE kind = 'calibration'",
        postgres="UPDATE named SET value = '\"x\"' WHERE kind = 'calibration'",
        seals=True,
    ),
    Fault(
        "calibration width",
        "calibration",
        folder="UPDATE named SET value = replace(value, 'centre\\\": \\\"', 'centre\\\": \\\"AAAA')"
        " WHERE kind = 'calibration'",
        postgres="UPDATE named SET value = replace(value, 'centre\\\": \\\"', 'centre\\\": \\\"AAAA')"
        " WHERE kind = 'calibration'",
        seals=True,
    ),
    Fault("calibration checksum", "truth", folder="UPDATE named SET value = 'x' WHERE kind = 'calibration'"),
    Fault("tuned for another model", "calibration", change=write_tuned, is_repaired=False),
    # Sources
    Fault(
        "source gone",
        "sources",
        "UPDATE documents SET uri = 'nowhere/gone.md' WHERE stamp <> ''",
        seals=True,
        is_repaired=False,
    ),
    Fault(
        "source changed",
        "sources",
        "UPDATE documents SET stamp = '1 1 x' WHERE stamp <> ''",
        seals=True,
        is_repaired=False,
    ),
    # Threads
    Fault("reply after a long silence", "threads", change=change_thread(_late), is_repaired=False),
    Fault("reply before its question", "threads", change=change_thread(_early), is_repaired=False),
    # Sizes
    Fault("document without chunks", "sizes", change=change_vault(chunks=(), terms=(), vectors=NO_VECTORS)),
]
