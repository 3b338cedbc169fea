"""Judged questions: reading them, making them from a collection, and resolving their names in it."""
