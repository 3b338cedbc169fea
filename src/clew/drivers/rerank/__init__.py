"""Rerankers: a query and texts in, one score per text out; `calibrate` turns a score into a probability."""
