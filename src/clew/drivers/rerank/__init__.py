"""Rerankers: a question and texts in, scores out."""
