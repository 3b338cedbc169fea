"""The embedded store: SQLite as the source of truth, an exact or an HNSW index over it."""
