"""Verifiers: how likely is it that a passage supports a claim?"""
