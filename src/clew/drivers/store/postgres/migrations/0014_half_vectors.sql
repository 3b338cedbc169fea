-- int8 vectors of chunks are kept in half precision, two bytes a number, from which they are read again as they were: a
-- row has the one column or the other, by the embedder of its collection. Those that are there already are rewritten.

ALTER TABLE signals ALTER COLUMN vector DROP NOT NULL, ADD COLUMN half halfvec;
ALTER TABLE signals NO FORCE ROW LEVEL SECURITY;
ALTER TABLE collections NO FORCE ROW LEVEL SECURITY;
DO $$
DECLARE
  here int;
BEGIN
  FOR here IN SELECT number FROM clew.collections WHERE embedder LIKE '%#int8' LOOP
    EXECUTE format('DROP INDEX IF EXISTS clew.%I', 'signals_graph_' || here);
    UPDATE clew.signals SET half = vector, vector = NULL WHERE collection = here;
  END LOOP;
END $$;
ALTER TABLE collections FORCE ROW LEVEL SECURITY;
ALTER TABLE signals FORCE ROW LEVEL SECURITY;
ALTER TABLE signals ADD CONSTRAINT one_vector CHECK (num_nonnulls(vector, half) = 1) NOT VALID;

-- As before, over the column that the collection has.
CREATE OR REPLACE FUNCTION build_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                WHERE e.extname = 'vector');
  number int := clew.mine();
  width int := (SELECT dim FROM clew.collections WHERE collections.number = clew.mine());
  is_half boolean := (SELECT embedder LIKE '%#int8' FROM clew.collections WHERE collections.number = clew.mine());
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
    kind || '_graph_' || number, kind, CASE WHEN is_half AND kind = 'signals' THEN 'half' ELSE 'vector' END, here,
    width, here, number);
END $$;
