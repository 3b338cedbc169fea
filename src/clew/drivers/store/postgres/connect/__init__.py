"""Connections to PostgreSQL: pool, tables, query planning, errors."""
