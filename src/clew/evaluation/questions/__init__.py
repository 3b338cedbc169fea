"""Judged questions: reading them, making them from a collection, and finding what they name in it."""
