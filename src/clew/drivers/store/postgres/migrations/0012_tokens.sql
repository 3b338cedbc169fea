-- The token vectors of chunks, for late interaction: kept where a collection asks for them. A chunk that changes gets a
-- new row, so it has none; one whose row stays while its text changes loses them.

CREATE TABLE tokens(
  row bigint PRIMARY KEY REFERENCES chunks(row) ON DELETE CASCADE,
  collection int NOT NULL,
  model text COLLATE "C" NOT NULL,
  data bytea NOT NULL,
  sum bytea GENERATED ALWAYS AS (decode(md5(data), 'hex')) STORED
);
ALTER TABLE tokens ALTER COLUMN data SET STORAGE EXTERNAL;  -- they cannot be compressed

CREATE FUNCTION forget_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM clew.tokens WHERE row = NEW.row;
  RETURN NULL;
END $$;
CREATE TRIGGER says_other_tokens AFTER UPDATE OF text, headings, context ON chunks FOR EACH ROW
WHEN ((OLD.text, OLD.headings, OLD.context) IS DISTINCT FROM (NEW.text, NEW.headings, NEW.context))
EXECUTE FUNCTION forget_tokens();

-- Of a chunk that is seen; who sees a part changes nothing.
CREATE FUNCTION sees_chunk(chunk bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN EXISTS (SELECT FROM clew.chunks c WHERE c.row = chunk);
END $$;
ALTER TABLE tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON tokens USING (collection = (SELECT clew.mine()));
CREATE POLICY seen ON tokens AS RESTRICTIVE FOR SELECT
USING ((SELECT clew.sees_all()) OR clew.sees_chunk(row));
CREATE POLICY added ON tokens AS RESTRICTIVE FOR INSERT WITH CHECK ((SELECT clew.sees_all()));
CREATE POLICY changed ON tokens AS RESTRICTIVE FOR UPDATE USING ((SELECT clew.sees_all()));
CREATE POLICY removed ON tokens AS RESTRICTIVE FOR DELETE USING ((SELECT clew.sees_all()));
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON clew.tokens TO clew_app;
  END IF;
END $$;
