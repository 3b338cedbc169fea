"""The write path from sources to the store: discover, plan, prepare, embed and store, backfill."""
