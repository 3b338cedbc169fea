"""The embedded store: SQLite as the source of truth, with an exact or an HNSW index."""
