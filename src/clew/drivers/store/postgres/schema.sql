-- The schema clew, made once in a database. Every row names its collection, and all that belongs to a document goes with
-- it. Text is kept in the "C" collation, so that it sorts by code point whatever the locale of the server.

CREATE SCHEMA IF NOT EXISTS clew;

-- -- Tables ------------------------------------------------------------------------------------------------------------

CREATE TABLE format(
  number int NOT NULL                     -- of this schema; another one is refused
);

CREATE TABLE collections(
  number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  created timestamptz DEFAULT now(),
  embedder text NOT NULL,
  dim int NOT NULL,
  is_half boolean NOT NULL DEFAULT false, -- the vectors of chunks are kept in half precision
  change bigint NOT NULL DEFAULT 0,       -- grows with every change
  version bigint NOT NULL DEFAULT 0,      -- grows with every transaction, even one that counts as no change
  documents bigint NOT NULL DEFAULT 0,
  chunks bigint NOT NULL DEFAULT 0,
  length bigint NOT NULL DEFAULT 0,       -- terms in all chunks, of which BM25 takes the mean
  last bigint NOT NULL DEFAULT 0,         -- the greatest number of a document or chunk so far
  pending bigint NOT NULL DEFAULT 0,      -- chunks whose vector is still to be made
  staged text                             -- JSON: the model of the staged vectors, if there are any
);

-- Documents and chunks are numbered by `last` of their collection, which begins at `number << 36`: so no two collections
-- share a number, and the rows of one are a range.
CREATE FUNCTION start_numbers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.last := NEW.number::bigint << 36;
  RETURN NEW;
END $$;
CREATE TRIGGER start_numbers BEFORE INSERT ON collections FOR EACH ROW EXECUTE FUNCTION start_numbers();

-- `sum` is a checksum that the server computes whenever the row is written and Clew compares whenever it is read, so that
-- damage is an error and never another text. It is of the columns as text, with the character 31 between them.
CREATE TABLE documents(
  row bigint PRIMARY KEY,                 -- greater means later
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  id text COLLATE "C" NOT NULL,
  uri text COLLATE "C" NOT NULL,
  title text NOT NULL,
  kind text NOT NULL,
  summary text NOT NULL,
  summary_by text NOT NULL DEFAULT '',
  meta text NOT NULL,                     -- JSON
  hash text NOT NULL,
  stamp text NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  facets bigint[] NOT NULL,
  access text,                            -- JSON list of labels; null: everybody
  created text,                           -- ISO 8601
  updated text,
  revision bigint NOT NULL DEFAULT -1,    -- another one after every change of the document
  pending int,                            -- 1: the vector of its summary is still to be made
  sum bytea GENERATED ALWAYS AS (decode(md5(
    id || chr(31) || title || chr(31) || uri || chr(31) || kind || chr(31) || hash || chr(31) || stamp || chr(31)
    || chars || chr(31) || chunks || chr(31) || summary || chr(31) || meta || chr(31) || coalesce(access, '') || chr(31)
    || summary_by || chr(31) || coalesce(created, '') || chr(31) || coalesce(updated, '') || chr(31) || row),
    'hex')) STORED,
  UNIQUE (collection, id)
);
CREATE INDEX documents_pending ON documents(collection, pending, row) WHERE pending IS NOT NULL;

-- What is known of a thread without having read its messages. A row is kept for every thread, and seen in place of that
-- of `documents` where labels hide a part of the thread.
CREATE TABLE outlines(
  row bigint PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  meta text NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  facets bigint[] NOT NULL,
  access text,
  created text,
  updated text,
  revision bigint NOT NULL,
  UNIQUE (collection, id)
);

