"""Erasure: which documents and messages go, what they hold, and who quotes them."""
