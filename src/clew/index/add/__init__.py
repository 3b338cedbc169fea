"""The write path from sources to the store: find, plan, prepare, embed, put, backfill."""
