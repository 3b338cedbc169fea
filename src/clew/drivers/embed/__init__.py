"""Embedders: texts in, unit vectors out."""
