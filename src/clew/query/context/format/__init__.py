"""Renders passages as prompt text."""
