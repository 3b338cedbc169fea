"""Embedders: texts in, unit vectors out. `clew.drivers.make_embedder` makes one by name."""
