"""The write path: read, thread, chunk, enrich, store."""
