"""Enrichment before embedding: contexts of chunks, enclosing definitions of code, summaries of documents."""
