"""Rerankers: a question and texts in, a score a text out. `calibrated` turns a score into a chance from 0 to 1."""
