"""Verifiers: the probability that a passage supports a claim."""
