-- Vectors of chunks in half precision, two bytes a number: a row has the one column or the other, as its collection says.

ALTER TABLE collections ADD COLUMN is_half boolean NOT NULL DEFAULT false;
ALTER TABLE signals ALTER COLUMN vector DROP NOT NULL, ADD COLUMN half halfvec;
ALTER TABLE signals ADD CONSTRAINT one_vector CHECK (num_nonnulls(vector, half) = 1) NOT VALID;

-- As before, over the column that the collection has.
CREATE OR REPLACE FUNCTION build_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
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
