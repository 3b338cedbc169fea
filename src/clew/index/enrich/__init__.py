"""Enrichment before embedding: the contexts of chunks, enclosing definitions of code, summaries of documents."""
