"""Erasure: which documents and messages go, what they held, and what of it stands in the rest."""
