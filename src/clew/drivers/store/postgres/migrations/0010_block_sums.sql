-- The checksum of each block, by which a search proves the places that it adds up: the server computes it whenever the
-- block is written. Arithmetic and no md5, as a search in a long thread compares hundreds of them.

ALTER TABLE blocks ADD COLUMN sum bigint GENERATED ALWAYS AS (
  ((((((doc & 1099511627775) * 1000003 + block) & 1099511627775) * 1000003 + chars) & 1099511627775) * 1000003 + chunks)) STORED;
ALTER TABLE blocks DROP CONSTRAINT blocks_pkey, ADD PRIMARY KEY (doc, block) INCLUDE (chars, chunks, sum);

-- With labels, as before; of blocks that are not as written, or do not add up to the document, no sizes: a chunk without
-- a place is refused.
CREATE OR REPLACE FUNCTION sizes_before(document bigint, piece int) RETURNS bigint[] LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  given text := current_setting('clew.access', true);
  whole bigint[];
  rest bigint[];
BEGIN
  IF NOT clew.sees_piece(document, piece) THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('clew.access', '', true);
  whole := (SELECT CASE WHEN bool_and(b.sum = ((((((b.doc & 1099511627775) * 1000003 + b.block) & 1099511627775) * 1000003 + b.chars) & 1099511627775) * 1000003 + b.chunks))
      AND (sum(b.chars), sum(b.chunks)) = (SELECT d.chars, d.chunks FROM clew.documents d WHERE d.row = document)
    THEN ARRAY[coalesce(sum(b.chars) FILTER (WHERE b.block < (piece >> 7)), 0),
      coalesce(sum(b.chunks) FILTER (WHERE b.block < (piece >> 7)), 0),
      coalesce(sum(b.chars) FILTER (WHERE b.block = (piece >> 7)), 0),
      coalesce(sum(b.chunks) FILTER (WHERE b.block = (piece >> 7)), 0)] END FROM clew.blocks b WHERE b.doc = document);
  rest := (SELECT ARRAY[coalesce(sum(p.chars) FILTER (WHERE p.n < piece), 0),
      coalesce(sum(p.chunks) FILTER (WHERE p.n < piece), 0), coalesce(sum(p.chars), 0), coalesce(sum(p.chunks), 0)]
    FROM clew.pieces p WHERE p.doc = document AND p.n >= ((piece >> 7) << 7) AND p.n < (((piece >> 7) + 1) << 7)
    AND p.message IS NOT NULL);
  PERFORM set_config('clew.access', given, true);
  IF whole[3:4] = rest[3:4] THEN
    RETURN ARRAY[whole[1] + rest[1], whole[2] + rest[2]];
  END IF;
  RETURN NULL;
END $$;