-- A document's text and sections, in pieces, so that a conversation grows without being written anew. A thread has a
-- piece for each message, ordered by n, with the message's id, its parent and the missing message that it answers.
CREATE TABLE pieces(
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  n int NOT NULL,
  collection int NOT NULL,
  text text NOT NULL,
  sections text NOT NULL,                 -- JSON
  chars bigint NOT NULL DEFAULT 0,
  chunks int NOT NULL DEFAULT 0,
  message text COLLATE "C",
  parent text COLLATE "C",
  awaits text COLLATE "C",
  sum bytea GENERATED ALWAYS AS (decode(md5(
    doc || chr(31) || n || chr(31) || text || chr(31) || sections || chr(31) || chars || chr(31) || chunks || chr(31)
    || coalesce(message, '') || chr(31) || coalesce(parent, '') || chr(31) || coalesce(awaits, '')), 'hex')) STORED,
  block int GENERATED ALWAYS AS (CASE WHEN message IS NOT NULL THEN n >> 7 END) STORED,
  PRIMARY KEY (doc, n)
);
CREATE INDEX pieces_block ON pieces(doc, block) INCLUDE (n, chars, chunks) WHERE block IS NOT NULL;
CREATE INDEX pieces_message ON pieces(doc, message) WHERE message IS NOT NULL;
CREATE INDEX pieces_parent ON pieces(doc, parent) WHERE parent IS NOT NULL;
CREATE INDEX pieces_awaits ON pieces(collection, awaits) WHERE awaits IS NOT NULL;

-- The sizes of 128 pieces of a thread each, by which places in the whole are added up.
CREATE TABLE blocks(
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  block int NOT NULL,
  collection int NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  sizes text NOT NULL,                    -- JSON: number, characters and chunks of each
  sum bytea GENERATED ALWAYS AS (decode(md5(
    doc || chr(31) || block || chr(31) || chars || chr(31) || chunks || chr(31) || sizes), 'hex')) STORED,
  PRIMARY KEY (doc, block)
);

