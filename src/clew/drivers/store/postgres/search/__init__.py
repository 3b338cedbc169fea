"""Search in PostgreSQL: vectors, words, filters."""
