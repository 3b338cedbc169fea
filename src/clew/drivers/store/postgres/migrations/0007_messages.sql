-- A thread has a piece for each message, ordered by n, with the message's id, its parent and the missing message that it
-- answers. Its chunks name their piece, and their places are counted from its start, so that a thread is changed without
-- being written anew. `blocks` are the sizes of 128 pieces each, by which places in the whole are added up. What was
-- written before stays as it is until it is changed. `revision` is another after every change of a document.

ALTER TABLE documents ADD COLUMN revision bigint NOT NULL DEFAULT -1;
ALTER TABLE pieces
  ADD COLUMN chars bigint NOT NULL DEFAULT 0,
  ADD COLUMN chunks int NOT NULL DEFAULT 0,
  ADD COLUMN message text COLLATE "C",
  ADD COLUMN parent text COLLATE "C",
  ADD COLUMN awaits text COLLATE "C";
ALTER TABLE chunks ADD COLUMN piece int;
CREATE TABLE blocks(
  doc bigint NOT NULL REFERENCES documents(row) ON DELETE CASCADE,
  block int NOT NULL,
  collection int NOT NULL,
  chars bigint NOT NULL,
  chunks int NOT NULL,
  PRIMARY KEY (doc, block) INCLUDE (chars, chunks)
);
ALTER TABLE blocks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON blocks USING (collection = (SELECT clew.mine()));

CREATE INDEX pieces_sizes ON pieces(doc, n) INCLUDE (chars, chunks) WHERE message IS NOT NULL;
CREATE INDEX pieces_message ON pieces(doc, message) WHERE message IS NOT NULL;
CREATE INDEX pieces_parent ON pieces(doc, parent) WHERE parent IS NOT NULL;
CREATE INDEX pieces_awaits ON pieces(collection, awaits) WHERE awaits IS NOT NULL;
DROP INDEX chunks_doc;
CREATE INDEX chunks_doc ON chunks(doc, piece, idx);

DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'clew_app') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON clew.jobs, clew.blocks, clew.sessions, clew.claims TO clew_app;
  END IF;
END $$;
