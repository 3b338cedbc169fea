-- Row-level security: a connection sees the rows of the collection that it has named in clew.collection, and no others,
-- whatever a statement asks for. It holds for the owner of the tables too; only superusers and roles with BYPASSRLS are
-- free of it, which is why every statement of Clew also names its collection.

CREATE FUNCTION mine() RETURNS int LANGUAGE sql STABLE
RETURN (SELECT number FROM clew.collections WHERE name = current_setting('clew.collection', true));

ALTER TABLE collections ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON collections USING (name = current_setting('clew.collection', true));

ALTER TABLE documents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON documents USING (collection = (SELECT clew.mine()));

ALTER TABLE pieces ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON pieces USING (collection = (SELECT clew.mine()));

ALTER TABLE summaries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON summaries USING (collection = (SELECT clew.mine()));

ALTER TABLE chunks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON chunks USING (collection = (SELECT clew.mine()));

ALTER TABLE signals ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON signals USING (collection = (SELECT clew.mine()));

ALTER TABLE postings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON postings USING (collection = (SELECT clew.mine()));
