-- The tables of Clew. Every row names its collection, and all that belongs to a document goes with it.
--
-- `chunks` is what a reader is shown, `signals` what a search by vector reads: a chunk that only moved changes the
-- first and not the second, so its vector is not indexed again. `postings` is the inverted index: which chunks have a
-- word, by the word's 64-bit hash, and which have a facet, by that of the facet with a count of 0. Text is kept in the
-- "C" collation, so that it sorts by code point whatever the locale of the server.

CREATE TABLE collections(
  number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  embedder text NOT NULL,
  dim int NOT NULL,
  change bigint NOT NULL DEFAULT 0,       -- grows with every change
  documents bigint NOT NULL DEFAULT 0,
  chunks bigint NOT NULL DEFAULT 0,
  length bigint NOT NULL DEFAULT 0        -- terms in all chunks, of which BM25 takes the mean
);

CREATE TABLE documents(
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  id text COLLATE "C" NOT NULL,
  uri text COLLATE "C" NOT NULL,
  title text NOT NULL,
  kind text NOT NULL,
  summary text NOT NULL,
  meta text NOT NULL,                     -- JSON
  hash text NOT NULL,
  stamp text NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  pieces int NOT NULL,
  facets bigint[] NOT NULL,
  UNIQUE (collection, id)
);

-- A document's text and sections, in pieces, so that a conversation grows without being written anew.
CREATE TABLE pieces(
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  n int NOT NULL,
  collection int NOT NULL,
  text text NOT NULL,
  sections text NOT NULL,                 -- JSON
  PRIMARY KEY (doc, n)
);

CREATE TABLE summaries(
  row bigint PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  facets bigint[] NOT NULL,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE INDEX summaries_collection ON summaries(collection);

CREATE SEQUENCE chunk_rows;
CREATE TABLE chunks(
  row bigint PRIMARY KEY,                 -- of chunk_rows: greater means later
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  id text COLLATE "C" NOT NULL,
  idx int NOT NULL,
  start bigint NOT NULL,
  stop bigint NOT NULL,
  length int NOT NULL,                    -- terms
  print bigint NOT NULL,                  -- tells whether its signals and postings have changed
  headings text NOT NULL,                 -- JSON
  context text NOT NULL,
  at text,                                -- ISO 8601
  meta text NOT NULL,                     -- JSON
  channel text COLLATE "C",
  text text NOT NULL,
  words bigint[] NOT NULL,                -- of all its postings, by which they are found again
  UNIQUE (collection, id)
);
CREATE INDEX chunks_doc ON chunks(doc, idx);
CREATE INDEX chunks_channel ON chunks(collection, channel, row) WHERE channel IS NOT NULL;

-- The vector has no fixed width, since collections differ; a row stays in one piece up to about 2,000 dimensions.
CREATE TABLE signals(
  row bigint PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE,
  collection int NOT NULL,
  seconds float8,
  facets bigint[] NOT NULL,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE INDEX signals_seconds ON signals(collection, seconds);

-- A foreign key would be checked a hundred times a chunk, so a trigger takes postings out instead.
CREATE TABLE postings(
  word bigint NOT NULL,
  chunk bigint NOT NULL,
  collection int NOT NULL,
  count int NOT NULL,
  length int NOT NULL,                    -- of the chunk
  PRIMARY KEY (word, collection, chunk) INCLUDE (count, length)
);

CREATE FUNCTION forget_postings() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  DELETE FROM clew.postings p
  USING (SELECT unnest(words) AS word, row, collection FROM gone) g
  WHERE p.word = g.word AND p.collection = g.collection AND p.chunk = g.row;
  RETURN NULL;
END $$;
CREATE TRIGGER forget_postings AFTER DELETE ON chunks
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_postings();
