"""Answers from a context: the passages that answer without a model, checked prose with one."""
