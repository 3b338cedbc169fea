"""Readers of plain text, Markdown and source code."""
