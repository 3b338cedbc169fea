"""Readers of plain text, Markdown, reStructuredText, LaTeX, notebooks and source code."""
