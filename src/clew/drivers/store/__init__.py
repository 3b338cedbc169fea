"""The stores: what they share (BM25, columns, checks, order), and one folder for each."""