CREATE TABLE summaries(
  row bigint PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  facets bigint[] NOT NULL,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE INDEX summaries_collection ON summaries(collection);

-- `chunks` is what a reader is shown, `signals` what a search by vector reads: a chunk that only moved changes the first
-- and not the second, so its vector is not indexed again. The chunks of a thread name their piece, and their places are
-- counted from its start, so that a thread is changed without being written anew.
CREATE TABLE chunks(
  row bigint PRIMARY KEY,                 -- greater means later
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  id text COLLATE "C" NOT NULL,
  piece int,
  idx int NOT NULL,
  start bigint NOT NULL,
  stop bigint NOT NULL,
  length int NOT NULL,                    -- terms
  print bigint NOT NULL,                  -- tells whether its signals and postings have changed
  pending int,                            -- 1: its vector is still to be made
  headings text NOT NULL,                 -- JSON
  context text NOT NULL,
  at text,                                -- ISO 8601
  meta text NOT NULL,                     -- JSON
  channel text COLLATE "C",
  text text NOT NULL,
  words bigint[] NOT NULL,                -- of all its postings, by which they are found again
  sum bytea GENERATED ALWAYS AS (decode(md5(
    row || chr(31) || doc || chr(31) || coalesce(piece::text, '') || chr(31) || idx || chr(31) || start || chr(31) || stop
    || chr(31) || headings || chr(31) || context || chr(31) || coalesce(at, '') || chr(31) || meta || chr(31) || text
    || chr(31) || id), 'hex')) STORED,
  UNIQUE (collection, id)
);
CREATE INDEX chunks_doc ON chunks(doc, piece, idx);
CREATE INDEX chunks_channel ON chunks(collection, channel, row) WHERE channel IS NOT NULL;
CREATE INDEX chunks_pending ON chunks(collection, pending, row) WHERE pending IS NOT NULL;
-- Whether a document has hidden chunks is asked of those alone that are restricted (see `admits`).
CREATE INDEX chunks_restricted ON chunks(doc) WHERE words @> '{-5938617013417215964}'::bigint[];

-- The vector is in one of the two columns, as the collection says, once it is made. It has no fixed width, since
-- collections differ; a row
-- stays in one piece up to about 2,000 dimensions.
CREATE TABLE signals(
  row bigint PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE,
  collection int NOT NULL,
  seconds float8,
  facets bigint[] NOT NULL,
  vector vector,
  half halfvec,
  CONSTRAINT one_vector CHECK (num_nonnulls(vector, half) <= 1)
) WITH (toast_tuple_target = 8160);
CREATE INDEX signals_seconds ON signals(collection, seconds);

-- The inverted index: which chunks have a word, by the word's 64-bit hash, and which have a facet, by that of the facet
-- with a count of 0. It has a partition for each collection (see the end).
CREATE TABLE postings(
  word bigint NOT NULL,
  chunk bigint NOT NULL,
  collection int NOT NULL,
  count int NOT NULL,
  length int NOT NULL,                    -- of the chunk
  PRIMARY KEY (word, collection, chunk) INCLUDE (count, length)
) PARTITION BY LIST (collection);

-- Vectors of documents and chunks of another model beside those in use, until the collection is switched to it; then
-- those of the model before.
CREATE TABLE staged(
  row bigint PRIMARY KEY,
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);

-- What is kept by name beside the content: jobs, sessions, claims on documents, tuned settings, runs of evaluations, what
-- users said of answers, the calibration, and what is needed to finish an erasure that was interrupted.
CREATE TABLE named(
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  number bigint GENERATED ALWAYS AS IDENTITY,  -- greater means later
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text NOT NULL,                    -- JSON
  sum bytea GENERATED ALWAYS AS (decode(md5(kind || chr(31) || name || chr(31) || value), 'hex')) STORED,
  PRIMARY KEY (collection, kind, name)
);

-- -- Functions and triggers --------------------------------------------------------------------------------------------

-- The number of the collection that the connection has named.
CREATE FUNCTION mine() RETURNS int LANGUAGE sql STABLE
RETURN (SELECT number FROM clew.collections WHERE name = current_setting('clew.collection', true));

-- A foreign key would be checked a hundred times a chunk, so a trigger takes postings out instead. The number of the
-- collection stands in each statement, so that it touches no other partition.
CREATE FUNCTION forget_postings() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  here int;
BEGIN
  FOR here IN SELECT DISTINCT collection FROM gone LOOP
    EXECUTE format('DELETE FROM clew.postings p USING (SELECT unnest(words) AS word, row FROM gone'
      ' WHERE collection = %1$s) g WHERE p.word = g.word AND p.collection = %1$s AND p.chunk = g.row', here);
  END LOOP;
  RETURN NULL;
END $$;
CREATE TRIGGER forget_postings AFTER DELETE ON chunks
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_postings();

CREATE FUNCTION keep_outline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.kind = 'thread' THEN
    INSERT INTO clew.outlines AS o VALUES (
      NEW.row, NEW.collection, NEW.id, NEW.kind, NEW.meta, NEW.chars, NEW.chunks, NEW.facets, NEW.access,
      NEW.created, NEW.updated, NEW.revision)
    ON CONFLICT (row) DO UPDATE SET meta = excluded.meta, chars = excluded.chars, chunks = excluded.chunks,
      facets = excluded.facets, access = excluded.access, created = excluded.created,
      updated = excluded.updated, revision = excluded.revision;
  ELSE
    DELETE FROM clew.outlines WHERE row = NEW.row;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER has_outline AFTER INSERT ON documents FOR EACH ROW WHEN (NEW.kind = 'thread')
EXECUTE FUNCTION keep_outline();
CREATE TRIGGER changes_outline AFTER UPDATE ON documents FOR EACH ROW
WHEN (NEW.kind = 'thread' OR OLD.kind = 'thread') EXECUTE FUNCTION keep_outline();

-- A graph (HNSW, half precision) over the vectors of one collection. One a collection, because collections differ in
-- width, and because a graph that many shared would lead a search through the others' rows. Who owns the tables builds
-- it while others write; any other role has it built by this function, for which writers wait. It runs with the owner's
-- rights, builds nothing but that, and only for the collection of the connection.
CREATE FUNCTION build_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                WHERE e.extname = 'vector');
  number int := clew.mine();
  width int := (SELECT dim FROM clew.collections WHERE collections.number = clew.mine());
  keeps_half boolean := (SELECT is_half FROM clew.collections WHERE collections.number = clew.mine());
