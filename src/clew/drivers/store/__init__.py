"""The stores: shared parts (BM25, rows, checks, verbs), and one folder for each backend."""
