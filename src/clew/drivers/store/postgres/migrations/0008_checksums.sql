-- The checksum of each row of the truth, which the server computes whenever the row is written and Clew compares
-- whenever it is read, so that damage is an error and never another text. It is of the columns as text, with the
-- character 31 between them; adding the columns computes those of the rows that are there.

ALTER TABLE documents ADD COLUMN sum bytea GENERATED ALWAYS AS (decode(md5(
  id || chr(31) || title || chr(31) || uri || chr(31) || kind || chr(31) || hash || chr(31) || stamp || chr(31)
  || chars || chr(31) || chunks || chr(31) || summary || chr(31) || meta || chr(31) || coalesce(access, '') || chr(31)
  || summary_by || chr(31) || coalesce(created, '') || chr(31) || coalesce(updated, '') || chr(31) || row), 'hex')) STORED;

ALTER TABLE pieces ADD COLUMN sum bytea GENERATED ALWAYS AS (decode(md5(
  doc || chr(31) || n || chr(31) || text || chr(31) || sections || chr(31) || chars || chr(31) || chunks || chr(31)
  || coalesce(message, '') || chr(31) || coalesce(parent, '') || chr(31) || coalesce(awaits, '')), 'hex')) STORED;

ALTER TABLE chunks ADD COLUMN sum bytea GENERATED ALWAYS AS (decode(md5(
  row || chr(31) || doc || chr(31) || coalesce(piece::text, '') || chr(31) || idx || chr(31) || start || chr(31) || stop
  || chr(31) || headings || chr(31) || context || chr(31) || coalesce(at, '') || chr(31) || meta || chr(31) || text
  || chr(31) || id), 'hex')) STORED;
