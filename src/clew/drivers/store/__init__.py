"""The stores: SQLite holds what is true, an index over it makes it fast to find."""
