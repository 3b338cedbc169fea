-- Vectors of another model beside those in use, until the collection is switched to it; then those of the model before.
-- A chunk that changes gets a new row, so it has no shadow; one whose row stays while its text changes loses it.

ALTER TABLE collections
  ADD COLUMN shadow text,                        -- the other model, if there is one
  ADD COLUMN shadow_dim int,
  ADD COLUMN shadow_was_used boolean NOT NULL DEFAULT false;

CREATE TABLE shadows(
  row bigint PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE,
  collection int NOT NULL,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);
CREATE TABLE summary_shadows(
  row bigint PRIMARY KEY REFERENCES summaries(row) ON DELETE CASCADE,
  collection int NOT NULL,
  vector vector NOT NULL
) WITH (toast_tuple_target = 8160);

ALTER TABLE shadows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON shadows USING (collection = (SELECT clew.mine()));
ALTER TABLE summary_shadows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON summary_shadows USING (collection = (SELECT clew.mine()));

CREATE FUNCTION forget_shadow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'chunks' THEN
    DELETE FROM clew.shadows WHERE row = NEW.row;
  ELSE
    DELETE FROM clew.summary_shadows WHERE row = NEW.row;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER says_other AFTER UPDATE OF text, headings, context ON chunks FOR EACH ROW
WHEN ((OLD.text, OLD.headings, OLD.context) IS DISTINCT FROM (NEW.text, NEW.headings, NEW.context))
EXECUTE FUNCTION forget_shadow();
CREATE TRIGGER says_other AFTER UPDATE OF vector ON summaries FOR EACH ROW
WHEN (OLD.vector IS DISTINCT FROM NEW.vector AND current_setting('clew.switching', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION forget_shadow();

-- A graph fits the width of its vectors, so it goes before they are exchanged. As build_graph: for those who do not own
-- the tables, with the owner's rights, and only for the collection of the connection.
CREATE FUNCTION drop_graph(kind text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF kind NOT IN ('signals', 'summaries') OR clew.mine() IS NULL THEN
    RAISE EXCEPTION 'a graph is of the signals or summaries of a collection';
  END IF;
  EXECUTE format('DROP INDEX IF EXISTS clew.%I', kind || '_graph_' || clew.mine());
END $$;
REVOKE ALL ON FUNCTION drop_graph(text) FROM PUBLIC;
