"""NearestQuery in PostgreSQL: vectors, words, filters."""
