"""Readers of web pages and HTML."""
