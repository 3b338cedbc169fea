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
BEGIN
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
REVOKE ALL ON FUNCTION build_graph(text) FROM PUBLIC;
