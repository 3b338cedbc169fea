-- The least that a program needs: to read and write rows of the collection that it names. It owns nothing, makes no
-- tables and is not free of row-level security. Run as the owner of the tables, who may make roles.

DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    CREATE ROLE clew_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
  END IF;
END $$;
GRANT USAGE ON SCHEMA clew, clew_seen TO clew_app;
GRANT SELECT ON clew.format TO clew_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON clew.collections, clew.documents, clew.outlines, clew.pieces, clew.blocks,
  clew.summaries, clew.chunks, clew.signals, clew.postings, clew.staged, clew.named TO clew_app;
GRANT EXECUTE ON FUNCTION clew.build_graph(text), clew.drop_graph(text), clew.make_partition() TO clew_app;
GRANT SELECT ON ALL TABLES IN SCHEMA clew_seen TO clew_app;
