-- The postings of each collection are a partition of their own, postings_NUMBER: a search reads no page of another
-- collection, and a collection goes by emptying its partition instead of row by row. Collections that were made before
-- share one, postings_before, which is the table as it was. There is no default partition, so that making another one
-- waits for nobody.

ALTER TABLE postings RENAME TO postings_before;
ALTER INDEX postings_pkey RENAME TO postings_before_pkey;
CREATE TABLE postings (LIKE postings_before INCLUDING ALL) PARTITION BY LIST (collection);
ALTER TABLE postings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON postings USING (collection = (SELECT clew.mine()));
CREATE POLICY seen ON postings AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR chunk NOT IN (SELECT clew.hidden_chunks()));
CREATE POLICY added ON postings AS RESTRICTIVE FOR INSERT WITH CHECK ((SELECT clew.sees_all()));
CREATE POLICY changed ON postings AS RESTRICTIVE FOR UPDATE USING ((SELECT clew.sees_all()));
CREATE POLICY removed ON postings AS RESTRICTIVE FOR DELETE USING ((SELECT clew.sees_all()));

DO $$
DECLARE
  given record;
  made bigint := (SELECT last_value FROM pg_sequences
                  WHERE format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence('clew.collections', 'number'));
  policy name;
BEGIN
  FOR given IN  -- the same rights as on the table before
    SELECT a.grantee::regrole AS role, a.privilege_type AS kind FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = 'clew.postings_before'::regclass AND a.grantee <> 0 AND a.grantee <> c.relowner
  LOOP
    EXECUTE format('GRANT %s ON clew.postings TO %s', given.kind, given.role);
    EXECUTE format('REVOKE %s ON clew.postings_before FROM %s', given.kind, given.role);
  END LOOP;
  -- A partition has no policies: who names it in place of the whole table sees nothing.
  FOR policy IN SELECT polname FROM pg_policy WHERE polrelid = 'clew.postings_before'::regclass LOOP
    EXECUTE format('DROP POLICY %I ON clew.postings_before', policy);
  END LOOP;
  IF made IS NULL THEN
    DROP TABLE clew.postings_before;
  ELSE
    EXECUTE format('ALTER TABLE clew.postings ATTACH PARTITION clew.postings_before FOR VALUES IN (%s)',
      (SELECT string_agg(number::text, ', ') FROM generate_series(1, made) AS number));
  END IF;
END $$;

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
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    GRANT EXECUTE ON FUNCTION clew.make_partition() TO clew_app;
  END IF;
END $$;

-- As before, with the number of the collection in each statement, so that it touches no other partition.
CREATE OR REPLACE FUNCTION forget_postings() RETURNS trigger LANGUAGE plpgsql
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
CREATE OR REPLACE FUNCTION hidden_chunks() RETURNS SETOF bigint LANGUAGE plpgsql STABLE
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
CREATE OR REPLACE FUNCTION count_chunks(of_word bigint) RETURNS bigint LANGUAGE plpgsql STABLE
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
