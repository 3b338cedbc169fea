"""The tables of a collection as SQL."""

VERSION = 13

# `chunks` is what a reader is shown and `signals` what an index follows: a chunk that only moved changes the first and
# not the second, and showing a hit never reads its vector. A signal's row is never reused and never changes but for a
# vector that is filled in (empty while the chunk is `pending`), so an index that knows the last row and the last change
# it has seen knows what it lacks; `gone` holds the tombstones of removed rows, and of filled ones, without terms.
# Document frequencies are counted by the index: a table of them would be written all over by every put, ten times what
# the put itself writes. A chunk's text is stored besides its document's: cutting it from a long document would read all
# the pages before it. A document's text is stored in pieces, so that a conversation grows without being rewritten.
# `birth` is the collection's id, `staged` the model of the vectors in the table `staged`, `print` is an entry's
# fingerprint.
# A thread has a piece for each message, ordered by `n`, with its id, its parent and the missing message that it
# answers; its chunks name their piece, and places are counted from its start. `blocks` are the sizes of 128 pieces
# each, [n, chars, chunks].
# `named` has jobs, sessions, claims and what else is kept beside the content. `sum` is the checksum of a row.
TABLES = """
CREATE TABLE meta(
  one INTEGER PRIMARY KEY CHECK(one = 1), embedder TEXT NOT NULL, dim INTEGER NOT NULL, change INTEGER NOT NULL,
  documents INTEGER NOT NULL, chunks INTEGER NOT NULL, length INTEGER NOT NULL, last INTEGER NOT NULL,
  pending INTEGER NOT NULL, pruned INTEGER NOT NULL, birth TEXT NOT NULL, created TEXT, staged TEXT,
  sum INTEGER NOT NULL);
CREATE TABLE documents(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, uri TEXT NOT NULL, kind TEXT NOT NULL,
  hash TEXT NOT NULL, stamp TEXT NOT NULL, chars INTEGER NOT NULL, chunks INTEGER NOT NULL, summary TEXT NOT NULL,
  meta TEXT NOT NULL, access TEXT, summary_by TEXT NOT NULL, created TEXT, updated TEXT, sum INTEGER NOT NULL,
  revision INTEGER NOT NULL, facets TEXT NOT NULL, vector BLOB, pending INTEGER, found_sum INTEGER NOT NULL);
CREATE INDEX documents_pending ON documents(pending, row) WHERE pending IS NOT NULL;
CREATE TABLE pieces(
  doc INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, sections TEXT NOT NULL, chars INTEGER NOT NULL,
  chunks INTEGER NOT NULL, message TEXT, parent TEXT, awaits TEXT, sum INTEGER NOT NULL, block INTEGER,
  PRIMARY KEY(doc, n)) WITHOUT ROWID;
CREATE INDEX pieces_block ON pieces(doc, block, n, chars, chunks) WHERE block IS NOT NULL;
CREATE INDEX pieces_message ON pieces(doc, message) WHERE message IS NOT NULL;
CREATE INDEX pieces_parent ON pieces(doc, parent) WHERE parent IS NOT NULL;
CREATE INDEX pieces_awaits ON pieces(awaits) WHERE awaits IS NOT NULL;
CREATE TABLE blocks(
  doc INTEGER NOT NULL, block INTEGER NOT NULL, chars INTEGER NOT NULL, chunks INTEGER NOT NULL, sizes TEXT NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY(doc, block)) WITHOUT ROWID;
CREATE TABLE chunks(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, doc INTEGER NOT NULL, piece INTEGER, idx INTEGER NOT NULL,
  start INTEGER NOT NULL, stop INTEGER NOT NULL, print INTEGER NOT NULL, text TEXT NOT NULL, headings TEXT NOT NULL,
  context TEXT NOT NULL, at TEXT, meta TEXT NOT NULL, channel TEXT, sum INTEGER NOT NULL, length INTEGER NOT NULL,
  pending INTEGER);
CREATE INDEX chunks_doc ON chunks(doc, piece, idx);
CREATE INDEX chunks_channel ON chunks(channel, row) WHERE channel IS NOT NULL;
CREATE INDEX chunks_pending ON chunks(pending, row) WHERE pending IS NOT NULL;
CREATE TABLE signals(
  row INTEGER PRIMARY KEY, id TEXT NOT NULL, seconds REAL, length INTEGER NOT NULL, facets TEXT NOT NULL,
  terms BLOB NOT NULL, counts BLOB NOT NULL, vector BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE gone(
  change INTEGER NOT NULL, row INTEGER NOT NULL, terms BLOB NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY(change, row)) WITHOUT ROWID;
CREATE TABLE staged(row INTEGER PRIMARY KEY, vector BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE named(
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER NOT NULL,
  UNIQUE(kind, name));
"""
STATEMENTS = [each for each in TABLES.split(";\n") if each.strip()]
