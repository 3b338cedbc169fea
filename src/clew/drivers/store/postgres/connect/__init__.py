"""Connections to PostgreSQL: pool, schema migrations, query planning, errors."""