BEGIN
  IF NOT clew.sees_all() THEN
    RAISE insufficient_privilege USING MESSAGE = 'a connection with labels changes nothing, so no graph either';
  END IF;
  IF kind NOT IN ('signals', 'summaries') OR number IS NULL THEN
    RAISE EXCEPTION 'a graph is of the signals or summaries of a collection';
  END IF;
  IF EXISTS (SELECT FROM pg_index i WHERE NOT i.indisvalid  -- left by a build that was broken off
             AND i.indexrelid = to_regclass('clew.' || quote_ident(kind || '_graph_' || number))) THEN
    EXECUTE format('DROP INDEX clew.%I', kind || '_graph_' || number);
  END IF;
  EXECUTE format(
    'CREATE INDEX IF NOT EXISTS %I ON clew.%I USING hnsw ((%s::%I.halfvec(%s)) %I.halfvec_l2_ops)'
    ' WITH (m = 16, ef_construction = 128) WHERE collection = %s',
    kind || '_graph_' || number, kind, CASE WHEN keeps_half AND kind = 'signals' THEN 'half' ELSE 'vector' END, here,
    width, here, number);
END $$;
REVOKE ALL ON FUNCTION build_graph(text) FROM PUBLIC;

-- A graph fits the width of its vectors, so it goes before they are exchanged. As build_graph: for those who do not own
-- the tables, with the owner's rights, and only for the collection of the connection.
CREATE FUNCTION drop_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT clew.sees_all() THEN
    RAISE insufficient_privilege USING MESSAGE = 'a connection with labels changes nothing, so no graph either';
  END IF;
  IF kind NOT IN ('signals', 'summaries') OR clew.mine() IS NULL THEN
    RAISE EXCEPTION 'a graph is of the signals or summaries of a collection';
  END IF;
  EXECUTE format('DROP INDEX IF EXISTS clew.%I', kind || '_graph_' || clew.mine());
END $$;
REVOKE ALL ON FUNCTION drop_graph(text) FROM PUBLIC;

-- -- Row security and labels -------------------------------------------------------------------------------------------
--
-- A connection sees the rows of the collection that it has named in clew.collection, and no others, whatever a statement
-- asks for. It holds for the owner of the tables too; only superusers and roles with BYPASSRLS are free of it, which is
-- why every statement of Clew also names its collection.
--
-- A connection that is given labels (clew.access: the hashes of the facets of its labels, as an array) sees what has one
-- of them and what has none, and changes nothing; with none of its own ('{}') it sees nothing. One that is given none
-- (unset or empty) sees and changes its whole collection. With labels it sees of
--
--   chunks, signals            a row with its own labels, among its facets
--   postings                   those of the chunks that are seen
--   documents, summaries       those of which all chunks are seen: a title and a summary are made of the whole
--   outlines                   threads of which some chunks are seen, without what was made of their messages
--   pieces                     those of the documents that are seen whole, and of messages that are seen
--   named                      the tuned settings and the calibration, which searches use; all else names documents
--   collections, format        all: they have counts and names of models, no content
--   blocks, staged             nothing: who only reads does not need them

CREATE FUNCTION sees_all() RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(current_setting('clew.access', true), '') = '';
CREATE FUNCTION labels() RETURNS bigint[] LANGUAGE sql STABLE
RETURN CAST(nullif(current_setting('clew.access', true), '') AS bigint[]);
-- The rule of Filter(access=…). The number is the hash of the facet that restricted chunks have.
CREATE FUNCTION admits(facets bigint[], labels bigint[]) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN cardinality(labels) > 0 AND (NOT facets @> '{-5938617013417215964}'::bigint[] OR facets && labels);

