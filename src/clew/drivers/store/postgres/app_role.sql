-- The least that a program needs: to read and write rows of the collection that it names. It owns nothing, makes no
-- tables and is not free of row-level security. Run as the owner of the tables, who may make roles.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    CREATE ROLE clew_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
  END IF;
END $$;
GRANT USAGE ON SCHEMA clew TO clew_app;
GRANT SELECT ON clew.migrations TO clew_app;
DO $$
DECLARE
  here regclass;
BEGIN
  FOR here IN
    SELECT to_regclass('clew.' || name) FROM unnest(ARRAY['collections', 'documents', 'pieces', 'blocks', 'summaries',
      'chunks', 'signals', 'postings', 'shadows', 'summary_shadows', 'jobs', 'sessions', 'claims',
      'outlines', 'erasures', 'records']) AS name
  LOOP
    IF here IS NOT NULL THEN  -- a table of a later version comes with its rights
      EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO clew_app', here);
    END IF;
  END LOOP;
END $$;
GRANT USAGE ON SEQUENCE clew.chunk_rows TO clew_app;
GRANT EXECUTE ON FUNCTION clew.build_graph(text), clew.drop_graph(text), clew.make_partition() TO clew_app;
DO $$ BEGIN
  IF to_regnamespace('clew_seen') IS NOT NULL THEN
    GRANT USAGE ON SCHEMA clew_seen TO clew_app;
    GRANT SELECT ON ALL TABLES IN SCHEMA clew_seen TO clew_app;
  END IF;
END $$;
