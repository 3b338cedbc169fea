"""Embedders: texts in, unit vectors out. `clew.drivers.make_embedder` opens one by its name."""