-- These functions look past the labels, never past the collection, and tell no content: whether something is hidden, how
-- long it is, how many chunks have a word. They are STABLE, so they see the state that the query sees, and planned once a
-- connection.

CREATE FUNCTION has_hidden(document bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
  labels bigint[] := clew.labels();
  answer boolean;
BEGIN
  PERFORM set_config('clew.access', '', true);
  answer := cardinality(labels) = 0 OR EXISTS (SELECT FROM clew.chunks c WHERE c.doc = document
    AND c.words @> '{-5938617013417215964}'::bigint[] AND NOT clew.admits(c.words, labels));
  PERFORM set_config('clew.access', given, true);
  RETURN answer;
END $$;

-- With no labels of its own a null, so that no chunk is known not to be among them.
CREATE FUNCTION hidden_chunks() RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
  labels bigint[] := clew.labels();
BEGIN
  IF cardinality(labels) = 0 THEN
    RETURN NEXT NULL;
  END IF;
  PERFORM set_config('clew.access', '', true);
  RETURN QUERY EXECUTE format('SELECT p.chunk FROM clew.postings p'
    ' WHERE p.word = -5938617013417215964 AND p.collection = %1$s AND NOT EXISTS (SELECT FROM clew.postings l'
    ' WHERE l.word = ANY($1) AND l.collection = %1$s AND l.chunk = p.chunk)', coalesce(clew.mine(), 0)) USING labels;
  PERFORM set_config('clew.access', given, true);
END $$;

-- Of a facet none: it has a count of 0, and would tell which authors, channels, labels and ids there are.
CREATE FUNCTION count_chunks(of_word bigint) RETURNS bigint LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
  answer bigint;
BEGIN
  PERFORM set_config('clew.access', '', true);
  EXECUTE format('SELECT count(*) FROM clew.postings p WHERE p.word = $1 AND p.collection = %s AND p.count > 0',
    coalesce(clew.mine(), 0)) INTO answer USING of_word;
  PERFORM set_config('clew.access', given, true);
  RETURN answer;
END $$;

-- Of a document that is seen, whole or in part.
CREATE FUNCTION piece_sizes(document bigint) RETURNS TABLE(n int, collection int, chars bigint, chunks int)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
BEGIN
  IF NOT clew.sees_some(document) THEN
    RETURN;
  END IF;
  PERFORM set_config('clew.access', '', true);
  RETURN QUERY SELECT p.n, p.collection, CASE WHEN p.message IS NULL THEN char_length(p.text) ELSE p.chars END, p.chunks
    FROM clew.pieces p WHERE p.doc = document;
  PERFORM set_config('clew.access', given, true);
END $$;

-- What stands before a message that is seen in its thread: characters, then chunks. Of blocks that are not as written, or
-- do not add up to the document, no sizes: a chunk without a place is refused.
CREATE FUNCTION sizes_before(document bigint, piece int) RETURNS bigint[] LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
  whole bigint[];
  rest bigint[];
BEGIN
  IF NOT clew.sees_piece(document, piece) THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('clew.access', '', true);
  whole := (SELECT CASE WHEN bool_and(b.sum = decode(md5(
      b.doc || chr(31) || b.block || chr(31) || b.chars || chr(31) || b.chunks || chr(31) || b.sizes), 'hex'))
      AND (sum(b.chars), sum(b.chunks)) = (SELECT d.chars, d.chunks FROM clew.documents d WHERE d.row = document)
    THEN ARRAY[coalesce(sum(b.chars) FILTER (WHERE b.block < (piece >> 7)), 0),
      coalesce(sum(b.chunks) FILTER (WHERE b.block < (piece >> 7)), 0),
      coalesce(sum(b.chars) FILTER (WHERE b.block = (piece >> 7)), 0),
      coalesce(sum(b.chunks) FILTER (WHERE b.block = (piece >> 7)), 0)] END FROM clew.blocks b WHERE b.doc = document);
  rest := (SELECT ARRAY[coalesce(sum(p.chars) FILTER (WHERE p.n < piece), 0),
      coalesce(sum(p.chunks) FILTER (WHERE p.n < piece), 0), coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0)]
    FROM clew.pieces p WHERE p.doc = document AND p.block = (piece >> 7));
  PERFORM set_config('clew.access', given, true);
  IF whole[3:4] = rest[3:4] THEN
    RETURN ARRAY[whole[1] + rest[1], whole[2] + rest[2]];
  END IF;
  RETURN NULL;
