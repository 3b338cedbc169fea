-- Row-level security by labels of access. A connection that is given labels (clew.access: the hashes of the facets of
-- its labels, as an array) sees what has one of them and what has none, and changes nothing; with none of its own ('{}')
-- it sees nothing. One that is given none (unset or empty) sees and changes its whole collection, as before.
--
--   chunks, signals            a row with its own labels, among its facets
--   postings                   those of the chunks that are seen
--   documents, summaries       those of which all chunks are seen: a title and a summary are made of the whole
--   outlines                   threads of which some chunks are seen, without what was made of their messages
--   pieces                     those of the documents that are seen whole, and of messages that are seen
--   collections, migrations    all: they have counts and names of models, no content
--   blocks, shadows, summary_shadows, jobs, sessions, claims, erasures    nothing: who only reads does not need them
--
-- `admits` is the rule of Filter(access=…). The number is the hash of the facet that restricted chunks have.

CREATE FUNCTION sees_all() RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(current_setting('clew.access', true), '') = '';
CREATE FUNCTION labels() RETURNS bigint[] LANGUAGE sql STABLE
RETURN CAST(nullif(current_setting('clew.access', true), '') AS bigint[]);
CREATE FUNCTION admits(facets bigint[], labels bigint[]) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN cardinality(labels) > 0 AND (NOT facets @> '{-5938617013417215964}'::bigint[] OR facets && labels);

-- Whether a document has hidden chunks is asked of those alone that are restricted.
CREATE INDEX chunks_restricted ON chunks(doc) WHERE words @> '{-5938617013417215964}'::bigint[];

-- What is known of a thread without having read its messages. A row is kept for every thread, and seen in place of that
-- of `documents` where that is hidden in part.
CREATE TABLE outlines(
  row bigint PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  meta text NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  pieces int NOT NULL,
  facets bigint[] NOT NULL,
  access text,
  created text,
  updated text,
  revision bigint NOT NULL,
  UNIQUE (collection, id)
);
ALTER TABLE documents NO FORCE ROW LEVEL SECURITY;  -- of all collections
INSERT INTO outlines
SELECT row, collection, id, kind, meta, chars, chunks, pieces, facets, access, created, updated, revision
FROM documents WHERE kind = 'thread';
ALTER TABLE documents FORCE ROW LEVEL SECURITY;
CREATE FUNCTION keep_outline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.kind = 'thread' THEN
    INSERT INTO clew.outlines AS o VALUES (
      NEW.row, NEW.collection, NEW.id, NEW.kind, NEW.meta, NEW.chars, NEW.chunks, NEW.pieces, NEW.facets, NEW.access,
      NEW.created, NEW.updated, NEW.revision)
    ON CONFLICT (row) DO UPDATE SET meta = excluded.meta, chars = excluded.chars, chunks = excluded.chunks,
      pieces = excluded.pieces, facets = excluded.facets, access = excluded.access, created = excluded.created,
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

-- What is needed to finish an erasure names what is erased, so it is kept where labels hide it.
CREATE TABLE erasures(
  collection int PRIMARY KEY REFERENCES collections(number) ON DELETE CASCADE,
  text text NOT NULL                             -- JSON
);
ALTER TABLE collections NO FORCE ROW LEVEL SECURITY;  -- of all collections
INSERT INTO erasures SELECT number, erasing FROM collections WHERE erasing <> '';
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
ALTER TABLE collections DROP COLUMN erasing;

-- The functions below look past the labels, never past the collection, and tell no content: whether something is
-- hidden, how long it is, how many chunks have a word. They are STABLE, so they see the state that the query sees, and
-- planned once a connection.

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
  RETURN QUERY SELECT p.chunk FROM clew.postings p
    WHERE p.word = -5938617013417215964 AND p.collection = clew.mine() AND NOT EXISTS (SELECT FROM clew.postings l
      WHERE l.word = ANY(labels) AND l.collection = p.collection AND l.chunk = p.chunk);
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
  answer := (SELECT count(*) FROM clew.postings p WHERE p.word = of_word AND p.collection = clew.mine()
    AND p.count > 0);
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

-- What stands before a message that is seen in its thread: characters, then chunks.
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
  whole := (SELECT ARRAY[coalesce(sum(b.chars), 0), coalesce(sum(b.chunks), 0)] FROM clew.blocks b
    WHERE b.doc = document AND b.block < (piece >> 7));
  rest := (SELECT ARRAY[coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0)] FROM clew.pieces p
    WHERE p.doc = document AND p.n >= ((piece >> 7) << 7) AND p.n < piece AND p.message IS NOT NULL);
  PERFORM set_config('clew.access', given, true);
  RETURN ARRAY[whole[1] + rest[1], whole[2] + rest[2]];
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

-- What a connection with labels sees of each table …
CREATE POLICY own ON outlines USING (collection = (SELECT clew.mine()));
CREATE POLICY own ON erasures USING (collection = (SELECT clew.mine()));
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

