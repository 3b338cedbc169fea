"""Embedders: texts in, unit vectors out. `clew.drivers.embedder` finds one by its name."""