END $$;

-- These see what the labels admit. A function, and no subquery in a policy: that would be made ready by every statement.

CREATE FUNCTION sees_document(document bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN EXISTS (SELECT FROM clew.documents d WHERE d.row = document);
END $$;
CREATE FUNCTION sees_part(document bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN clew.has_hidden(document) AND EXISTS (SELECT FROM clew.chunks c WHERE c.doc = document);
END $$;
CREATE FUNCTION sees_some(document bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN EXISTS (SELECT FROM clew.chunks c WHERE c.doc = document)
    OR EXISTS (SELECT FROM clew.documents d WHERE d.row = document);
END $$;
CREATE FUNCTION sees_piece(document bigint, number int) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN EXISTS (SELECT FROM clew.chunks c WHERE c.doc = document AND c.piece = number)
    OR EXISTS (SELECT FROM clew.documents d WHERE d.row = document);
END $$;

-- Of every table the rows of the collection, and no change with labels.
DO $$
DECLARE
  here text;
BEGIN
  FOREACH here IN ARRAY ARRAY['collections', 'documents', 'outlines', 'pieces', 'blocks', 'summaries', 'chunks',
    'signals', 'postings', 'staged', 'named'] LOOP
    EXECUTE format('ALTER TABLE clew.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', here);
    EXECUTE format('CREATE POLICY own ON clew.%I USING (%s)', here, CASE here
      WHEN 'collections' THEN 'name = current_setting(''clew.collection'', true)'
      ELSE 'collection = (SELECT clew.mine())' END);
    EXECUTE format('CREATE POLICY added ON clew.%I AS RESTRICTIVE FOR INSERT WITH CHECK ((SELECT clew.sees_all()))', here);
    EXECUTE format('CREATE POLICY changed ON clew.%I AS RESTRICTIVE FOR UPDATE USING ((SELECT clew.sees_all()))', here);
    EXECUTE format('CREATE POLICY removed ON clew.%I AS RESTRICTIVE FOR DELETE USING ((SELECT clew.sees_all()))', here);
  END LOOP;
END $$;
-- The owner of the tables may see which collections there are, if the connection asks for that and names none.
CREATE POLICY listed ON collections FOR SELECT TO CURRENT_USER
USING (current_setting('clew.collection', true) = '*');

-- What a connection with labels sees of each table.
CREATE POLICY seen ON signals AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.admits(facets, (SELECT clew.labels())));
CREATE POLICY seen ON chunks AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.admits(words, (SELECT clew.labels())));
CREATE POLICY seen ON postings AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR chunk NOT IN (SELECT clew.hidden_chunks()));
CREATE POLICY seen ON documents AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR ((chunks > 0 OR clew.admits(facets, (SELECT clew.labels())))
  AND NOT clew.has_hidden(row)));
CREATE POLICY seen ON summaries AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.sees_document(row));
CREATE POLICY seen ON outlines AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.sees_part(row));
CREATE POLICY seen ON pieces AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.sees_piece(doc, n));
CREATE POLICY seen ON named AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR (kind IN ('tuned', 'calibration') AND cardinality((SELECT clew.labels())) > 0));
CREATE POLICY seen ON blocks AS RESTRICTIVE FOR SELECT USING ((SELECT clew.sees_all()));
CREATE POLICY seen ON staged AS RESTRICTIVE FOR SELECT USING ((SELECT clew.sees_all()));

