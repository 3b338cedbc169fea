-- What is kept with a collection beside its content: tuned settings, runs of evaluations, what users said of answers. A
-- text is its rows in the order of their numbers, so that one grows without being rewritten.

CREATE TABLE records(
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  number bigint GENERATED ALWAYS AS IDENTITY,
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (collection, kind, name, number)
);
ALTER TABLE records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON records USING (collection = (SELECT clew.mine()));
-- A connection with labels reads the tuned settings, which its searches use, and no run or judgement: they name documents.
CREATE POLICY seen ON records AS RESTRICTIVE FOR SELECT USING ((SELECT clew.sees_all()) OR kind = 'tuned');
CREATE POLICY added ON records AS RESTRICTIVE FOR INSERT WITH CHECK ((SELECT clew.sees_all()));
CREATE POLICY changed ON records AS RESTRICTIVE FOR UPDATE USING ((SELECT clew.sees_all()));
CREATE POLICY removed ON records AS RESTRICTIVE FOR DELETE USING ((SELECT clew.sees_all()));

DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON clew.records TO clew_app;
  END IF;
END $$;