-- … of these nothing, and it changes none.
DO $$
DECLARE
  here text;
  command text;
BEGIN
  ALTER TABLE clew.outlines ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  ALTER TABLE clew.erasures ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
  FOREACH here IN ARRAY ARRAY['blocks', 'shadows', 'summary_shadows', 'jobs', 'sessions', 'claims', 'erasures'] LOOP
    EXECUTE format('CREATE POLICY seen ON clew.%I AS RESTRICTIVE FOR SELECT USING ((SELECT clew.sees_all()))', here);
  END LOOP;
  FOREACH here IN ARRAY ARRAY['collections', 'documents', 'outlines', 'pieces', 'blocks', 'summaries', 'chunks',
    'signals', 'postings', 'shadows', 'summary_shadows', 'jobs', 'sessions', 'claims', 'erasures'] LOOP
    EXECUTE format('CREATE POLICY added ON clew.%I AS RESTRICTIVE FOR INSERT WITH CHECK ((SELECT clew.sees_all()))', here);
    EXECUTE format('CREATE POLICY changed ON clew.%I AS RESTRICTIVE FOR UPDATE USING ((SELECT clew.sees_all()))', here);
    EXECUTE format('CREATE POLICY removed ON clew.%I AS RESTRICTIVE FOR DELETE USING ((SELECT clew.sees_all()))', here);
  END LOOP;
END $$;

-- The two functions with the rights of the owner, as they were, except that they refuse a connection with labels.
CREATE OR REPLACE FUNCTION build_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                WHERE e.extname = 'vector');
  number int := clew.mine();
  width int := (SELECT dim FROM clew.collections WHERE collections.number = clew.mine());
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
    'CREATE INDEX IF NOT EXISTS %I ON clew.%I USING hnsw ((vector::%I.halfvec(%s)) %I.halfvec_l2_ops)'
    ' WITH (m = 16, ef_construction = 128) WHERE collection = %s',
    kind || '_graph_' || number, kind, here, width, here, number);
END $$;
CREATE OR REPLACE FUNCTION drop_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
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

-- The tables as the statements of Clew read them with labels, by the search path: a thread that is hidden in part is
-- there by its outline, hidden messages are blank, and chunks have their places in the whole. These views add nothing to
-- what the role may read by itself, except sizes. A row that is shown as it is stored has its checksum. One that is not
-- has an empty one, which is not compared: the server has compared that of a chunk before it changed its places.
CREATE SCHEMA clew_seen;
CREATE VIEW clew_seen.documents WITH (security_invoker = true) AS
SELECT row, collection, id, uri, title, kind, summary, meta, hash, stamp, chars, chunks, pieces, facets, access,
  summary_by, created, updated, revision, sum
FROM clew.documents
UNION ALL
SELECT row, collection, id, '', '', kind, '', meta, '', '', chars, chunks, pieces, facets, access,
  '', created, updated, revision, CAST('' AS bytea)
FROM clew.outlines;
CREATE VIEW clew_seen.chunks WITH (security_invoker = true) AS
SELECT row, doc, collection, id, CAST(NULL AS int) AS piece,
  CASE WHEN piece IS NULL THEN idx ELSE CAST(idx + (clew.sizes_before(doc, piece))[2] AS int) END AS idx,
  CASE WHEN piece IS NULL THEN start ELSE start + (clew.sizes_before(doc, piece))[1] END AS start,
  CASE WHEN piece IS NULL THEN stop ELSE stop + (clew.sizes_before(doc, piece))[1] END AS stop,
  length, print, headings, context, at, meta, channel, text, words,
  CASE WHEN piece IS NOT NULL AND sum = decode(md5(
    row || chr(31) || doc || chr(31) || piece || chr(31) || idx || chr(31) || start || chr(31) || stop || chr(31)
    || headings || chr(31) || context || chr(31) || coalesce(at, '') || chr(31) || meta || chr(31) || text || chr(31)
    || id), 'hex') THEN CAST('' AS bytea) ELSE sum END AS sum
FROM clew.chunks;
CREATE VIEW clew_seen.pieces WITH (security_invoker = true) AS
SELECT d.row AS doc, s.n, s.collection, coalesce(p.text, repeat(' ', CAST(s.chars AS int))) AS text,
  coalesce(p.sections, '[]') AS sections, coalesce(p.chars, s.chars) AS chars, coalesce(p.chunks, s.chunks) AS chunks,
  p.message, p.parent, p.awaits, coalesce(p.sum, CAST('' AS bytea)) AS sum
FROM clew_seen.documents d CROSS JOIN LATERAL clew.piece_sizes(d.row) s
  LEFT JOIN clew.pieces p ON p.doc = d.row AND p.n = s.n;

DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON clew.outlines, clew.erasures TO clew_app;
    GRANT USAGE ON SCHEMA clew_seen TO clew_app;
    GRANT SELECT ON ALL TABLES IN SCHEMA clew_seen TO clew_app;
  END IF;
END $$;