-- The tables as the statements of Clew read them with labels, by the search path: a thread that is hidden in part is
-- there by its outline, hidden messages are blank, and chunks have their places in the whole. These views add nothing to
-- what the role may read by itself, except sizes. A row that is shown as it is stored has its checksum. One that is not
-- has an empty one, which is not compared: the server has compared that of a chunk before it changed its places.
CREATE SCHEMA clew_seen;
CREATE VIEW clew_seen.documents WITH (security_invoker = true) AS
SELECT row, collection, id, uri, title, kind, summary, meta, hash, stamp, chars, chunks, facets, access,
  summary_by, created, updated, revision, pending, sum
FROM clew.documents
UNION ALL
SELECT row, collection, id, '', '', kind, '', meta, '', '', chars, chunks, facets, access,
  '', created, updated, revision, CAST(NULL AS int), CAST('' AS bytea)
FROM clew.outlines;
CREATE VIEW clew_seen.chunks WITH (security_invoker = true) AS
SELECT row, doc, collection, id, CAST(NULL AS int) AS piece,
  CASE WHEN piece IS NULL THEN idx ELSE CAST(idx + (clew.sizes_before(doc, piece))[2] AS int) END AS idx,
  CASE WHEN piece IS NULL THEN start ELSE start + (clew.sizes_before(doc, piece))[1] END AS start,
  CASE WHEN piece IS NULL THEN stop ELSE stop + (clew.sizes_before(doc, piece))[1] END AS stop,
  length, print, pending, headings, context, at, meta, channel, text, words,
  CASE WHEN piece IS NOT NULL AND sum = decode(md5(
    row || chr(31) || doc || chr(31) || piece || chr(31) || idx || chr(31) || start || chr(31) || stop || chr(31)
    || headings || chr(31) || context || chr(31) || coalesce(at, '') || chr(31) || meta || chr(31) || text || chr(31)
    || id), 'hex') THEN CAST('' AS bytea) ELSE sum END AS sum
FROM clew.chunks;
CREATE VIEW clew_seen.pieces WITH (security_invoker = true) AS
SELECT d.row AS doc, s.n, s.collection, coalesce(p.text, repeat(' ', CAST(s.chars AS int))) AS text,
  coalesce(p.sections, '[]') AS sections, coalesce(p.chars, s.chars) AS chars, coalesce(p.chunks, s.chunks) AS chunks,
  p.message, p.parent, p.awaits, coalesce(p.sum, CAST('' AS bytea)) AS sum, p.block
FROM clew_seen.documents d CROSS JOIN LATERAL clew.piece_sizes(d.row) s
  LEFT JOIN clew.pieces p ON p.doc = d.row AND p.n = s.n;

-- -- Partitions --------------------------------------------------------------------------------------------------------
--
-- The postings of each collection are a partition of their own, postings_NUMBER: a search reads no page of another
-- collection, and a collection goes by emptying its partition instead of row by row. There is no default partition, so
-- that making another one waits for nobody. A partition has no policies: who names it in place of the whole table sees
-- nothing.

-- For the collection of the connection, with the rights of the owner. A table is attached, not made as a partition,
-- since that would wait for whoever reads or writes postings.
CREATE FUNCTION make_partition() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  number int := clew.mine();
BEGIN
  IF number IS NULL OR NOT clew.sees_all() THEN
    RAISE insufficient_privilege USING MESSAGE = 'a partition is made for a collection by who may change it';
  END IF;
  EXECUTE format('CREATE TABLE clew.%I (LIKE clew.postings INCLUDING ALL)', 'postings_' || number);
  EXECUTE format('ALTER TABLE clew.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'postings_' || number);
  EXECUTE format('ALTER TABLE clew.postings ATTACH PARTITION clew.%I FOR VALUES IN (%s)', 'postings_' || number, number);
END $$;
REVOKE ALL ON FUNCTION make_partition() FROM PUBLIC;
