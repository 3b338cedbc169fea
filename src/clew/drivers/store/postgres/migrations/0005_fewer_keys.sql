-- A foreign key is checked row by row, for a new document of ten chunks twenty times, which took a third of its writing.
-- What goes with a document or a chunk goes by triggers instead, a statement at a time, as postings do. That a document
-- is there when chunks are written is still checked, once: by the key of its pieces.

ALTER TABLE chunks DROP CONSTRAINT chunks_doc_fkey;
ALTER TABLE signals DROP CONSTRAINT signals_row_fkey;

CREATE FUNCTION forget_chunks() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  DELETE FROM clew.chunks c USING gone g WHERE c.doc = g.row;
  RETURN NULL;
END $$;
CREATE TRIGGER forget_chunks AFTER DELETE ON documents
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_chunks();

CREATE FUNCTION forget_signals() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  DELETE FROM clew.signals s USING gone g WHERE s.row = g.row;
  RETURN NULL;
END $$;
CREATE TRIGGER forget_signals AFTER DELETE ON chunks
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_signals();
