-- Who may see a document, who wrote its summary, when it was written first and last, the jobs of a collection, and what
-- is needed to finish an erasure that was interrupted.

ALTER TABLE collections ADD COLUMN erasing text NOT NULL DEFAULT '';  -- JSON; hashes, no text

ALTER TABLE documents
  ADD COLUMN access text,                        -- JSON list of labels; null: everybody
  ADD COLUMN summary_by text NOT NULL DEFAULT '',
  ADD COLUMN created text,                       -- ISO 8601
  ADD COLUMN updated text;

CREATE TABLE jobs(
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  number bigint GENERATED ALWAYS AS IDENTITY,    -- greater means later
  id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  request text NOT NULL,                         -- JSON
  state text NOT NULL,
  stage text NOT NULL,
  done bigint NOT NULL,
  total bigint,                                  -- null: unknown
  result text NOT NULL,                          -- JSON
  error text NOT NULL,
  worker text NOT NULL,
  heartbeat float8,                              -- seconds of the server's clock
  attempts int NOT NULL,
  host text NOT NULL,                            -- of the files that it reads; empty: any
  created text NOT NULL,
  updated text NOT NULL,
  PRIMARY KEY (collection, id)
);
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON jobs USING (collection = (SELECT clew.mine()));

CREATE TABLE sessions(
  collection int NOT NULL REFERENCES collections(number) ON DELETE CASCADE,
  name text COLLATE "C" NOT NULL,
  documents text NOT NULL DEFAULT '[]',          -- JSON list of ids, in the order of their numbers
  messages text NOT NULL DEFAULT '[]',           -- JSON list of roles and texts
  used float8 NOT NULL,                          -- seconds since 1970
  kept boolean NOT NULL DEFAULT false,
  PRIMARY KEY (collection, name)
);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON sessions USING (collection = (SELECT clew.mine()));

-- Who is at work on a document, until when: what is paid for, such as a summary, is not made twice at the same time.
CREATE TABLE claims(
  row bigint PRIMARY KEY REFERENCES documents(row) ON DELETE CASCADE,
  collection int NOT NULL,
  owner text NOT NULL,
  until timestamptz NOT NULL
);
ALTER TABLE claims ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON claims USING (collection = (SELECT clew.mine()));

ALTER TABLE collections ADD COLUMN created timestamptz;
ALTER TABLE collections ALTER COLUMN created SET DEFAULT now();  -- unknown for those that are there already

-- The owner of the tables may see which collections there are, if the connection asks for that and names none.
CREATE POLICY listed ON collections FOR SELECT TO CURRENT_USER
USING (current_setting('clew.collection', true) = '*');
