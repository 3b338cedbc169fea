"""Readers of PDF files and images of text."""
