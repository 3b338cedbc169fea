"""The tables of a collection as SQL."""

VERSION = 11

# `chunks` is what a reader is shown and `signals` what an index follows: a chunk that only moved changes the first and
# not the second, and showing a hit never reads its vector. A signal's row is never reused and never changes, so an
# index that knows the last row and the last change it has seen knows what it lacks; `gone` holds the tombstones of
# removed rows. Document frequencies are counted by the index: a table of them would be written all over by every put,
# ten times what the put itself writes. A chunk's text is stored besides its document's: cutting it from a long document
# would read all the pages before it. A document's text is stored in pieces, so that a conversation grows without being
# rewritten. `birth` is the collection's id, `shadows` are staged vectors, `print` is an entry's fingerprint.
# A thread has a piece for each message, ordered by `n`, with its id, its parent and the missing message that it
# answers; its chunks name their piece, and places are counted from its start. `blocks` are sizes of 128 pieces.
# `sum` is the checksum of a row (see `sums`).
TABLES = """
CREATE TABLE meta(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, change INTEGER NOT NULL,
  documents INTEGER NOT NULL, chunks INTEGER NOT NULL, length INTEGER NOT NULL, last INTEGER NOT NULL,
  pruned INTEGER NOT NULL, birth TEXT NOT NULL, created TEXT, sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE documents(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, uri TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL,
  summary TEXT NOT NULL, meta TEXT NOT NULL, facets TEXT NOT NULL, hash TEXT NOT NULL, stamp TEXT NOT NULL,
  chars INTEGER NOT NULL, chunks INTEGER NOT NULL, pieces INTEGER NOT NULL, vector BLOB, access TEXT,
  summary_by TEXT NOT NULL DEFAULT '', created TEXT, updated TEXT, revision INTEGER NOT NULL DEFAULT -1,
  sum INTEGER NOT NULL DEFAULT -1, found_sum INTEGER NOT NULL DEFAULT -1);
CREATE INDEX documents_uri ON documents(uri, id);
CREATE TABLE pieces(
  doc INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE, n INTEGER NOT NULL, text TEXT NOT NULL,
  sections TEXT NOT NULL, chars INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0, message TEXT,
  parent TEXT, awaits TEXT, sum INTEGER NOT NULL DEFAULT -1, PRIMARY KEY(doc, n)) WITHOUT ROWID;
CREATE INDEX pieces_sizes ON pieces(doc, n, chars, chunks) WHERE message IS NOT NULL;
CREATE INDEX pieces_message ON pieces(doc, message) WHERE message IS NOT NULL;
CREATE INDEX pieces_parent ON pieces(doc, parent) WHERE parent IS NOT NULL;
CREATE INDEX pieces_awaits ON pieces(awaits) WHERE awaits IS NOT NULL;
CREATE TABLE blocks(
  doc INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE, block INTEGER NOT NULL, chars INTEGER NOT NULL,
  chunks INTEGER NOT NULL, sum INTEGER NOT NULL DEFAULT -1, PRIMARY KEY(doc, block)) WITHOUT ROWID;
CREATE TABLE chunks(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc INTEGER NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  idx INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, headings TEXT NOT NULL, context TEXT NOT NULL,
  at TEXT, meta TEXT NOT NULL, print INTEGER NOT NULL, text TEXT NOT NULL, piece INTEGER,
  sum INTEGER NOT NULL DEFAULT -1);
CREATE INDEX chunks_doc ON chunks(doc, piece, idx);
CREATE INDEX chunks_channel ON chunks(json_extract(meta, '$.channel'), row)
  WHERE json_extract(meta, '$.channel') IS NOT NULL;
CREATE TABLE signals(
  row INTEGER PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE, id TEXT NOT NULL, seconds REAL,
  length INTEGER NOT NULL, facets TEXT NOT NULL, terms BLOB NOT NULL, counts BLOB NOT NULL, vector BLOB NOT NULL,
  sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE gone(
  change INTEGER NOT NULL, row INTEGER NOT NULL, terms BLOB NOT NULL, sum INTEGER NOT NULL DEFAULT -1,
  PRIMARY KEY(change, row)) WITHOUT ROWID;
CREATE TABLE shadow(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, was_used INTEGER NOT NULL);
CREATE TABLE shadows(
  row INTEGER PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE, vector BLOB NOT NULL,
  sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE summary_shadows(
  row INTEGER PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE, vector BLOB NOT NULL,
  sum INTEGER NOT NULL DEFAULT -1);
CREATE TRIGGER chunk_says_other AFTER UPDATE OF text, headings, context ON chunks
  WHEN old.text IS NOT new.text OR old.headings IS NOT new.headings OR old.context IS NOT new.context
  BEGIN DELETE FROM shadows WHERE row = new.row; END;
CREATE TRIGGER summary_says_other AFTER UPDATE OF summary, vector ON documents
  WHEN old.summary IS NOT new.summary OR old.vector IS NOT new.vector
  BEGIN DELETE FROM summary_shadows WHERE row = new.row; END;
CREATE TABLE calibration(
  one INTEGER PRIMARY KEY CHECK(one = 1), text TEXT NOT NULL, sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE erasing(one INTEGER PRIMARY KEY CHECK(one = 1), text TEXT NOT NULL, sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE sessions(
  name TEXT PRIMARY KEY, documents TEXT NOT NULL, messages TEXT NOT NULL, used REAL NOT NULL, kept INTEGER NOT NULL,
  sum INTEGER NOT NULL DEFAULT -1);
CREATE TABLE claims(
  row INTEGER PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE, owner TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE jobs(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, request TEXT NOT NULL, state TEXT NOT NULL,
  stage TEXT NOT NULL, done INTEGER NOT NULL, total INTEGER, result TEXT NOT NULL, error TEXT NOT NULL,
  worker TEXT NOT NULL, heartbeat REAL, attempts INTEGER NOT NULL, host TEXT NOT NULL, created TEXT NOT NULL,
  updated TEXT NOT NULL);
"""
STATEMENTS = [each for each in TABLES.split(";\n") if each.strip()]
